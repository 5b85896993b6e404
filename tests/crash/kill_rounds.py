"""The other side of kill_child.py: starts it, kills its children, and keeps what they were told."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from holdfast import Holdfast
from holdfast.model import Limits

CHILD = Path(__file__).with_name("kill_child.py")
PAUSE_S_MAX = 0.03
BUSY_PAUSE_S_MAX = 2.0
BUSY_ROUNDS = 5
OPENING_PART = 0.15


class Rounds:
    """Kills a writer again and again, and checks what it leaves."""

    def __init__(self, store, *, seed=0, env=None):
        self.store = store
        self.random = random.Random(seed)
        self.appended = {}
        """By session: what a kill must not undo."""
        self.flushed = {}
        """By session: what power loss must not undo."""
        self._pause_s_max = PAUSE_S_MAX
        self.zygote = subprocess.Popen(
            [sys.executable, str(CHILD), str(store)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env={**os.environ, **(env or {})},
        )
        assert self._line() == "ready"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.zygote.stdin.close()
        self.zygote.wait(120)
        self.zygote.stdout.close()

    def numbers(self, count, is_enough):
        """So many numbers of rounds; and more, on a busy machine, until enough came of them."""
        yield from range(count)
        for number in range(count, count * BUSY_ROUNDS):
            if is_enough():
                return
            yield number

    def kill_one(self, number, id, *, meanwhile=None):
        """One writer, killed at a random moment; how many promises it made.

        ``meanwhile`` is done while it writes.
        """
        print(number, id, file=self.zygote.stdin, flush=True)
        word, pid = self._line().split()
        assert word == "pid"
        # Now and then while it is still opening the session, mostly while it is writing.
        if self.random.random() > OPENING_PART and (line := self._line()) != "open":
            raise AssertionError(line)
        if meanwhile is not None:
            time.sleep(self.random.uniform(0, self._pause_s_max))
            meanwhile()
        time.sleep(self.random.uniform(0, self._pause_s_max))
        os.kill(int(pid), signal.SIGKILL)
        promises = self._take_promises(id)
        # A machine on which a writer comes to nothing in that time gives the next one more of it.
        slower = self._pause_s_max * (0.9 if promises else 1.5)
        self._pause_s_max = min(max(slower, PAUSE_S_MAX), BUSY_PAUSE_S_MAX)
        return promises

    def _take_promises(self, id):
        appended, flushed = self.appended.setdefault(id, []), self.flushed.setdefault(id, set())
        count = 0
        while (line := self._line()) != "ended":
            assert not line.startswith("error"), line
            if line == "f":
                flushed.update(appended)
                count += 1
            elif line.startswith("a "):
                appended.append(line[2:])
                count += 1
        return count

    def _line(self):
        return self.zygote.stdout.readline().strip()


def check_session(store, id, promised, *, blobs=True):
    """Everything promised is there, the seqs are dense, and the log is whole.

    With ``blobs`` false only the payloads of promised events must be there.
    """
    with Holdfast(store, timers=False, limits=Limits(blob_bytes_min=2_000)) as hf:
        report = hf.verify(id)
        assert not report.gaps, report
        events = list(hf.events(id))
        lost = [name.encode() for name in report.missing_blobs]
        for raw in [bytes(event.raw) for event in events]:
            if any(name in raw for name in lost):
                assert not blobs
                assert not any(token.encode() in raw for token in promised)
        assert [event.seq for event in events] == list(range(len(events)))
        texts = b"\n".join(bytes(event.raw) for event in events)
        missing = [token for token in promised if texts.count(token.encode()) < 1]
        assert missing == []
        return len(events)
