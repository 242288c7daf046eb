from pathlib import Path

import pytest

from clock_attention.speech.corpus.store import FeatureStore
from clock_attention.speech.corpus.store_statistics import CorpusStatistics, draw_summary
from tests.speech.corpora import spoken_by, tiny_store


def test_numbers_add_up(store: FeatureStore) -> None:
    statistics = CorpusStatistics.of(store)
    assert sum(statistics.hours.values()) == pytest.approx(store.hours)
    assert statistics.seconds.sum() / 3600 == pytest.approx(store.hours)
    assert sum(statistics.utterances.values()) == len(store)
    assert statistics.tokens.total() == sum(len(utterance.tokens) for utterance in store.utterances)
    assert set(statistics.unused) == set(store.symbols) - set(statistics.tokens)
    assert statistics.mpr.min() < statistics.mean_mpr < statistics.mpr.max()


def test_picture_is_drawn(store: FeatureStore, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the plot extra is not installed")
    draw_summary(store, tmp_path / "stats.png")
    assert [path.name for path in tmp_path.iterdir()] == ["stats.png"]
    assert (tmp_path / "stats.png").read_bytes()[:4] == b"\x89PNG"


def test_hours_of_each_speaker(tmp_path: Path) -> None:
    store = spoken_by(tiny_store(tmp_path / "store", size=10), ["ann", "bob"])
    hours = CorpusStatistics.of(store).speakers
    assert list(hours) == ["ann", "bob"]
    assert sum(hours.values()) == pytest.approx(store.hours)
    assert min(hours.values()) > 0


def test_a_store_without_names_lists_no_speakers(store: FeatureStore) -> None:
    assert CorpusStatistics.of(store).speakers == {}
