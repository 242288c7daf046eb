"""Damaged files: recordings, tables, voices, vocoders. Refused in words, or as good as the original."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import torch

from clock_attention.speech.audio.mel import MelConfig, MelSpectrogram
from clock_attention.speech.audio.sound_reading import LONGEST, load_audio
from clock_attention.speech.corpus.ljspeech import read_folder
from clock_attention.speech.corpus.metadata import id_fault
from clock_attention.speech.corpus.recording_checks import CheckBounds, Rejected, check_finite, check_wave
from clock_attention.speech.corpus.teacher import read_lines
from clock_attention.speech.vocoder.checked_weights import packed_weights
from clock_attention.speech.vocoder.hifigan import Generator, HifiganConfig
from clock_attention.speech.vocoder.vocoder import VocoderError, load_vocoder
from clock_attention.speech.voice.voice import Voice
from clock_attention.speech.voice.voice_folder import VoiceCard, VoiceError, file_digest
from tests.fuzz.damage import damaged, damaged_json
from tests.fuzz.runner import DifferenceError, Fuzzer
from tests.fuzz.texts import CHARACTERS, a_text
from tests.speech.voices import tiny_voice

TEXT = "The birch canoe."
RATE = 22050


class Wavs(Fuzzer):
    name = "wavs"

    def start(self, folder: Path) -> None:
        self.folder = folder
        self.mel = MelSpectrogram(MelConfig.preset("hifigan"))
        wave = 0.1 * np.random.default_rng(0).normal(size=RATE).clip(-3, 3)
        self.files = []
        for suffix, subtype in (
            *(("wav", "PCM_16"), ("wav", "PCM_24"), ("wav", "FLOAT"), ("wav", "DOUBLE"), ("wav", "ULAW")),
            *(("flac", "PCM_16"), ("ogg", "VORBIS"), ("mp3", "MPEG_LAYER_III")),
        ):
            buffer = io.BytesIO()
            soundfile.write(buffer, wave, RATE, subtype=subtype, format=suffix.upper())
            self.files.append((suffix, buffer.getvalue()))

    def case(self, chance: random.Random) -> str:
        suffix, content = chance.choice(self.files)
        path = self.folder / f"x.{suffix}"
        path.write_bytes(damaged(content, chance))
        try:
            wave = load_audio(path, RATE)
            if len(wave) > LONGEST * RATE + RATE:
                raise DifferenceError(f"{len(wave)} samples out of {path.stat().st_size} bytes")
            check_wave(wave, CheckBounds())
            if len(wave) <= self.mel.config.pad:
                return "short"
            mel = self.mel(wave).numpy().astype(np.float16)
            check_finite(mel)
        except (ValueError, Rejected):
            return "refused"
        if not np.isfinite(mel).all():
            raise DifferenceError("features that are not finite passed the checks")
        return "accepted"


class Metadata(Fuzzer):
    name = "metadata"

    def start(self, folder: Path) -> None:
        self.folder = folder / "corpus"
        (self.folder / "wavs").mkdir(parents=True)
        for place in (folder / "outside.wav", self.folder / "wavs" / "good.wav", self.folder / "x.wav"):
            place.touch()

    def case(self, chance: random.Random) -> str:
        ids = [
            "good",
            "x",
            "x.wav",
            "../outside",
            "../../etc/passwd",
            "/etc/passwd",
            "..",
            "",
            "a/b",
            "[/b]",
            "é" * 200,
        ]
        ids += ["".join(chance.choice(chance.choice(CHARACTERS)) for _ in range(chance.randrange(12)))]
        rows = []
        for _ in range(chance.randrange(1, 12)):
            columns = [chance.choice(ids), *(a_text(chance)[:80] for _ in range(chance.choice([0, 1, 1, 1, 2, 3])))]
            rows.append("|".join(columns))
        content = chance.choice(["\n", "\r\n"]).join(rows).encode("utf-8", chance.choice(["surrogatepass", "replace"]))
        if chance.random() < 0.3:
            content = damaged(content, chance)
        path = self.folder / "metadata.csv"
        path.write_bytes(content)
        try:
            recordings, _ = read_folder(self.folder)
            lines, _ = read_lines(path)
        except ValueError:
            return "refused"
        for recording in recordings:
            inside = not recording.path or Path(recording.path).resolve().is_relative_to(self.folder.resolve())
            if id_fault(recording.id) or not inside:
                raise DifferenceError(f"{recording.id!r} was accepted, {recording.path}")
        if any(id_fault(name) for name, _ in lines):
            raise DifferenceError("a bad id was accepted")
        return "accepted"


class Voices(Fuzzer):
    name = "voices"
    chunk = 2000

    def start(self, folder: Path) -> None:
        self.folder = tiny_voice(folder / "voice")
        card = json.loads((self.folder / "voice.json").read_text())
        card["weights_sha256"] = file_digest(self.folder / "model.safetensors")
        (self.folder / "voice.json").write_text(json.dumps(card))
        self.contents = {path.name: path.read_bytes() for path in self.folder.iterdir()}
        voice = Voice.load(self.folder)
        self.card, self.mel = voice.card, voice.utter([TEXT])[0].mel

    def case(self, chance: random.Random) -> str:
        name = chance.choice(["voice.json", "voice.json", "model.safetensors"])
        change = damaged_json if name == "voice.json" else damaged
        (self.folder / name).write_bytes(change(self.contents[name], chance))
        try:
            voice = Voice.load(self.folder)
            mel = voice.utter([TEXT])[0].mel
        except (VoiceError, ValueError, ImportError):  # ImportError: another phonemizer, an extra that is not installed
            return "refused"
        finally:
            (self.folder / name).write_bytes(self.contents[name])
        if not bool(mel.isfinite().all()):
            raise DifferenceError("output that is not finite")
        if same_model(voice.card, self.card):
            if not torch.equal(mel, self.mel):
                raise DifferenceError("the same card and other speech: the weights have changed")
            return "the same"
        return "another voice"  # a valid card that says something else


def same_model(one: VoiceCard, other: VoiceCard) -> bool:
    return (one.model, one.language) == (other.model, other.language)


class Vocoders(Fuzzer):
    name = "vocoders"

    def start(self, folder: Path) -> None:
        self.folder = folder
        small: dict[str, Any] = {
            "resblock": "1",
            "upsample_rates": [16, 16],
            "upsample_kernel_sizes": [32, 32],
            "upsample_initial_channel": 16,
            "resblock_kernel_sizes": [3, 5],
            "resblock_dilation_sizes": [[1, 3], [1, 2]],
            **{"num_mels": 80, "n_fft": 1024, "hop_size": 256, "win_size": 1024, "sampling_rate": RATE},
            **{"fmin": 0, "fmax": 8000},
        }
        (folder / "config.json").write_text(json.dumps(small))
        torch.manual_seed(0)
        self.config = HifiganConfig.read(folder / "config.json")
        state = Generator(self.config).state_dict()
        torch.save({"generator": state}, folder / "g_1")
        (folder / "model.safetensors").write_bytes(packed_weights(state))
        self.contents = {path.name: path.read_bytes() for path in folder.iterdir()}
        self.given = torch.randn(6, 80) - 3
        self.wave = load_vocoder(folder / "g_1", MelConfig.preset("hifigan"))(self.given)

    def case(self, chance: random.Random) -> str:
        name = chance.choice(list(self.contents))
        change = damaged_json if name == "config.json" else damaged
        weights = self.folder / (chance.choice(["g_1", "model.safetensors"]) if name == "config.json" else name)
        (self.folder / name).write_bytes(change(self.contents[name], chance))
        try:
            wave = load_vocoder(weights, MelConfig.preset("hifigan"))(self.given)
            other = HifiganConfig.read(self.folder / "config.json") != self.config
        except VocoderError:
            return "refused"
        finally:
            (self.folder / name).write_bytes(self.contents[name])
        if other:  # dilations, for example, which the shapes of the weights do not show
            return "another vocoder"
        if not np.array_equal(wave, self.wave):
            raise DifferenceError(f"damage to {name} changed the sound and was not noticed")
        return "the same"
