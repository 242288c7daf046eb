import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clock_attention.speech.corpus import store_alignment
from clock_attention.speech.corpus.feature_extraction import Settings
from clock_attention.speech.corpus.joined_stores import JoinedStore
from clock_attention.speech.corpus.language import Language
from clock_attention.speech.corpus.prepare import prepare
from clock_attention.speech.corpus.shards import Progress
from clock_attention.speech.corpus.store import FeatureStore
from clock_attention.speech.corpus.store_alignment import align_store, whole_frames
from clock_attention.speech.corpus.teacher import TeacherPhrase
from tests.speech.corpus.aligners import EvenAligner, Times


@pytest.fixture
def fresh(readings: list[TeacherPhrase], store_settings: Settings, tmp_path: Path) -> FeatureStore:
    return prepare(readings, tmp_path / "store", store_settings, workers=1)


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_alignment, "SHARD_UTTERANCES", 3)


def test_an_aligned_store_has_durations_and_pitch(fresh: FeatureStore) -> None:
    assert not fresh.timed
    store, listed = align_store(fresh.path, EvenAligner, name="even", workers=1)
    assert store.timed
    assert len(listed) == len(store)
    assert {row.reason for row in listed} == {""}
    for index, row in enumerate(store.utterances):
        durations = store.durations(index)
        assert len(durations) == len(row.tokens) + 2
        assert durations.sum() == row.frames == len(store.pitch(index))
        assert durations[0] == pytest.approx(0.1 * store.mel_config.frames_per_second, abs=1)
    voiced = np.exp(store.contour[store.contour > 0].astype(float))
    assert 0.2 < len(voiced) / len(store.contour) < 0.9
    assert 80 < np.median(voiced) < 300
    assert store.pitch_mean == pytest.approx(np.log(voiced).mean(), abs=0.1)
    assert store.energy_std > 0.1
    assert Language.of(store).prosody.pitch_mean == store.pitch_mean
    assert not (store.path / "aligning").exists()


@pytest.mark.usefixtures("small_shards")
def test_an_interrupted_alignment_continues_and_a_finished_one_is_not_repeated(fresh: FeatureStore) -> None:
    finished: list[Progress] = []

    def interrupt(progress: Progress) -> None:
        finished.append(progress)
        if len(finished) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        align_store(fresh.path, EvenAligner, name="even", workers=1, report=interrupt)
    assert not FeatureStore.open(fresh.path).timed
    finished.clear()
    align_store(fresh.path, EvenAligner, name="even", workers=1, report=finished.append)
    assert [progress.resumed for progress in finished] == [True, True, False, False]
    finished.clear()
    _, listed = align_store(fresh.path, EvenAligner, name="even", workers=1, report=finished.append)
    assert not finished
    assert len(listed) == len(fresh)


def test_what_does_not_fit_is_left_out_and_listed_first(fresh: FeatureStore) -> None:
    unheard, doubtful = fresh.utterances[1].words[0], fresh.utterances[2].words[-1]
    make = partial(EvenAligner, unheard, doubtful)
    store, listed = align_store(fresh.path, make, name="even", workers=1)
    assert "is not heard" in listed[0].reason
    assert fresh.utterances[2].id in {row.id for row in listed if row.reason == "text and audio do not fit"}
    left_out = {row.id for row in listed if row.reason}
    assert 2 <= len(left_out) < len(store) / 2
    used = {store.utterances[i].id for name in ("train", "valid", "test") for i in store.split(name)}
    assert used == {row.id for row in store.utterances} - left_out


def test_a_text_that_hardly_ever_fits_is_an_error_and_the_store_stays_as_it_was(fresh: FeatureStore) -> None:
    with pytest.raises(ValueError, match=r"0 of 12 utterances could be aligned.*do not fit.*alignment\.failed\.jsonl"):
        align_store(fresh.path, EvenAligner, name="even", least_score=2.0, workers=1)
    assert not FeatureStore.open(fresh.path).timed


def test_an_alignment_that_fails_leaves_the_one_before_it_whole(fresh: FeatureStore) -> None:
    store, listed = align_store(fresh.path, EvenAligner, name="first", workers=1)
    utterances, contour = store.utterances, np.array(store.contour)
    with pytest.raises(ValueError, match="could be aligned"):
        align_store(fresh.path, EvenAligner, name="second", least_score=2.0, workers=1)
    failed = [json.loads(line) for line in (fresh.path / "alignment.failed.jsonl").read_text("utf-8").splitlines()]
    assert [row["reason"] for row in failed] == ["text and audio do not fit"] * len(fresh)
    calls: list[Progress] = []
    again, relisted = align_store(fresh.path, EvenAligner, name="first", workers=1, report=calls.append)
    assert not calls, "what it was aligned with before still holds"
    assert relisted == listed
    assert again.utterances == utterances
    assert again.contour.tolist() == contour.tolist()


