"""OpenAI's own client against this server."""

import io

import pytest
import soundfile

openai = pytest.importorskip("openai", reason="needs openai's client")

TEXT = "The birch canoe slid. Glue the sheet to it."


@pytest.fixture(scope="module")
def client(address):
    return openai.OpenAI(base_url=f"{address}/v1", api_key="unused", max_retries=0, timeout=60)


@pytest.mark.parametrize("form", ["wav", "mp3", "opus"])
def test_whole_and_streamed(client, form, tmp_path):
    request = {"model": "tts-1", "voice": "alloy", "input": TEXT, "response_format": form}
    whole, rate = soundfile.read(io.BytesIO(client.audio.speech.create(**request).content))
    with client.audio.speech.with_streaming_response.create(**request) as answer:
        answer.stream_to_file(tmp_path / "speech")
    streamed, _ = soundfile.read(tmp_path / "speech")
    assert len(whole) == len(streamed) > rate
    assert abs(whole).max() > 0


def test_extensions_go_into_the_extra_body(client):
    request = {"model": "clock-attention", "voice": "tiny", "input": TEXT, "response_format": "wav"}
    answer = client.audio.speech.create(**request, extra_body={"duration": 4.0, "stream": False})
    assert soundfile.info(io.BytesIO(answer.content)).frames == round(4 * 22050 / 256) * 256


def test_mistakes_are_the_exceptions_that_its_users_know(client):
    with pytest.raises(openai.BadRequestError, match="othing to say") as wrong:
        client.audio.speech.create(model="tts-1", voice="alloy", input="…")
    assert wrong.value.param == "input"
    with pytest.raises(openai.NotFoundError, match="no model"):
        client.audio.speech.create(model="whisper-1", voice="alloy", input=TEXT)
    with pytest.raises(openai.BadRequestError, match="speed"):
        client.audio.speech.create(model="tts-1", voice="alloy", input=TEXT, speed=4.0)


def test_models_are_listed(client):
    assert [model.id for model in client.models.list()] == ["clock-attention"]
