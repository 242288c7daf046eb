"""A real server on the loopback interface with a tiny voice."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager

import pytest

pytest.importorskip("fastapi", reason="needs the extra clock-attention[serve]")

from clock_attention.serve.application import Desk
from clock_attention.serve.engine import Engine
from clock_attention.serve.limits import ServerLimits
from clock_attention.serve.server import Server, guarded_application
from clock_attention.speech.vocoder.vocoder import GriffinLim
from clock_attention.speech.voice.voice import Voice
from tests.speech.voices import tiny_aligned_voice, tiny_voice

PATIENCE = 10.0


@pytest.fixture(scope="session")
def voice(tmp_path_factory):
    return Voice.load(tiny_voice(tmp_path_factory.mktemp("serve") / "voice"))


@pytest.fixture(scope="session")
def aligned(tmp_path_factory):
    """A voice whose words can be controlled one by one."""
    return Voice.load(tiny_aligned_voice(tmp_path_factory.mktemp("serve") / "aligned"))


@contextmanager
def running(desk, **options):
    """A server in a thread; its address."""
    application = guarded_application(desk, bound="127.0.0.1", patience=PATIENCE, **options)
    server = Server(application, "127.0.0.1", 0, connections=64, patience=PATIENCE)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    end = time.monotonic() + 60
    while not server.started:
        assert thread.is_alive(), "the server has ended"
        assert time.monotonic() < end, "the server does not start"
        time.sleep(0.02)
    try:
        yield server.address
    finally:
        server.stop()
        thread.join(60)
        assert not thread.is_alive()


def tiny_desk(voice, *others, workers=2, **limits):
    voices = {"tiny": voice, **{other.path.name: other for other in others}}
    return Desk(voices, quick_vocoder(voice), Engine(workers=workers, limits=ServerLimits(**limits)))


def quick_vocoder(voice):
    return GriffinLim(voice.language.mel, iterations=1)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def desk(voice, aligned):
    return tiny_desk(voice, aligned, characters=400, seconds=60.0)


@pytest.fixture(scope="session")
def wyoming_address():
    return f"tcp://127.0.0.1:{free_port()}"


@pytest.fixture(scope="session")
def address(desk, wyoming_address):
    """A server without an API key, with Wyoming beside it."""
    with running(desk, wyoming=wyoming_address) as address:
        yield address
