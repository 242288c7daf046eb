"""What a server counts."""

import pytest

pytest.importorskip("prometheus_client", reason="needs the extra clock-attention[serve]")

from clock_attention.serve.metrics import Metrics


def test_two_servers_in_one_process_count_apart_in_prometheus_text():
    first, second = Metrics(), Metrics()
    first.requests.labels("http", "200").inc()
    first.spoken.inc(2.5)
    first.first_sound.observe(0.3)
    lines = first.text().decode().splitlines()
    assert 'clock_attention_requests_total{interface="http",status="200"} 1.0' in lines
    assert "clock_attention_speech_seconds_total 2.5" in lines
    assert 'clock_attention_first_sound_seconds_bucket{le="0.2"} 0.0' in lines
    assert 'clock_attention_first_sound_seconds_bucket{le="0.5"} 1.0' in lines
    assert "clock_attention_speech_seconds_total 0.0" in second.text().decode()
