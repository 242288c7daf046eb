"""The HTTP interface, through a real server: formats, streams, timestamps, errors, limits, and clients that leave."""

import base64
import io
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
import soundfile

from clock_attention.serve.engine import SpeechJob
from tests.serve.conftest import quick_vocoder, running, tiny_desk

TEXT = "The birch canoe slid. Glue the sheet to it. It is easy to tell."


def speak(address, **body):
    return httpx.post(f"{address}/v1/audio/speech", json={"input": TEXT, **body}, timeout=60)


def sound_of(content):
    return soundfile.read(io.BytesIO(content), dtype="float32")


@pytest.fixture(scope="module")
def expected(voice):
    return voice.speak(TEXT, vocoder=quick_vocoder(voice))


@pytest.mark.parametrize(
    ("name", "kind", "rate", "slack"),
    [
        ("wav", "audio/wav", 22050, 0),
        ("flac", "audio/flac", 22050, 0),
        ("mp3", "audio/mpeg", 22050, 3000),  # encoders pad; a stream cannot say by how much
        ("opus", "audio/ogg", 24000, 2),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_every_format_holds_the_whole_text(address, expected, name, kind, rate, slack, stream):
    answer = speak(address, response_format=name, stream=stream)
    assert (answer.status_code, answer.headers["content-type"]) == (200, kind), answer.content[:300]
    wave, found = sound_of(answer.content)
    assert found == rate
    assert len(wave) == pytest.approx(expected.seconds * rate, abs=0.1 + (slack if stream else min(slack, 2)))
    if name in ("wav", "flac"):
        np.testing.assert_allclose(wave, expected.audio.clip(-1, 1), atol=1e-4)


def test_pcm_is_plain_samples_at_24_khz(address, expected):
    samples = np.frombuffer(speak(address, response_format="pcm").content, "<i2")
    assert len(samples) == pytest.approx(expected.seconds * 24000, abs=2)


def test_speed_and_duration_set_the_length(address, expected):
    wave, rate = sound_of(speak(address, response_format="wav", speed=2.0).content)
    assert len(wave) / rate == pytest.approx(expected.seconds / 2, rel=0.05)
    wave, rate = sound_of(speak(address, response_format="wav", duration=7.5).content)
    assert len(wave) == round(7.5 * 22050 / 256) * 256


def test_a_stream_arrives_in_pieces_and_one_sentence_has_its_length(address):
    with httpx.stream("POST", f"{address}/v1/audio/speech", json={"input": TEXT, "response_format": "wav"}) as answer:
        assert "content-length" not in answer.headers
        assert len(list(answer.iter_raw())) > 1
    assert int(speak(address, input="One.", response_format="wav").headers["content-length"]) > 44
    assert "content-length" in speak(address, stream=False).headers


def test_timestamps_come_with_the_sound(address, expected):
    answer = speak(address, response_format="flac", timestamps=True).json()
    wave, rate = sound_of(base64.b64decode(answer["audio"]))
    assert len(wave) / rate == answer["seconds"] == pytest.approx(expected.seconds)
    words = [(entry["label"], entry["start"], entry["end"]) for entry in answer["timestamps"]["words"]]
    assert [word for word, _, _ in words] == [interval.label for interval in expected.words]
    np.testing.assert_allclose([w[1:] for w in words], [(i.start, i.end) for i in expected.words], atol=1e-6)


def test_markup_pitch_and_times_reach_the_voice(address, aligned):
    body = {"voice": "aligned", "response_format": "wav", "stream": False}
    text = '<speak>One <prosody duration="800ms">two</prosody> three.</speak>'
    answer = speak(address, **body, input=text, ssml=True, timestamps=True).json()
    two = answer["timestamps"]["words"][1]
    assert (two["label"], two["end"] - two["start"]) == ("two", pytest.approx(0.8, abs=0.006))
    again = speak(address, **body, input="One two three.", timeline=answer["timestamps"]["words"], timestamps=True)
    assert [w["end"] for w in again.json()["timestamps"]["words"]] == pytest.approx(
        [w["end"] for w in answer["timestamps"]["words"]]
    )
    plain, high = (speak(address, **body, pitch=pitch).content for pitch in (0.0, 4.0))
    assert len(plain) == len(high)
    assert plain != high


def test_events_hold_the_sound_and_its_times(address, expected):
    answer = speak(address, response_format="pcm", stream_format="sse", timestamps=True)
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in answer.text.split("\n\n") if line]
    assert {event["type"] for event in events[:-1]} == {"speech.audio.delta"}
    assert events[-1]["type"] == "speech.audio.done"
    assert events[-1]["usage"]["output_tokens"] == len(expected.mel)
    samples = b"".join(base64.b64decode(event["audio"]) for event in events[:-1])
    assert len(samples) / 2 == pytest.approx(expected.seconds * 24000, abs=2)
    words = [word["label"] for event in events[:-1] for word in event.get("timestamps", {}).get("words", [])]
    assert words == [interval.label for interval in expected.words]


@pytest.mark.parametrize(
    ("body", "status", "param", "message"),
    [
        ({"input": ""}, 400, "input", "at least 1 character"),
        ({"input": "…"}, 400, "input", "othing to say"),
        ({"input": "x" * 401}, 400, "input", "takes 400 at a time"),
        ({"input": "9" * 399}, 400, "input", "more than 60 seconds"),
        ({"input": 3}, 400, "input", "valid string"),
        ({"input": "\ud800"}, 400, "input", ""),
        ({"speed": 9}, 400, "speed", "less than or equal to 2"),
        ({"speed": "1"}, 400, "speed", "valid number"),
        ({"duration": 0}, 400, "duration", "greater than 0"),
        ({"duration": 0.1}, 400, "input", "expected 0.60 … 30.2 s"),
        ({"duration": 2, "speed": 2}, 400, "duration", "given together"),
        ({"ssml": True, "input": "<speak>"}, 400, "input", "not well-formed XML"),
        ({"ssml": True, "input": '<speak>One<break time="9000s"/></speak>'}, 400, "input", "9000s"),
        ({"timeline": "/etc/passwd"}, 400, "timeline", "valid list"),
        ({"timeline": [{"label": "x", "start": 0.0, "end": 1.0}], "voice": "aligned"}, 400, "input", "imeline"),
        ({"pitch": 3.0}, 400, "input", "pitch"),  # of a voice that has none
        ({"duration": 9999}, 400, "input", "more than 60 seconds"),
        ({"response_format": "aac"}, 400, "response_format", "'mp3', 'opus', 'flac', 'wav' or 'pcm'"),
        ({"voice": "nobody"}, 400, "voice", "no voice 'nobody' here, only tiny, aligned"),
        ({"model": "gpt-5"}, 404, "model", "only 'clock-attention'"),
        ({"durations": 2}, 400, "durations", "not permitted"),
    ],
)
def test_wrong_requests_get_openai_errors(address, body, status, param, message):
    answer = httpx.post(
        f"{address}/v1/audio/speech",
        content=json.dumps({"input": TEXT, **body}),
        headers={"content-type": "application/json"},
        timeout=60,
    )
    assert answer.status_code == status, answer.text
    fault = answer.json()["error"]
    assert set(fault) == {"message", "type", "param", "code"}
    assert (fault["param"], fault["type"]) == (param, "invalid_request_error")
    assert message in fault["message"]


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b"", "application/json"), (b"{", "application/json"), (b"[]", "application/json"), (b"{}", "text/plain")],
)
def test_bodies_that_are_no_json_objects_are_refused(address, content, kind):
    answer = httpx.post(f"{address}/v1/audio/speech", content=content, headers={"content-type": kind})
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_the_other_addresses(address, desk):
    assert [m["id"] for m in httpx.get(f"{address}/v1/models").json()["data"]] == ["clock-attention"]
    assert [v["id"] for v in httpx.get(f"{address}/v1/audio/voices").json()["voices"]] == ["tiny", "aligned"]
    assert httpx.get(f"{address}/health").json()["status"] == "ok"
    speak(address, input="One.")
    counters = httpx.get(f"{address}/metrics").text
    assert 'clock_attention_requests_total{interface="http",status="200"}' in counters
    assert "clock_attention_speech_seconds_total" in counters
    answer = httpx.get(f"{address}/nowhere")
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "invalid_request_error")
    assert httpx.get(f"{address}/v1/audio/speech").status_code == 405


