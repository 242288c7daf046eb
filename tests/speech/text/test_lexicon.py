from pathlib import Path

import pytest

from clock_attention.speech.text.lexicon import Lexicon, built_in, load_lexicon, parse_lexicon
from clock_attention.speech.text.phonemizers import phonemizer


def read_aloud(text: str, **entries: str) -> str:
    return "".join(phonemizer("hibari", Lexicon(entries))(text).tokens)


def test_a_reading_is_ipa_between_slashes_or_a_respelling() -> None:
    assert read_aloud("Zyx!", Zyx="/ʃɪˈvɔːn/") == "ʃɪvˈɔn!"
    assert read_aloud("use SQL", SQL="sequel") == read_aloud("use sequel")


def test_lower_case_matches_any_case_and_capitals_only_themselves() -> None:
    assert read_aloud("ABBA Abba", abba="other word") == read_aloud("other word other word")
    assert read_aloud("polish", Polish="/ˈpoʊlɪʃ/") == read_aloud("polish")
    assert read_aloud("Polish", Polish="/ˈpoʊlɪʃ/") == "pˈOlɪʃ"


@pytest.mark.parametrize(("ipa", "ending"), [("/mæk/", "s"), ("/niːv/", "z"), ("/riːs/", "ᵻz")])
def test_the_possessive_is_derived(ipa: str, ending: str) -> None:
    assert read_aloud("Qq's", Qq=ipa) == read_aloud("Qq", Qq=ipa) + ending


def test_words_of_the_user_win_over_built_in_names_and_rules() -> None:
    assert read_aloud("Xi", Xi="/zaɪ/") == "zˈI"
    assert read_aloud("5 km", km="clicks") == read_aloud("five clicks")
    assert read_aloud("C# and Node.js.", **{"C#": "see sharp", "Node.js": "node"}) == read_aloud("see sharp and node.")


def test_built_in_names_are_checked_and_match_without_accents() -> None:
    names = built_in()
    assert len(names.entries) > 250
    assert names.reading("Dvorak") == names.reading("Dvořák")
    assert names.reading("Jesus") is None


def test_a_pronunciation_inside_the_text_wins_over_everything() -> None:
    assert (
        read_aloud("[Xi](/zaɪ/), [5](/kwɪnt/) [the guide](https://example.com)")
        == f"zˈI,kwˈɪnt {read_aloud('the guide')}"
    )


@pytest.mark.parametrize("name", ["hibari", "arpabet"])
def test_every_phonemizer_stays_within_its_inventory(name: str) -> None:
    reader = phonemizer(name, Lexicon({"zzz": "/ˈçøːʁɲɬ tʃaɪəː/"}))
    assert set(reader(f"zzz {' '.join(built_in().entries)}").tokens) <= set(reader.symbols)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("Siobhan", "not TOML"),
        ("Dvořák = '/a/'", "in quotes"),
        ("word = 5", "expected a reading in quotes"),
        ('"two words" = "/a/"', "without spaces"),
        ('word = "/q7/"', "is no IPA symbol"),
        ('word = "//"', "IPA between two slashes"),
        ('word = "/ab"', "IPA between two slashes"),
        ('word = "12"', "words to say instead"),
        ('word = ""', "words to say instead"),
        ("[table]\nword = 'x'", "expected a reading in quotes"),
    ],
)
def test_a_faulty_lexicon_is_refused_by_name(content: str, fault: str) -> None:
    with pytest.raises(ValueError, match=fault) as refusal:
        parse_lexicon(content, "lexicon mine.toml")
    assert "mine.toml" in str(refusal.value)


def test_a_lexicon_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        load_lexicon(tmp_path / "missing.toml")
    (tmp_path / "latin.toml").write_bytes(b"a = '\xe9'")
    with pytest.raises(ValueError, match="not UTF-8"):
        load_lexicon(tmp_path / "latin.toml")


@pytest.mark.parametrize(
    "content",
    ["a = " + "[" * 3000, "a = " + "{a=" * 1200, "a = " + "9" * 3900, ".".join("a" * 50_000) + ' = "x"'],
)
def test_depth_digits_and_parts_without_end_are_refused(content: str) -> None:
    with pytest.raises(ValueError, match=r"lexicon x: (not TOML|a line of more|'a' has)"):
        parse_lexicon(content, "lexicon x")


def test_a_word_does_not_become_a_book(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'the' has a reading of 201 characters, at most 200"):
        parse_lexicon(f'the = "{"x" * 201}"', "lexicon x")
    (tmp_path / "a.toml").write_text("\n" * 5_000_001)
    with pytest.raises(ValueError, match="larger than 5,000,000 bytes"):
        load_lexicon(tmp_path / "a.toml")