def test_an_alignment_that_succeeds_removes_the_scores_of_one_that_failed(fresh: FeatureStore) -> None:
    with pytest.raises(ValueError, match="could be aligned"):
        align_store(fresh.path, EvenAligner, name="even", least_score=2.0, workers=1)
    align_store(fresh.path, EvenAligner, name="even", workers=1)
    assert [path.name for path in fresh.path.glob("alignment*")] == ["alignment.jsonl"]


def test_joined_stores_are_timed_when_all_are(fresh: FeatureStore, store: FeatureStore) -> None:
    timed, _ = align_store(fresh.path, EvenAligner, name="even", workers=1)
    assert not JoinedStore([timed, store]).timed
    joined = JoinedStore([timed, timed])
    assert joined.timed
    assert (joined.pitch_mean, joined.energy_std) == pytest.approx((timed.pitch_mean, timed.energy_std))
    assert Language.of(joined).prosody.energy_mean == pytest.approx(timed.energy_mean)
    assert joined.durations(len(timed) + 1).tolist() == timed.durations(1).tolist()
    assert joined.pitch(len(timed) + 1).tolist() == timed.pitch(1).tolist()


@given(st.data())
def test_whole_frames_keep_every_phoneme_and_the_sum(data: st.DataObject) -> None:
    optional = data.draw(st.lists(st.booleans(), min_size=1, max_size=12))
    edges = sorted(data.draw(st.lists(st.floats(0, 2), min_size=len(optional) + 1, max_size=len(optional) + 1)))
    frames = data.draw(st.integers(len(optional) - sum(optional), 150))
    durations = whole_frames(Times(edges[:-1], edges[1:], 0.0, True), frames, 75.0, optional)
    assert len(durations) == len(optional) + 2
    assert sum(durations) == frames
    assert all(count >= (0 if free else 1) for count, free in zip(durations, [True, *optional, True], strict=True))
    spoken = [place for place, free in enumerate(optional, start=1) if not free]
    if spoken:
        assert not any(durations[1 : spoken[0]]), "silence before the first phoneme is one silence"
        assert not any(durations[spoken[-1] + 1 : -1]), "silence after the last phoneme is one silence"


def test_whole_frames_round_to_the_nearest_frame() -> None:
    times = Times([0.104, 0.2, 0.2], [0.2, 0.2, 0.31], 0.0, True)
    assert whole_frames(times, 50, 100.0, [False, True, False]) == [10, 10, 0, 11, 19]
    closing = Times([0.1, 0.2], [0.2, 0.3], 0.0, True)
    assert whole_frames(closing, 30, 100.0, [False, True]) == [10, 10, 0, 10], "the full stop's silence is the last"
    with pytest.raises(ValueError, match="1 frames are too few for 2 phonemes"):
        whole_frames(times, 1, 100.0, [False, True, False])


def test_each_speaker_has_a_pitch_of_their_own(
    readings: list[TeacherPhrase], store_settings: Settings, tmp_path: Path
) -> None:
    items = [replace(reading, speaker=("ann", "bob")[place % 2]) for place, reading in enumerate(readings)]
    fresh = prepare(items, tmp_path / "store", store_settings, workers=1)
    assert [speaker.prosody for speaker in fresh.speakers] == [None, None]
    store, _ = align_store(fresh.path, EvenAligner, name="even", workers=1)
    for place, speaker in enumerate(store.speakers):
        own = [store.pitch(index).numpy() for index in store.split("train") if store.speaker(index) == place]
        voiced = np.concatenate(own)
        voiced = voiced[voiced > 0]
        assert speaker.prosody.pitch_mean == pytest.approx(voiced.mean(), rel=1e-5)
        assert speaker.prosody.pitch_std == pytest.approx(voiced.std(), rel=1e-4)
    assert store.speakers[0].prosody != store.speakers[1].prosody


def test_a_store_whose_durations_were_made_the_former_way_is_aligned_again(fresh: FeatureStore) -> None:
    align_store(fresh.path, EvenAligner, name="even", workers=1)
    header = json.loads((fresh.path / "store.json").read_text())
    del header["alignment"]["durations"]  # as written before there was a second way
    (fresh.path / "store.json").write_text(json.dumps(header))
    calls: list[int] = []
    align_store(fresh.path, EvenAligner, name="even", workers=1, report=lambda progress: calls.append(progress.items))
    assert sum(calls) == len(fresh)
    align_store(fresh.path, EvenAligner, name="even", workers=1, report=lambda progress: calls.append(progress.items))
    assert sum(calls) == len(fresh), "and then not once more"
