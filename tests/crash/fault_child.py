"""A process whose system calls fail: forks a fresh worker for each line, and says what is safe.

Run as ``python fault_child.py``. For each line ``<store>`` on its input it forks; the child waits
for SIGUSR1, so that a tracer can be attached first, then goes through a fixed scenario. It writes
``a <token>`` for each append that returned, ``e <class>`` for each documented error, and ``error``
for anything else. It tells with ``writev``, so that faults of ``write`` do not hit its reports.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback

from holdfast import Holdfast
from holdfast.errors import HoldfastError
from holdfast.model import Limits
from holdfast.storage import MemoryStore

LIMITS = Limits(blob_bytes_min=500)


def tell(text):
    os.writev(1, [text.encode() + b"\n"])


def turn_a_byte(path):
    """Damage a log; a fault that hits this instead of the library is passed over."""
    try:
        with open(path, "r+b") as log:
            at = log.read().index(b"number 1")
            log.seek(at)
            log.write(b"N")
    except OSError:
        return


class Worker:
    """A short life of a session; after an error it goes on with the next step."""

    def __init__(self, store):
        self.store = store
        self.hf = None
        self.session = None
        self.count = 0
        self.made = False

    def opened(self):
        self.hf = self.hf or Holdfast(self.store, timers=False, limits=LIMITS)
        if self.session is None or self.session.closed:
            # Not a second one while the first is in the trash.
            self.session = self.hf.session("a", resume="always" if self.made else "auto")
        return self.session

    def append(self):
        self.count += 1
        token = f"<{self.count}>"
        self.opened().user(token)
        self.made = True
        tell(f"a {token}")

    def blob(self):
        self.count += 1
        token = f"<{self.count}>"
        self.opened().append("tool_result", {"toolCallId": token, "result": "x" * 900})
        self.made = True
        tell(f"a {token}")

    def flush(self):
        self.opened().flush()

    def snapshot(self):
        self.opened().snapshot()

    def tool(self):
        with self.opened().tool("Read", {"path": "p"}) as call:
            call.result = "text"

    def close(self):
        session, self.session = self.session, None
        if session is not None:
            session.close()

    def delete(self):
        self.close()
        if self.hf is not None and self.hf.exists("a"):
            self.hf.delete("a")

    def undelete(self):
        self.close()
        if self.hf is not None and not self.hf.exists("a"):
            self.hf.undelete("a")

    def mend(self):
        """A session of its own is damaged and repaired."""
        with self.hf.session("d") as session:
            for number in range(3):
                session.user(f"number {number}")
        turn_a_byte(os.path.join(self.hf.location("d"), "events.jsonl"))
        self.hf.repair("d")

    def run(self):
        steps = (self.append, self.flush, self.blob, self.flush, self.snapshot, self.close)
        steps += (self.append, self.tool, self.delete, self.undelete, self.append, self.mend)
        for step in steps:
            self.attempt(step)
        self.attempt(self.undelete)  # whatever failed, the session is to be in its place at the end
        self.attempt(self.close)

    def attempt(self, step):
        try:
            step()
        except HoldfastError as error:
            tell(f"e {type(error).__name__}")
            if self.session is not None and type(error).__name__ == "SyncFailed":
                self.attempt(self.close)


def load_what_comes_late():
    """What the library imports on first use: a fault is to hit its work, not its loading."""
    with Holdfast(MemoryStore(), timers=False) as hf:
        with hf.session("a") as session:
            session.user("x")
        hf.list()
        hf.delete("a")
        hf.undelete("a")
        hf.repair("a")


def main():
    load_what_comes_late()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    tell("ready")
    for line in sys.stdin:
        child = os.fork()
        if not child:
            try:
                signal.sigwait([signal.SIGUSR1])
                Worker(line.strip()).run()
            except BaseException:  # noqa: BLE001 - told to the parent, which fails the test
                tell("error " + traceback.format_exc().replace("\n", " | "))
            os._exit(0)
        tell(f"pid {child}")
        os.waitpid(child, 0)
        tell("ended")


if __name__ == "__main__":
    main()
