"""The queue and its workers, without voices."""

import asyncio
import threading
from dataclasses import dataclass

import pytest

from clock_attention.serve.engine import BusyError, ClosedError, Engine, LateError
from clock_attention.serve.limits import ServerLimits


@dataclass
class Word:
    number: int
    seconds: float = 1.0


def counting(count):
    return lambda: (Word(number) for number in range(count))


@pytest.fixture
def engine():
    engine = Engine(workers=2, limits=ServerLimits(waiting=2))
    yield engine
    engine.close()


def test_pieces_come_in_order_and_errors_come_too(engine):
    assert [piece.number for piece in engine.stream(counting(5))] == [0, 1, 2, 3, 4]
    with pytest.raises(ZeroDivisionError):
        list(engine.stream(lambda: iter([1 / 0])))
    assert engine.open_jobs == 0
    assert engine.metrics.spoken._value.get() == 5


def test_an_event_loop_gets_the_same(engine):
    async def collect():
        return [piece.number async for piece in engine.stream_async(counting(5))]

    assert asyncio.run(collect()) == [0, 1, 2, 3, 4]


def test_several_are_spoken_at_once():
    engine = Engine(workers=2)
    meeting = threading.Barrier(2, timeout=60)

    def speak():
        meeting.wait()
        yield Word(0)

    streams = [engine.stream(speak) for _ in range(2)]
    threads = [threading.Thread(target=list, args=(stream,)) for stream in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    engine.close()
    assert not meeting.broken


def test_a_job_counts_until_its_sound_has_been_taken():
    engine = Engine(workers=1, limits=ServerLimits(waiting=0))
    stream = engine.stream(counting(3))
    next(stream)
    with pytest.raises(BusyError):
        next(engine.stream(counting(1)))
    stream.close()
    engine.close()
    assert engine.open_jobs == 0


def test_late_jobs_end_between_sentences():
    engine = Engine(workers=1, limits=ServerLimits(deadline=0.1))
    pause = threading.Event()

    def speak():
        yield Word(0)
        pause.wait(0.2)
        yield Word(1)
        pytest.fail("spoke on")

    with pytest.raises(LateError, match=r"0\.1 seconds"):
        list(engine.stream(speak))
    engine.close()


def test_a_closed_engine_takes_nothing(engine):
    engine.close()
    with pytest.raises(ClosedError):
        next(engine.stream(counting(1)))


def test_workers_and_limits_are_checked():
    with pytest.raises(ValueError, match="workers"):
        Engine(workers=0)
    with pytest.raises(ValueError, match="deadline"):
        ServerLimits(deadline=0)
