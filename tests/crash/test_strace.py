"""Real system calls failing, injected by strace."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from campaign_log import record
from kill_rounds import check_session
from needed_programs import why_missing

from holdfast import Holdfast
from holdfast import errors as documented

CHILD = Path(__file__).with_name("fault_child.py")
FULL = os.environ.get("CRASH_CAMPAIGN") == "full"
# What a call of the disk is called by the kernel, and on a push every how many-th use of it fails.
CALLS = {
    "openat": ("openat", 61),
    "write": ("write", 3),
    "fdatasync": ("fdatasync", 2),
    "fsync": ("fsync", 7),
    "rename": ("?rename,?renameat,?renameat2", 2),
    "link": ("?link,?linkat", 1),
    "mkdir": ("?mkdir,?mkdirat", 1),
    "flock": ("flock", 4),
    "unlink": ("?unlink,?unlinkat", 2),
    "ftruncate": ("ftruncate", 1),
    "pread64": ("pread64", 13),
}


class Traced:
    """Runs the scenario of fault_child.py again and again, each time with one fault."""

    def __init__(self, folder):
        self.folder = folder
        self.runs = 0
        self.zygote = subprocess.Popen(
            [os.path.realpath(sys.executable), str(CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert self.line() == "ready"

    def line(self):
        return self.zygote.stdout.readline().strip()

    def close(self):
        self.zygote.stdin.close()
        self.zygote.wait(120)
        self.zygote.stdout.close()

    def run(self, calls, fault):
        """One run with a fault: whether it came, the promises, and the errors that were told."""
        self.runs += 1
        store, trace = self.folder / f"store-{self.runs}", self.folder / "trace"
        print(store, file=self.zygote.stdin, flush=True)
        pid = int(self.line().split()[1])
        command = ["strace", "-f", "-o", str(trace), "-e", f"trace={calls}"]
        command += ["-e", f"inject={calls}:{fault}", "-p", str(pid)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
            attached = tracer.stderr.readline()
            os.kill(pid, signal.SIGUSR1)
            told = list(iter(self.line, "ended"))
            tracer.wait(120)
        if "attached" not in attached:
            pytest.skip(f"faults by strace not shown: {attached.strip()}")
        fired = "(INJECTED)" in trace.read_text()
        return store, fired, told


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """A process to trace; skipped where that cannot be."""
    missing = why_missing("strace", "strace")
    if missing:
        pytest.skip(f"faults by strace not shown: {missing}")
    traced = Traced(tmp_path_factory.mktemp("traced"))
    yield traced
    traced.close()


def check(store, told):
    """The errors were documented ones, and everything that was promised is there."""
    promised = [line[2:] for line in told if line.startswith("a ")]
    for line in told:
        assert not line.startswith("error"), line
        if line.startswith("e "):
            assert line[2:] in documented.__all__
    if promised:
        with Holdfast(store, timers=False) as hf:
            if not hf.exists("a"):
                hf.undelete("a")
            check_session(store, "a", promised)
            for id in ("a", "d") if hf.exists("d") else ("a",):
                with hf.session(id, repair="auto") as session:
                    session.user("after the fault")
                check_session(store, id, ["after the fault"])
        check_session(store, "a", promised)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["EIO", "ENOSPC", "EINTR"])
@pytest.mark.parametrize("call", CALLS)
def test_system_call_fails(traced, call, name):
    """Each use of a system call fails: a documented error, no damage, and it goes on."""
    calls, stride = CALLS[call]
    if name == "EINTR":  # Python itself tries again
        stride *= 3
    nth = fired = 1
    count = 0
    while fired:
        store, fired, told = traced.run(calls, f"error={name}:when={nth}")
        check(store, told)
        count += fired
        shutil.rmtree(store, ignore_errors=True)
        nth += 1 if FULL else stride
    record("system calls", count)
    assert count, "the scenario never uses this call"


def test_without_a_fault_nothing_fails(traced):
    """The scenario runs through when nothing is injected."""
    _, fired, told = traced.run("write", "error=EIO:when=60000")
    assert not fired
    assert [line for line in told if not line.startswith("a ")] == []
