"""Where sentences end."""

import pytest

from clock_attention.speech.text.rules.sentence_endings import begins_sentence
from tests.speech.text.rules.reading import count


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("He left. She stayed.", 2),
        ("He left at 5 p.m. She stayed.", 2),
        ("He left at 5 p.m. yesterday.", 1),
        ("Dr. Smith left.", 1),
        ("The U.S. Army left.", 1),
        ("It is in the U.S. They left.", 2),
        ('He said "No." Then he left.', 2),
        ("One etc. two.", 1),
        ("It cost 5. 7 were left.", 2),
        ("Title\nText", 2),
        ("No.", 1),
    ],
)
def test_a_stop_ends_a_sentence_where_one_begins(text, sentences):
    assert count(text) == sentences


def test_after_an_abbreviation_only_a_clear_beginning_counts():
    text = "approx. Smith"
    assert not begins_sentence(text, 7, after_abbreviation=True)
    assert begins_sentence(text, 7, after_abbreviation=False)
    assert begins_sentence("etc. The", 4, after_abbreviation=True)
    assert begins_sentence("the end.", 8, after_abbreviation=True)
