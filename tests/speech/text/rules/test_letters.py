"""Letters that are named, and those that are read as a word."""

import pytest

from tests.speech.text.rules.reading import read_aloud


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("NASA and the FBI", "nasa and the f b i"),
        ("the U.S. Army", "the u s army"),
        ("J. R. R. Tolkien", "j r r tolkien"),
        ("Louis XIV", "louis the fourteenth"),
        ("Chapter IV", "chapter four"),
        ("I am here", "i am here"),
        ("the XX century", "the twentieth century"),
        ("AT&T", "a t and t"),
        ("C++ and C#", "c plus plus and c sharp"),
        ("B2B", "b to b"),
        ("user_name_2", "user underscore name underscore two"),
        ("THIS IS LOUD", "this is loud"),
        ("COVID-19", "covid nineteen"),
        ("straight A student", "straight a student"),
        ("Ph.D.", "p h d"),
    ],
)
def test_readings(written, spoken):
    assert read_aloud(written) == spoken
