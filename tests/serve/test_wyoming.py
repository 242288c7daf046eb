"""The Wyoming protocol, with its own client."""

import asyncio
import socket
from urllib.parse import urlsplit

import numpy as np
import pytest

from tests.serve.conftest import quick_vocoder

pytest.importorskip("wyoming", reason="needs the extra clock-attention[serve]")

from wyoming.audio import AudioChunk, AudioStart, AudioStop
from wyoming.client import AsyncClient
from wyoming.error import Error
from wyoming.info import Describe, Info
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeStopped,
    SynthesizeTextFormat,
    SynthesizeVoice,
)

from clock_attention.serve.wyoming import complete_part, wyoming_server

TEXT = "The birch canoe slid. Glue the sheet to it."


def talk(uri, *events, until):
    """Send events and collect what comes back up to an event of this type."""

    async def conversation():
        async with AsyncClient.from_uri(uri) as client:
            for event in events:
                await client.write_event(event.event())
            found = []
            while True:
                event = await asyncio.wait_for(client.read_event(), 60)
                assert event is not None, found
                found.append(event)
                if until.is_type(event.type):
                    return found

    return asyncio.run(conversation())


def samples_of(events):
    chunks = [AudioChunk.from_event(event) for event in events if AudioChunk.is_type(event.type)]
    assert {(chunk.rate, chunk.width, chunk.channels) for chunk in chunks} == {(22050, 2, 1)}
    return np.frombuffer(b"".join(chunk.audio for chunk in chunks), "<i2")


def test_a_text_is_spoken_whole(address, wyoming_address, voice):
    events = talk(wyoming_address, Synthesize(TEXT, SynthesizeVoice("tiny")), until=AudioStop)
    assert AudioStart.is_type(events[0].type)
    expected = voice.speak(TEXT, vocoder=quick_vocoder(voice)).audio.clip(-1, 1)
    np.testing.assert_allclose(samples_of(events) / 32767, expected, atol=1e-4)


def test_it_says_what_it_offers(address, wyoming_address):
    info = Info.from_event(talk(wyoming_address, Describe(), until=Info)[0])
    assert [voice.name for voice in info.tts[0].voices] == ["tiny", "aligned"]
    assert info.tts[0].supports_synthesize_streaming


def test_a_text_in_pieces_is_spoken_once(address, wyoming_address, voice):
    pieces = [SynthesizeChunk(piece) for piece in ("The birch canoe sl", "id. Glue the ", "sheet to", " it.")]
    events = talk(
        wyoming_address,
        SynthesizeStart(),
        *pieces,
        Synthesize(TEXT),  # Home Assistant sends the whole again, for servers that do not stream
        SynthesizeStop(),
        until=SynthesizeStopped,
    )
    kinds = [event.type for event in events]
    assert (kinds.count("audio-start"), kinds.count("audio-stop")) == (1, 1)
    expected = voice.speak(TEXT, vocoder=quick_vocoder(voice)).seconds
    assert len(samples_of(events)) / 22050 == pytest.approx(expected, abs=0.2)


def test_markup_is_followed_whole_and_in_pieces(address, wyoming_address):
    form, text = SynthesizeTextFormat.SSML, '<speak>One. <break time="2s"/> Two.</speak>'
    whole = talk(wyoming_address, Synthesize(text, SynthesizeVoice("aligned"), form), until=AudioStop)
    start = SynthesizeStart(SynthesizeVoice("aligned"), form)
    pieces = talk(
        wyoming_address,
        start,
        SynthesizeChunk(text[:9]),
        SynthesizeChunk(text[9:]),
        SynthesizeStop(),
        until=SynthesizeStopped,
    )
    assert len(samples_of(whole)) == len(samples_of(pieces)) > 2 * 22050


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (Synthesize("…"), "othing to say"),
        (Synthesize("One.", SynthesizeVoice("nobody")), "no voice 'nobody'"),
        (Synthesize("x" * 500), "at a time"),
    ],
)
def test_mistakes_are_answered_and_the_client_may_go_on(address, wyoming_address, event, message):
    events = talk(wyoming_address, event, Synthesize("One."), until=AudioStop)
    assert message in Error.from_event(events[0]).text
    assert len(samples_of(events)) > 0


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\n",
        b"[]\n",
        b'{"type": "synthesize"}\n',
        b'{"type": "synthesize", "data": {"text": 3}}\n',
        b'{"type": "synthesize", "data_length": 1e12}\n',
        b'{"type": "x", "payload_length": 99999999999}\n',
        b"x" * 200_000,
        b"",
    ],
)
def test_broken_events_end_one_connection_and_no_other(address, wyoming_address, sent):
    place = urlsplit(wyoming_address)
    with socket.create_connection((place.hostname, place.port), timeout=60) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        while True:
            try:
                if not connection.recv(4096):
                    break
            except ConnectionResetError:
                break
    assert talk(wyoming_address, Describe(), until=Info)


@pytest.mark.parametrize(
    ("text", "ready"),
    [
        ("One. Two", "One. "),
        ("One.", ""),
        ("He met Dr. Smith", ""),
        ("He met Dr. Smith. She", "He met Dr. Smith. "),
        ("It costs 3. 5 or", "It costs 3. "),
        ("", ""),
        ("One! Two? Three", "One! Two? "),
    ],
)
def test_only_complete_sentences_are_spoken_early(text, ready):
    before, after = complete_part(text)
    assert before + after == text
    assert before == ready


def test_other_addresses_are_refused():
    for uri in ("stdio://", "tcp://127.0.0.1", "127.0.0.1:10200"):
        with pytest.raises(ValueError, match=r"tcp://127\.0\.0\.1:10200"):
            wyoming_server(uri)
