import pytest

from clock_attention.speech.corpus.speakers import SpeakerStatistics


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"std": (1.0,)}, "one for each mel bin"),
        ({"std": (1.0, 0.0)}, "positive"),
        ({"mean": (0.0, 2000.0)}, "logarithms"),
        ({"mpr": 0.0}, "mpr"),
        ({"mean": (0.0, float("nan"))}, "finite"),
    ],
)
def test_statistics_that_would_spoil_the_sound_are_refused(change, message) -> None:
    good = {"name": "ann", "mean": (0.0, 1.0), "std": (1.0, 1.0), "mpr": 6.0}
    assert SpeakerStatistics.model_validate(good).name == "ann"
    with pytest.raises(ValueError, match=message):
        SpeakerStatistics.model_validate(good | change)
