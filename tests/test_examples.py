"""The examples run as documented and show what they claim."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("matplotlib", reason="the example draws with matplotlib: pip install 'clock-attention[plot]'")

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def warped_copy(monkeypatch):
    spec = importlib.util.spec_from_file_location("warped_copy", EXAMPLES / "warped_copy.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "warped_copy", module)  # dataclasses look their module up there
    spec.loader.exec_module(module)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield module
    torch.set_num_threads(threads)


def test_warped_copy_recovers_the_warp_it_never_saw_and_draws_it(warped_copy, tmp_path, capsys):
    figure = tmp_path / "new" / "figure.png"
    error, even_pace = warped_copy.main(["--out", str(figure), "--fit-steps", "200"])
    assert error < even_pace / 3
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert list(figure.parent.iterdir()) == [figure]
    assert f"{error:.2f} source steps" in capsys.readouterr().out


def test_warped_copy_really_hides_the_warp_in_the_target(warped_copy):
    """A target that is not the source read at the warp would make the example's error number meaningless."""
    pairs = warped_copy.random_pairs(4, 80, 50, torch.Generator().manual_seed(0))
    assert (pairs.warp.diff(dim=-1) > 0).all()
    torch.testing.assert_close(pairs.warp[:, [0, -1]], torch.tensor([[0.0, 49.0]]).expand(4, 2))
    nearest = pairs.source.gather(1, pairs.warp.round().long()[..., None].expand(-1, -1, pairs.source.shape[-1]))
    assert (nearest - pairs.target).abs().mean() < 0.2 * (pairs.target - pairs.target.flip(1)).abs().mean()