def test_only_names_that_were_bound_and_small_bodies_are_answered(address):
    answer = httpx.get(f"{address}/health", headers={"host": "evil.example"})
    assert (answer.status_code, answer.json()["error"]["type"]) == (421, "invalid_request_error")
    large = httpx.post(f"{address}/v1/audio/speech", content=b"x" * 300_000)
    assert large.status_code == 413
    assert "at most" in large.json()["error"]["message"]


def test_a_key_is_asked_for_where_there_is_one(voice):
    with running(tiny_desk(voice, workers=1), api_key="sésame") as address:
        body = {"input": "One.", "response_format": "wav"}
        url = f"{address}/v1/audio/speech"
        for headers in ({}, {"authorization": "Bearer nonsense"}, {"authorization": "Basic x"}):
            answer = httpx.post(url, json=body, headers=headers)
            assert answer.status_code == 401
            assert answer.json()["error"]["type"] == "authentication_error"
        right = {"authorization": "Bearer sésame".encode()}
        assert httpx.post(url, json=body, headers=right, timeout=60).status_code == 200
        assert httpx.get(f"{address}/health").status_code == 200
        assert httpx.get(f"{address}/metrics").status_code == 401


class SlowVoice:
    """Speaks like a voice, but only when it is let; counts what it has said."""

    def __init__(self, voice):
        self._voice = voice
        self.spoken = []
        self.go = threading.Event()

    def __getattr__(self, name):
        return getattr(self._voice, name)

    def perform(self, request, vocoder):
        for piece in self._voice.perform(request, vocoder):
            self.spoken.append(piece.text)
            assert self.go.wait(60)
            yield piece


