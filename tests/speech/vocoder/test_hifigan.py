"""HiFi-GAN's generator: published weights, configurations, damaged files."""

from __future__ import annotations

import importlib.util
import json
import pickle
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from clock_attention.speech.audio.mel import MelConfig
from clock_attention.speech.vocoder import vocoder as vocoders
from clock_attention.speech.vocoder.hifigan import Generator, HifiganConfig, fold_weight_norm, load_generator
from clock_attention.speech.vocoder.vocoder import VocoderError, load_vocoder
from tests.speech.vocoder.tiny_hifigan import SMALL, a_mel, needs_weights, random_generator

MEL = MelConfig.preset("hifigan")


def published_folder() -> Path:
    return vocoders.published_weights("hifigan").parent


@needs_weights
def test_generator_is_the_published_one(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("original_models", published_folder().parent / "models.py")
    assert spec is not None
    assert spec.loader is not None
    original_models = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(original_models)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = {**SMALL, "resblock_kernel_sizes": [3, 7], "resblock_dilation_sizes": [[1, 3, 5], [1, 3, 5]]}
        original = original_models.Generator(SimpleNamespace(**table)).eval()
    torch.save({"generator": original.state_dict()}, tmp_path / "generator")
    (tmp_path / "config.json").write_text(json.dumps(table))
    ours = load_vocoder(tmp_path, MEL)
    with torch.inference_mode():
        expected = original(a_mel(20).T[None])[0, 0].numpy()
    np.testing.assert_allclose(ours(a_mel(20)), expected, atol=1e-6)


def test_a_sample_depends_on_no_more_frames_than_the_context_says() -> None:
    config = replace(HifiganConfig(), upsample_initial_channel=16)
    generator = Generator(config).double().requires_grad_(False)
    for layer in generator.modules():
        if isinstance(layer, nn.Conv1d | nn.ConvTranspose1d):
            layer.weight.fill_(0.1 / layer.weight[0].numel())  # positive: no two ways to a sample can cancel
    mel = torch.zeros(1, 80, 61, dtype=torch.float64, requires_grad=True)
    samples = generator(mel)[0, 0]
    for sample in (256 * 30, 256 * 31 - 1):
        (gradient,) = torch.autograd.grad(samples[sample], mel, retain_graph=True)
        reached = gradient[0, 0].nonzero()[:, 0]
        assert 30 - config.context <= reached.min() <= 30 - config.context + 3
        assert 30 + config.context - 3 <= reached.max() <= 30 + config.context


def test_weight_norm_is_folded_under_both_of_its_names() -> None:
    for layer in (nn.Conv1d(4, 6, 3), nn.ConvTranspose1d(4, 6, 4)):
        plain = layer.weight.detach().clone()
        normed = weight_norm(layer)
        normed.parametrizations.weight.original0.data.mul_(2.0)
        new = {f"up.{name}": value.detach() for name, value in normed.state_dict().items()}
        old = {
            "up.bias": new["up.bias"],
            "up.weight_g": new["up.parametrizations.weight.original0"],
            "up.weight_v": new["up.parametrizations.weight.original1"],
        }
        for state in (new, old):
            folded = fold_weight_norm(state)
            assert folded.keys() == {"up.weight", "up.bias"}
            torch.testing.assert_close(folded["up.weight"], 2 * plain)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"resblock": "2"}, "V3"),
        ({"upsample_initial_channel": 32}, "does not hold the weights"),
        ({"hop_size": None}, r"(?s)not a HiFi-GAN configuration.*hop_length"),
    ],
)
def test_configurations_that_do_not_fit(folder: Path, change: dict[str, object], message: str) -> None:
    (folder / "config.json").write_text(json.dumps({**SMALL, **change}))
    with pytest.raises(VocoderError, match=message):
        load_vocoder(folder, MEL)


def test_a_checkpoint_cannot_run_code(folder: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (folder / "sprung",))

    (folder / "generator_v1").write_bytes(pickle.dumps({"generator": Trap()}, protocol=2))
    with pytest.raises(VocoderError):
        load_vocoder(folder, MEL)
    assert not (folder / "sprung").exists()


def test_damaged_weights_are_not_loaded(folder: Path) -> None:
    state = random_generator().state_dict()
    del state["conv_post.bias"]
    torch.save({"generator": state}, folder / "generator_v1")
    with pytest.raises(VocoderError, match=r"conv_post\.bias"):
        load_generator(folder / "generator_v1", HifiganConfig.read(folder / "config.json"))


HOSTILE: list[dict[str, object]] = [
    {"upsample_rates": [2**63, 4]},
    {"upsample_rates": [0, 4]},
    {"upsample_rates": []},
    {"upsample_rates": "88"},
    {"upsample_rates": [True, 4]},
    {"upsample_rates": [2.5, 4]},
    {"upsample_kernel_sizes": [10**9, 10**9]},
    {"upsample_kernel_sizes": [1, 1]},
    {"upsample_kernel_sizes": [17, 17]},
    {"upsample_kernel_sizes": None},
    {"upsample_initial_channel": 2**40},
    {"upsample_initial_channel": -8},
    {"upsample_initial_channel": 7},
    {"upsample_initial_channel": "512"},
    {"resblock_kernel_sizes": [4]},
    {"resblock_kernel_sizes": []},
    {"resblock_dilation_sizes": []},
    {"resblock_dilation_sizes": [[]]},
    {"resblock_dilation_sizes": [[10**12]]},
    {"resblock_dilation_sizes": 3},
    {"sampling_rate": None},
    {"sampling_rate": 10**30},
    {"fmax": "high"},
    {"hop_size": 0},
    {"hop_size": 12},
    {"num_mels": 10**9},
    {"n_fft": [1024]},
    {"win_size": {}},
]


@pytest.mark.parametrize("change", HOSTILE, ids=str)
def test_hostile_configurations_are_refused_with_a_message(folder: Path, change: dict[str, object]) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(VocoderError, match=r"config\.json"):
        load_vocoder(folder, MEL)


def test_configurations_that_are_hardly_json(folder: Path) -> None:
    for content in (b"[" * 100_000, b"\xff\xfe", b"", b"null", b'{"a": ' + b"9" * 5000 + b"}"):
        (folder / "config.json").write_bytes(content)
        with pytest.raises(VocoderError, match=r"config\.json"):
            load_vocoder(folder, MEL)


def test_a_few_bytes_do_not_become_gigabytes(folder: Path) -> None:
    state = {name: torch.zeros(1).expand(10**12) for name in ("conv_pre.weight", "conv_pre.bias")}
    torch.save({"generator": state}, folder / "generator_wide")
    bomb = folder / "generator_bomb"
    torch.save({"generator": {"conv_pre.bias": torch.zeros(10**6)}}, folder / "plain")
    with zipfile.ZipFile(folder / "plain") as source, zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in source.namelist():
            packed.writestr(name, source.read(name))
    (folder / "plain").unlink()
    for path, message in ((folder / "generator_wide", "a tensor of shape"), (bomb, "compressed")):
        with pytest.raises(VocoderError, match=message):
            load_vocoder(path, MEL)
