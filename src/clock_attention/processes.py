"""What every worker process of this package does first."""

from __future__ import annotations

import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading


def become_worker() -> None:
    """One thread, Ctrl-C left to the parent, no messages below errors, and an end when the parent ends."""
    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what is finished and what is dropped
    threading.Thread(target=end_with_parent, daemon=True).start()
    # A line for every emoji that is not read would drown the progress bar.
    logging.getLogger("clock_attention").setLevel(logging.ERROR)


def end_with_parent() -> None:
    """A killed parent must not leave workers behind."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)
