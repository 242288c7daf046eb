"""hibari's reader, in its own symbols and in ARPAbet."""

import contextlib
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import clock_attention.speech.voice
from clock_attention.speech.text.hibari import ARPABET, ArpabetPhonemizer, HibariPhonemizer, hibari_g2p
from clock_attention.speech.text.phonemes import (
    NO_WORD,
    PAUSE_STRENGTH,
    Phonemizer,
    UnreadableTextError,
)
from clock_attention.speech.voice.voice_folder import CARD

HIBARI = HibariPhonemizer()


ARPA = ArpabetPhonemizer()


def test_stress_rides_on_the_vowel_and_boundaries_stand_between_words() -> None:
    phonemes = HIBARI("Hello there, Dr. Bell.")
    assert " ".join(phonemes.tokens) == "h ə l ˈO   ð ˈɛ ɹ , d ˈɑ k t ə ɹ   b ˈɛ l ."
    assert phonemes.words == ("Hello", "there", "Dr.", "Bell")
    assert phonemes.word_index == (0, 0, 0, 0, -1, 1, 1, 1, -1, *[2] * 6, -1, 3, 3, 3, -1)


def test_a_number_is_one_written_word_with_several_spoken_ones() -> None:
    phonemes = HIBARI("paid $3.50")
    assert phonemes.words == ("paid", "$3.50")
    spoken = "".join(token for token, word in zip(phonemes.tokens, phonemes.word_index, strict=True) if word == 1)
    assert spoken == "θɹˈi dˈɑləɹz ænd fˈɪfti sˈɛnts"


def test_plain_sentences_are_read_as_the_default_voice_was_trained() -> None:
    prompts = Path(__file__).parents[4] / "shared" / "text" / "harvard_720.txt"
    if not prompts.is_file():
        pytest.skip("../shared/text/harvard_720.txt is not here")
    for text in prompts.read_text("utf-8").splitlines()[::6]:
        words = re.sub("[^\\w ˈˌ]", " ", hibari_g2p()(text)).split()
        read_aloud = [phones for word in words for phones in HIBARI.phones(word)]
        assert [token for token in HIBARI(text).tokens if token not in PAUSE_STRENGTH] == read_aloud, text


def test_the_inventory_is_the_one_that_the_default_voice_was_trained_with() -> None:
    card = json.loads((Path(clock_attention.speech.voice.__path__[0]) / "voices" / "default" / CARD).read_text("utf-8"))
    assert tuple(card["language"]["symbols"]) == HIBARI.symbols


def test_arpabet_is_the_papers_inventory() -> None:
    assert len(ARPA.symbols) == len(set(ARPA.symbols)) == 42
    assert (
        " ".join(ARPA("The third bird, her brother's?").tokens) == "DH AH   TH ER D   B ER D , HH ER   B R AH DH ER Z ."
    )
    assert set(ARPABET.values()) == set(ARPA.PHONES)


@pytest.mark.parametrize("reader", [HIBARI, ARPA], ids=["hibari", "arpabet"])
@given(text=st.text(max_size=80))
def test_any_text_is_read_within_the_inventory_or_refused_clearly(reader: Phonemizer, text: str) -> None:
    try:
        phonemes = reader(text)
    except UnreadableTextError:
        return
    assert set(phonemes.tokens) <= set(reader.symbols)
    assert phonemes == reader(text)
    assert len(phonemes.tokens) == len(phonemes.word_index)
    spoken = [word for word in phonemes.word_index if word != NO_WORD]
    assert spoken == sorted(spoken)
    assert set(spoken) == set(range(len(phonemes.words)))


@given(text=st.text(alphabet="abz 0123456789.,-$%:/'", max_size=60))
def test_any_arrangement_of_digits_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(UnreadableTextError):
        assert HIBARI(text).tokens
