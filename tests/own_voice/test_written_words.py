"""Words of a cut recording as they are written in its text."""

from clock_attention.own_voice.written_words import written
from clock_attention.speech.corpus.cutting import TimedWord


def test_words_keep_the_punctuation_of_the_text():
    words = [TimedWord(0, 1, "Well"), TimedWord(1, 2, "he"), TimedWord(2, 3, "said")]
    assert [word.text for word in written(words, "Well, he said: no.")] == ["Well,", "he", "said:"]  # no "no" was heard
    assert written(words, "something else") == words


def test_words_keep_their_punctuation_beside_what_was_normalised():
    labels = "Well I don't know in eighteen seventy six he cost one dollar and one more"
    words = [TimedWord(i, i + 1, label) for i, label in enumerate(labels.split())]
    found = [word.text for word in written(words, "“Well, I don’t know!” In 1876, he cost $1 – and one more.")]
    assert found == [
        *("Well,", "I", "don’t", "know!”", "In", "eighteen", "seventy", "six", "he", "cost"),
        *("one", "dollar", "and", "one", "more."),
    ]


def test_words_keep_their_punctuation_behind_a_ruled_line_and_ligatures():
    text = f"He left the \ufb01eld. {'- ' * 50} She stayed. And then, well: nothing!"
    labels = "He left the field She stayed And then"
    words = [TimedWord(i, i + 1, label) for i, label in enumerate(labels.split())]
    found = [word.text for word in written(words, text)]
    assert found == ["He", "left", "the", "field", "She", "stayed.", "And", "then,"]


def test_signs_that_are_words_belong_to_what_they_touch():
    text = "Only 5% of them, at 20°C; 3+4=7 & so on."
    labels = ("Only", "5", "%", "of", "them", "at", "20", "°C", "3", "+", "4", "=", "7", "&", "so", "on")
    words = [TimedWord(i, i + 1, label) for i, label in enumerate(labels)]
    found = written(words, text)
    assert " ".join(word.text for word in found) == text
    assert (found[1].text, found[1].start, found[1].end) == ("5%", 1, 3)
