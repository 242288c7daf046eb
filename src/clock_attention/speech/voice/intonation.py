"""Intonation that the text calls for and that a voice may not have learned: rising questions."""

from __future__ import annotations

import numpy as np

from clock_attention.alignment import FloatArray
from clock_attention.speech.text.phonemes import NO_WORD, Phonemes

RISE = 10.0  # semitones at the end of a question, from 0.6 of that in its last stressed vowel, where statements fall
# In English, questions that start with one of these fall.
ASKING = frozenset(["what", "when", "where", "which", "who", "whom", "whose", "why", "how"])
STRESS = "ˈ"


def question_rise(phonemes: Phonemes) -> FloatArray | None:
    """Intonation of a question in semitones: silence before, tokens, silence after (T + 2,); None if nothing rises.

    Yes–no questions rise from their last stressed vowel on, or through the last word if stress is not marked.
    """
    if not phonemes.words or phonemes.tokens[-1] != "?" or phonemes.words[0].casefold() in ASKING:
        return None
    spoken = [place for place, word in enumerate(phonemes.word_index) if word != NO_WORD]
    stressed = [place for place in spoken if STRESS in phonemes.tokens[place]]
    last_word = [place for place in spoken if phonemes.word_index[place] == phonemes.word_index[spoken[-1]]]
    first = stressed[-1] if stressed else last_word[0]
    rise = np.zeros(len(phonemes) + 2)
    rise[first + 1 :] = RISE * np.linspace(0.6, 1.0, len(phonemes) + 1 - first)
    return rise
