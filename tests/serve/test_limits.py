"""What one request may ask for."""

import pytest

from clock_attention.serve.limits import ServerLimits


def test_long_texts_are_refused_with_both_numbers():
    ServerLimits(characters=1000).check_text("x" * 1000)
    with pytest.raises(ValueError, match="the text has 1,001 characters; this server takes 1,000 at a time"):
        ServerLimits(characters=1000).check_text("x" * 1001)


@pytest.mark.parametrize(
    "wrong", [{"characters": 0}, {"seconds": 0.0}, {"body": 10}, {"waiting": -1}, {"deadline": float("nan")}]
)
def test_limits_that_refuse_everything_are_refused(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=f"{name}: got .*, expected at least"):
        ServerLimits(**wrong)
