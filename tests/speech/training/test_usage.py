"""How much of a corpus a run uses."""

from clock_attention.speech.training.loop import train
from clock_attention.speech.training.run import RunDescription
from tests.speech.training.runs import tiny


def test_what_is_left_out_is_reported_and_stored(store, tmp_path, capsys, caplog):
    kept = [item for item in store.split("train") if len(store.utterances[item].tokens) <= 8]
    train(tiny("longest_tokens=8"), store, tmp_path / "run", max_steps=1)
    assert f"training on {len(kept)} of 32 utterances" in capsys.readouterr().out
    assert "more than longest_tokens=8" in caplog.text
    assert "longest_tokens=0 uses all" in caplog.text
    usage = RunDescription.read(tmp_path / "run").usage
    assert (usage.train, usage.all_train, usage.all_valid) == (len(kept), 32, 8)
    assert 0 < usage.train_hours < usage.all_train_hours
    caplog.clear()
    train(tiny("longest_tokens=0"), store, tmp_path / "all", max_steps=1, quiet=True)
    assert not caplog.text
