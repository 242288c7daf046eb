"""Where a long recording is cut."""

import numpy as np

from clock_attention.speech.aligner.long_pieces import LONGEST, SHORTEST, Cutter
from clock_attention.speech.aligner.long_tracking import TextStates

WORDS = 30
STATES = TextStates.of([[1, 2]] * WORDS)


def recording(word=80, pause=60, left_out=range(0), unwritten=None):
    """States and silence of words of `word` steps with pauses between; `unwritten` steps of speech before one word."""
    path, silent = [], []

    def add(state, steps, quiet):
        path.extend([state] * steps)
        silent.extend([quiet] * steps)

    for number in range(WORDS):
        add(4 * number, pause, True)
        if unwritten and number == unwritten[0]:
            add(4 * number + 1, unwritten[1], False)
            add(4 * number, pause, True)
        if number not in left_out:
            add(4 * number + 2, word // 2, False)
            add(4 * number + 3, word // 2, False)
    return np.array(path, np.int32), np.array(silent)


def cut(path, silent, block=500):
    cutter = Cutter(STATES)
    found = []
    for start in range(0, len(path), block):
        found += cutter.cut(path[start : start + block], silent[start : start + block])
    return [*found, *cutter.finish()]


def test_pieces_cover_the_recording_and_hold_every_word_once():
    path, silent = recording()
    pieces = cut(path, silent)
    assert len(pieces) > 2
    assert [piece.start for piece in pieces] == [0, *(piece.end for piece in pieces[:-1])]
    assert pieces[-1].end == len(path)
    assert [word for piece in pieces for word in range(piece.first, piece.stop)] == list(range(WORDS))
    for piece in pieces[:-1]:
        assert SHORTEST <= piece.end - piece.start <= LONGEST
        assert silent[piece.end - 5 : piece.end + 5].all()  # never through a word


def test_blocks_do_not_matter():
    path, silent = recording()
    assert cut(path, silent, 100) == cut(path, silent, 10**6)


def test_speech_that_is_not_written_has_a_piece_of_its_own():
    pieces = cut(*recording(unwritten=(15, 600)))
    alone = [piece for piece in pieces if piece.first == piece.stop and piece.speech]
    assert len(alone) == 1
    assert alone[0].end - alone[0].start > 500


def test_many_words_that_were_not_spoken_belong_to_no_piece():
    pieces = cut(*recording(left_out=range(10, 20)))
    held = [word for piece in pieces for word in range(piece.first, piece.stop)]
    assert held == [*range(10), *range(20, WORDS)]
