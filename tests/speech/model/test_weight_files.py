"""Weights from files that anybody may have made."""

import zipfile

import pytest
import torch

from clock_attention.speech.model.weight_files import check_sizes, load_torch, weights_fault

EXPECTED = {"a": torch.empty(2, 3, device="meta"), "b": torch.empty(4, device="meta")}
GOOD = {"a": torch.zeros(2, 3), "b": torch.zeros(4, dtype=torch.float16)}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({}, ""),
        ({"b": None, "c": torch.zeros(1)}, "b holds NoneType, expected floating-point numbers"),
        ({"a": torch.zeros(3, 2)}, r"a has shape (3, 2), the model asks for (2, 3)"),
        ({"b": torch.zeros(4, dtype=torch.int64)}, "b holds torch.int64"),
        ({"b": torch.tensor([0.0, 1.0, torch.nan, 2.0])}, "b holds values that are not finite"),
        ({"b": torch.eye(4).to_sparse()}, "b holds torch.float32, expected floating-point numbers"),
    ],
)
def test_the_first_difference_is_named(change, fault):
    found = {name: value for name, value in {**GOOD, **change}.items() if name != "c"}
    assert weights_fault(EXPECTED, found).startswith(fault)
    assert bool(weights_fault(EXPECTED, found)) == bool(fault)


def test_missing_and_unknown_names():
    assert weights_fault(EXPECTED, {"a": GOOD["a"], "x": GOOD["b"]}) == "missing b; unknown x"


def test_views_larger_than_their_file_are_refused(tmp_path):
    torch.save({"w": torch.zeros(1).expand(10**9)}, tmp_path / "x.pt")
    with pytest.raises(ValueError, match="a tensor of shape"):
        load_torch(tmp_path / "x.pt")
    check_sizes({"a": [torch.zeros(4)]}, 16)
    with pytest.raises(ValueError, match="in a file of 15 bytes"):
        check_sizes({"a": [(torch.zeros(4),)]}, 15)


def test_changed_and_compressed_files_are_refused(tmp_path):
    path = tmp_path / "x.pt"
    torch.save({"w": torch.arange(1000.0)}, path)
    assert torch.equal(load_torch(path)["w"], torch.arange(1000.0))
    content = bytearray(path.read_bytes())
    place = content.find(torch.arange(1000.0).numpy().tobytes()[400:420])
    content[place] ^= 1
    (tmp_path / "changed.pt").write_bytes(content)
    with pytest.raises(ValueError, match="check sum"):
        load_torch(tmp_path / "changed.pt")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(tmp_path / "small.pt", "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.infolist():
            new.writestr(member.filename, old.read(member))
    with pytest.raises(ValueError, match=r"compressed, which torch\.save never does"):
        load_torch(tmp_path / "small.pt")
