"""The server's engine for HTTP and Wyoming: a bounded queue, a few worker threads, and jobs that can be cancelled.

A job is spoken sentence by sentence. Between sentences, its worker checks whether the job has been cancelled and
whether its deadline has passed, so a cancelled job keeps a worker busy for one sentence at most. PyTorch releases the
interpreter lock while it computes, so threads run in parallel, and the voice is in memory only once.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from clock_attention.serve.limits import ServerLimits
from clock_attention.serve.metrics import Metrics

logger = logging.getLogger(__name__)

STOP_POLL = 0.2  # seconds between checks whether the engine has been closed


class BusyError(Exception):
    """The engine's queue is full: try again later."""


class LateError(Exception):
    """The deadline of a speech job passed before it was complete."""


class ClosedError(Exception):
    """The engine is stopping and accepts no more jobs."""


class StreamedSentence(Protocol):
    """A sentence that the engine has spoken, such as `Speech`."""

    @property
    def seconds(self) -> float: ...


Speak = Callable[[], Iterator[StreamedSentence]]  # starts a stream: reads the text, checks it, yields sentences
Sink = Callable[[Any], None]  # receives sentences, then None or the exception that ended the stream


@dataclass(eq=False)
class SpeechJob:
    """One request in the engine's queue or in progress. `cancel` it when its result is no longer needed."""

    speak: Speak
    sink: Sink
    deadline: float  # time.monotonic()
    submitted: float = field(default_factory=time.monotonic)
    started: bool = False
    holders: int = 2  # the worker and the submitter; the job counts as open until both have released it
    _abandoned: threading.Event = field(default_factory=threading.Event)

    def cancel(self) -> None:
        self._abandoned.set()

    @property
    def cancelled(self) -> bool:
        return self._abandoned.is_set()


class Engine:
    """The engine: runs speech jobs in order of arrival, `workers` at a time."""

    def __init__(self, *, workers: int = 1, limits: ServerLimits | None = None, metrics: Metrics | None = None) -> None:
        if workers < 1:
            raise ValueError(f"workers: got {workers}, expected at least 1")
        self.limits = limits or ServerLimits()
        self.metrics = metrics or Metrics()
        self.workers = workers
        self._queue: queue.SimpleQueue[SpeechJob] = queue.SimpleQueue()  # bounded by the number of open jobs
        self._lock = threading.Lock()
        self._open = 0  # jobs that are queued, in progress, or not yet fully consumed
        self._closed = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, name=f"speaker-{number}", daemon=True) for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def open_jobs(self) -> int:
        """Number of jobs that are queued, in progress, or not yet fully consumed."""
        return self._open

    def submit(self, speak: Speak, sink: Sink) -> SpeechJob:
        """Put a job into the queue; raises `BusyError` if it is full. `sink` is called from a worker thread.

        The caller must call `leave` when it is done with the job.
        """
        job = SpeechJob(speak, sink, time.monotonic() + self.limits.deadline)
        with self._lock:
            if self._closed.is_set():
                raise ClosedError("the server is stopping")
            if self._open >= self.limits.waiting + self.workers:
                self.metrics.turned_away.inc()
                raise BusyError(f"{self._open} requests are already in progress: try again in a moment")
            self._open += 1
            self.metrics.open.set(self._open)
        self._queue.put(job)
        return job

    def leave(self, job: SpeechJob) -> None:
        """Cancel the job if it is still running, and release it."""
        job.cancel()
        self._let_go(job)

    def _let_go(self, job: SpeechJob) -> None:
        with self._lock:
            job.holders -= 1
            self._open -= job.holders == 0
            self.metrics.open.set(self._open)

    def stream(self, speak: Speak) -> Iterator[StreamedSentence]:
        """Sentences of a job, for a thread that can block; leaving the iteration cancels the job."""
        pieces: queue.SimpleQueue[Any] = queue.SimpleQueue()
        job = self.submit(speak, pieces.put)
        try:
            while (piece := pieces.get()) is not None:
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            self.leave(job)

    async def stream_async(self, speak: Speak) -> AsyncGenerator[Any, None]:
        """Sentences of a job, for an event loop; closing the iterator cancels the job."""
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[Any] = asyncio.Queue()

        def sink(piece: Any) -> None:
            with suppress(RuntimeError):  # the loop has ended: no one is waiting
                loop.call_soon_threadsafe(pieces.put_nowait, piece)

        job = self.submit(speak, sink)
        try:
            while True:
                left = job.deadline - time.monotonic()
                try:
                    piece = await asyncio.wait_for(pieces.get(), max(left, 0.0))
                except asyncio.TimeoutError:
                    raise late(job) from None
                if piece is None:
                    return
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            self.leave(job)

    def close(self, seconds: float = 30.0) -> None:
        """Accept no more jobs; wait for those in progress."""
        with self._lock:
            self._closed.set()
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _work(self) -> None:
        while True:
            try:
                job = self._queue.get(timeout=STOP_POLL)
            except queue.Empty:
                if self._closed.is_set():
                    return
                continue
            try:
                self._perform(job)
            finally:
                self._let_go(job)
                del job  # a thread that waits for the next job must not keep this one's audio in memory

    def _perform(self, job: SpeechJob) -> None:
        began = time.monotonic()
        self.metrics.waited.observe(began - job.submitted)
        try:
            if job.cancelled:
                self.metrics.abandoned.inc()
                return
            if began > job.deadline:
                raise late(job)
            job.started = True
            for number, piece in enumerate(job.speak()):
                if number == 0:
                    self.metrics.first_sound.observe(time.monotonic() - job.submitted)
                self.metrics.spoken.inc(piece.seconds)
                job.sink(piece)
                if job.cancelled:
                    self.metrics.abandoned.inc()
                    return
                if time.monotonic() > job.deadline:
                    raise late(job)
            job.sink(None)
        except BaseException as error:  # always reported to the submitter
            if not isinstance(error, Exception):
                logger.exception("a worker was interrupted")
            job.sink(error)
        finally:
            self.metrics.worked.inc(time.monotonic() - began)


def late(job: SpeechJob) -> Exception:
    """The error for a job whose deadline has passed: it never left the engine's queue, or it takes too long."""
    seconds = job.deadline - job.submitted
    if not job.started:
        return BusyError(f"no worker was free within {seconds:.3g} seconds: try again in a moment")
    return LateError(f"this text takes more than {seconds:.3g} seconds of work: give a shorter one")