@pytest.fixture
def slow(voice):
    return SlowVoice(voice)


def wait_for(condition, what):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def test_a_full_queue_turns_away_at_once_and_serves_the_others(slow):
    desk = tiny_desk(slow, workers=1, waiting=1)
    with running(desk) as address, ThreadPoolExecutor(2) as clients:
        first = clients.submit(speak, address, input="One.")
        wait_for(lambda: slow.spoken, "the first request")
        second = clients.submit(speak, address, input="Two.")
        wait_for(lambda: desk.engine.open_jobs == 2, "the second request")
        third = speak(address, input="Three.")
        assert (third.status_code, third.json()["error"]["type"]) == (429, "rate_limit_error")
        assert int(third.headers["retry-after"]) > 0
        slow.go.set()
        assert (first.result().status_code, second.result().status_code) == (200, 200)


@pytest.mark.parametrize("stream", [True, False])
def test_work_stops_when_the_client_leaves(slow, stream, monkeypatch):
    noticed, cancel = threading.Event(), SpeechJob.cancel
    monkeypatch.setattr(SpeechJob, "cancel", lambda job: (cancel(job), noticed.set()))
    desk = tiny_desk(slow, workers=1)
    with running(desk) as address:
        body = {"input": TEXT, "stream": stream}
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{address}/v1/audio/speech", json=body, timeout=httpx.Timeout(30, read=0.5))
        wait_for(lambda: slow.spoken, "the request")
        assert noticed.wait(60)
        slow.go.set()
        wait_for(lambda: desk.engine.open_jobs == 0, "the end of the job")
        assert len(slow.spoken) == 1


def test_a_client_that_leaves_in_the_middle_of_a_stream_ends_it(slow):
    desk = tiny_desk(slow, workers=1)
    with running(desk) as address:
        slow.go.set()
        with httpx.stream("POST", f"{address}/v1/audio/speech", json={"input": "Word. " * 60}) as answer:
            next(answer.iter_raw())
        wait_for(lambda: desk.engine.open_jobs == 0, "the end of the job")
        assert len(slow.spoken) < 60


def test_the_deadline_is_kept(slow):
    with running(tiny_desk(slow, workers=1, waiting=4, deadline=0.5)) as address, ThreadPoolExecutor(1) as clients:
        first = clients.submit(speak, address)
        wait_for(lambda: slow.spoken, "the first request")
        waiting = speak(address)
        assert waiting.status_code == 429  # it never began
        assert (first.result().status_code, first.result().json()["error"]["code"]) == (504, "deadline")
        slow.go.set()


def test_open_answers_are_finished_when_the_server_stops(slow):
    with ThreadPoolExecutor(1) as clients:
        with running(tiny_desk(slow, workers=1)) as address:
            answer = clients.submit(speak, address, response_format="wav")
            wait_for(lambda: slow.spoken, "the request")
            threading.Timer(0.5, slow.go.set).start()
        assert answer.result().status_code == 200
        assert len(slow.spoken) == 3


def test_surprises_stay_in_the_log(slow, caplog):
    slow.perform = lambda request, vocoder: iter([1 / 0])
    with running(tiny_desk(slow, workers=1)) as address:
        answer = speak(address)
    assert answer.status_code == 500
    assert "ZeroDivision" not in answer.text
    assert "ZeroDivision" in caplog.text
