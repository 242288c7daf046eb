"""Convert IPA, as people and dictionaries write it, to the symbols of the default phonemizer.

These are IPA too, with single letters for what American English treats as one sound: A I O W Y for the diphthongs of
"say", "sigh", "so", "how" and "boy", ʤ ʧ for the affricates, T for the flapped t. Sounds that English lacks become the
nearest English sound.
"""

from __future__ import annotations

import re
import unicodedata

CONSONANTS = tuple("bdfhjklmnpstvwzðŋɡɹʃʒʤʧθT")
STRESSABLE = tuple("æɑAɔWIɛɜiɪOYuʊʌ")
REDUCED = tuple("əᵊᵻɐ")
# Longer ones first if they share a prefix.
EQUIVALENT = {
    **{"tʃ": "ʧ", "t͡ʃ": "ʧ", "dʒ": "ʤ", "d͡ʒ": "ʤ", "t͡s": "ts", "ts": "ts", "eɪ": "A", "aɪ": "I", "oʊ": "O", "əʊ": "O"},
    **{"aʊ": "W", "ɔɪ": "Y", "ɒɪ": "Y", "ɔʏ": "Y", "ej": "A", "aj": "I", "ow": "O", "aw": "W", "oj": "Y", "ɔj": "Y"},
    **{"ɛə": "ɛ", "eə": "ɛ", "ɪə": "iə", "ʊə": "ʊə", "ɚ": "əɹ", "ɝ": "ɜɹ", "ɑ̃": "ɑn", "ɛ̃": "æn", "ɔ̃": "ɔn", "œ̃": "ʌn"},
    **{"ã": "ɑn", "õ": "On", "n̩": "ᵊn", "l̩": "ᵊl", "m̩": "ᵊm", "ɹ̩": "əɹ", "kʰ": "k", "pʰ": "p", "tʰ": "t"},
    **{
        "r": "ɹ",
        "g": "ɡ",
        "e": "A",
        "a": "ɑ",
        "o": "O",
        "ɒ": "ɑ",
        "y": "u",
        "ø": "ɜ",
        "œ": "ɜ",
        "ʏ": "u",
        "ɨ": "ᵻ",
        "ʉ": "u",
    },
    **{
        "ɘ": "ə",
        "ɵ": "ə",
        "ɤ": "ʌ",
        "ɯ": "u",
        "ɞ": "ɜ",
        "ɶ": "æ",
        "ɾ": "T",
        "ʔ": "t",
        "x": "k",
        "χ": "k",
        "ɣ": "ɡ",
        "ç": "h",
    },
    **{
        "ʁ": "ɹ",
        "ʀ": "ɹ",
        "ɻ": "ɹ",
        "ɽ": "ɹ",
        "ʍ": "w",
        "ɥ": "j",
        "ɲ": "nj",
        "ʎ": "lj",
        "ɬ": "l",
        "ɫ": "l",
        "ɭ": "l",
        "ʋ": "v",
    },
    **{
        "β": "v",
        "ɸ": "f",
        "ɱ": "m",
        "ɳ": "n",
        "ʂ": "ʃ",
        "ʐ": "ʒ",
        "ɕ": "ʃ",
        "ʑ": "ʒ",
        "ɟ": "ɡ",
        "c": "k",
        "q": "k",
        "ɦ": "h",
    },
    **{
        "ħ": "h",
        "ʕ": "h",
        "ɴ": "ŋ",
        "ɰ": "w",
        "ʈ": "t",
        "ɖ": "d",
        "ʦ": "ts",
        "ʣ": "dz",
        "ɢ": "ɡ",
        "ƶ": "ʒ",
        "Q": "O",
        "ʘ": "p",
    },
}
IGNORED = frozenset("ːˑ.‿ʰʲʷˠˤ̪̯̩̥̬̃͡ ̆̈̊'ˑ-")
OWN = frozenset((*CONSONANTS, *STRESSABLE, *REDUCED))
RE_SYMBOL = re.compile("|".join(re.escape(symbol) for symbol in sorted((*EQUIVALENT, *OWN), key=len, reverse=True)))


def phones(ipa: str) -> tuple[tuple[str, ...], ...]:
    """Convert an IPA transcription to the phones of each word, with stress on the vowel that carries it.

    Raises:
        ValueError: if a symbol is not IPA.
    """
    words = [word for written in ipa.strip().strip("/[]").split() if (word := phones_of_word(written))]
    if not words:
        raise ValueError(f"{ipa!r} is no pronunciation: give IPA, for example /ʃɪˈvɔːn/")
    return tuple(words)


def phones_of_word(written: str) -> tuple[str, ...]:
    """Convert the IPA transcription of one word to phones."""
    symbols = unicodedata.normalize("NFD", written).replace("c\u0327", "ç").replace("ˈˈ", "ˈ")
    found: list[str] = []
    stress, place = "", 0
    while place < len(symbols):
        character = symbols[place]
        if character in "ˈˌ'":
            stress, place = "ˈ" if character == "'" else character, place + 1
            continue
        match = RE_SYMBOL.match(symbols, place)
        if match is None:
            if character not in IGNORED and not unicodedata.combining(character):
                raise ValueError(
                    f"{character!r} in {written!r} is no IPA symbol: see the table in docs, or respell the word"
                )
            place += 1
            continue
        for symbol in EQUIVALENT.get(match.group(), match.group()):
            found.append(stress + symbol if symbol in STRESSABLE else symbol)
            if symbol in STRESSABLE or symbol in REDUCED:
                stress = ""
        place = match.end()
    vowels = [place for place, phone in enumerate(found) if phone[-1] in STRESSABLE]
    if len(vowels) == 1 and found[vowels[0]] in STRESSABLE:
        found[vowels[0]] = "ˈ" + found[vowels[0]]  # a single syllable is stressed, though dictionaries omit the mark
    return tuple(found)
