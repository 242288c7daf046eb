import os
import signal
import subprocess
import sys
import time

import pytest

from clock_attention.processes import is_alive

CODE = """
import multiprocessing, os, signal, time

def work(ready):
    from clock_attention.processes import become_worker
    become_worker()
    import logging, torch
    quiet = not logging.getLogger("clock_attention").isEnabledFor(logging.WARNING)
    ready.send((os.getpid(), torch.get_num_threads(), signal.getsignal(signal.SIGINT) == signal.SIG_IGN, quiet))
    time.sleep(600)

if __name__ == "__main__":
    here, there = multiprocessing.Pipe()
    multiprocessing.get_context("fork").Process(target=work, args=(there,)).start()
    print(*here.recv(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the test forks")
def test_a_worker_is_quiet_single_threaded_and_ends_with_its_parent():
    parent = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=120, check=False)
    assert parent.returncode == -signal.SIGKILL, parent.stderr
    worker, *settings = parent.stdout.split()
    assert settings == ["1", "True", "True"]
    deadline = time.monotonic() + 30
    while alive(int(worker)):
        assert time.monotonic() < deadline, "the worker outlives its parent"
        time.sleep(0.05)


def alive(process: int) -> bool:
    """Zombies have ended: nobody may be there to collect them."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(sys.platform == "win32", reason="processes cannot be asked for there")
def test_a_process_is_alive_until_it_was_collected():
    process = subprocess.Popen([sys.executable, "-c", ""])
    assert is_alive(process.pid)
    process.wait()
    assert not is_alive(process.pid)
    assert is_alive(os.getpid())
    assert not is_alive(10**30)
