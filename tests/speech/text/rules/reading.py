"""How a text is read, in words."""

from clock_attention.speech.text.sentences import sentences
from tests.readings.cases import normalized


def read_aloud(text: str) -> str:
    return normalized(" ".join(sentence.spoken for sentence in sentences(text)))


def count(text: str) -> int:
    """Sentences."""
    return len(list(sentences(text)))
