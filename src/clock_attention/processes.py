"""Processes: setting up a worker, and checking whether a process is alive."""

from __future__ import annotations

import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading


def become_worker() -> None:
    """Set up a worker process: one thread, Ctrl-C left to the parent, only errors logged, exit with the parent."""
    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what is finished and what is dropped
    threading.Thread(target=end_with_parent, daemon=True).start()
    # A log line for every emoji that is not read would drown out the progress bar.
    logging.getLogger("clock_attention").setLevel(logging.ERROR)


def end_with_parent() -> None:
    """Exit this worker process when its parent has ended: a killed parent must not leave workers behind."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)


def is_alive(process: int) -> bool:
    """Whether a process on this machine is running. Always False on Windows, where os.kill would end it."""
    if sys.platform == "win32":
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True  # another user's process
    return True
