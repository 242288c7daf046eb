"""Visemes: the mouth shapes of phones, for animation.

The set of fifteen that Oculus and the ARKit rigs of most avatars use. Diphthongs move from one shape to another.
"""

from __future__ import annotations

from collections.abc import Iterable

from clock_attention.speech.text.ipa import phones_of_word
from clock_attention.timestamps import Interval

SILENCE = "sil"
# fmt: off
PHONES = {
    "PP": "p b m P B M", "FF": "f v F V", "TH": "θ ð TH DH", "DD": "t d T D", "kk": "k ɡ K G",
    "CH": "ʧ ʤ ʃ ʒ CH JH SH ZH", "SS": "s z S Z", "nn": "n l ŋ N L NG", "RR": "ɹ ɜ R ER",
    "aa": "æ ɑ ʌ ɐ ə ᵊ h AA AE AH HH", "E": "ɛ EH", "ih": "ɪ i j ᵻ IH IY Y", "oh": "ɔ AO", "ou": "u ʊ w UW UH W",
}
DIPHTHONGS = {
    "A": ("E", "ih"), "I": ("aa", "ih"), "O": ("oh", "ou"), "EY": ("E", "ih"), "AY": ("aa", "ih"),
    "OW": ("oh", "ou"), "AW": ("aa", "ou"), "OY": ("oh", "ih"),
}
# fmt: on
VISEMES = {phone: viseme for viseme, phones in PHONES.items() for phone in phones.split()}
# W, Y and T are phonemes of both inventories: in IPA the vowels of "how" and "boy" and the flapped t.
IPA_DIPHTHONGS = {"W": ("aa", "ou"), "Y": ("oh", "ih")}
GLIDE = 0.6  # of a diphthong's time before it moves to the second shape


def shapes(phone: str, *, arpabet: bool = False) -> tuple[str, ...]:
    """The viseme of a phone, or the two of a diphthong."""
    bare = phone.strip("ˈˌ")
    if not bare:
        return (SILENCE,)
    if not arpabet and bare in IPA_DIPHTHONGS:
        return IPA_DIPHTHONGS[bare]
    if bare in DIPHTHONGS:
        return DIPHTHONGS[bare]
    if bare in VISEMES:
        return (VISEMES[bare],)
    try:
        known = phones_of_word(bare)  # IPA in another spelling: eSpeak's
    except ValueError:
        return (SILENCE,)
    return tuple(shape for symbol in known for shape in shapes(symbol)) if known != (phone,) else (SILENCE,)


def viseme_intervals(phones: Iterable[Interval]) -> list[Interval]:
    """Viseme intervals for the intervals of phones; neighbours of the same shape are merged."""
    phones = list(phones)
    arpabet = any(len(phone.label) == 2 and phone.label.isascii() and phone.label.isupper() for phone in phones)
    found: list[Interval] = []
    for phone in phones:
        sequence = shapes(phone.label, arpabet=arpabet)
        start = phone.start
        for place, shape in enumerate(sequence, start=1):
            share = GLIDE if len(sequence) == 2 and place == 1 else place / len(sequence)
            end = phone.end if place == len(sequence) else phone.start + (phone.end - phone.start) * share
            if found and found[-1].label == shape and abs(found[-1].end - start) < 1e-6:
                found[-1] = Interval(found[-1].start, end, shape)
            elif end > start:
                found.append(Interval(start, end, shape))
            start = end
    return found
