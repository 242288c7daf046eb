"""The code in the guides runs, and does what the text says."""

import re
from pathlib import Path

import pytest
import torch

from tests.broken_packages import hide_broken_torchaudio

GUIDES = Path(__file__).parents[1] / "docs" / "guides"


def run_guide(name, folder, monkeypatch):
    """Run a guide's Python blocks one after the other, and return the names they leave."""
    monkeypatch.chdir(folder)
    torch.manual_seed(0)
    names = {"__name__": "guide"}
    text = (GUIDES / name).read_text("utf-8")
    for block in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        line = text[: block.start()].count("\n") + 1
        exec(compile("\n" * line + block[1], str(GUIDES / name), "exec", dont_inherit=True), names)
    return names


def test_hugging_face_guide(tmp_path, monkeypatch):
    hide_broken_torchaudio()  # before peft imports it
    pytest.importorskip("transformers", minversion="5.22", reason="Hugging Face transformers 5.22 is not installed")
    pytest.importorskip("peft", reason="peft is not installed")
    names = run_guide("huggingface.md", tmp_path, monkeypatch)
    assert names["weights"].shape == (2, 2, 4, 14, 12)
    trained = [name for name, parameter in names["adapted"].named_parameters() if parameter.requires_grad]
    assert any("clocks" in name for name in trained)


def test_when_not_to_use_it(tmp_path, monkeypatch, capsys):
    run_guide("not_for.md", tmp_path, monkeypatch)
    printed = capsys.readouterr().out
    assert "0 skipped, 0 repeated" in printed
    assert 40 < float(re.search(r"content rank ([\d.]+)%", printed)[1]) < 60


def test_recipes(tmp_path, monkeypatch):
    pytest.importorskip("x_transformers", reason="x-transformers is not installed")
    names = run_guide("recipes.md", tmp_path, monkeypatch)
    assert 12 < names["spoken"].shape[1] < 48
    assert names["written"].shape == (2, 10)
    # x-transformers: steps from its cache are the whole pass, and equal to generation without the cache.
    model, start = names["seq2seq"], names["target"][:, :1]
    again = model.generate(names["source"], start, 10, mask=names["mask"], temperature=0.0, cache_kv=False)
    assert torch.equal(again, names["written"])
    # The loop: what it decodes is what it would have been taught.
    spoken = names["model"].decode(names["text"][:1])
    no_padding = torch.zeros(1, spoken.shape[1], dtype=torch.bool), torch.zeros(1, 6, dtype=torch.bool)
    with torch.no_grad():
        taught, _ = names["model"](names["text"][:1], spoken, *no_padding)
    torch.testing.assert_close(taught, spoken, rtol=1e-3, atol=1e-3)
