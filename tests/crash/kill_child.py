"""A process that is killed: forks a fresh writer for each line it reads, and says what is safe.

Run as ``python kill_child.py <store>``. For each line ``<round> <session>`` of input it forks. The
child says ``open``, then appends, flushes, closes and opens again at random until it is killed, and
writes a line for every promise of the library: ``a <token>`` for an append that returned, ``f`` for
a flush.
"""

from __future__ import annotations

import os
import random
import sys
import traceback

from holdfast import Holdfast
from holdfast.model import Limits

LIMITS = Limits(blob_bytes_min=2_000)
STEPS_MAX = 2_000


def tell(text):
    os.write(1, text.encode() + b"\n")


class Writer:
    """Does things to one session at random, and tells each promise."""

    def __init__(self, store, number, id):
        self.number = number
        self.random = random.Random(number)
        self.hf = Holdfast(store, limits=LIMITS)
        self.id = id
        self.count = 0
        self.session = self.hf.session(id)
        tell("open")

    def token(self):
        self.count += 1
        return f"<{self.number}-{self.count}>"

    def append(self):
        token = self.token()
        self.session.user(token)
        tell(f"a {token}")

    def batch(self):
        tokens = [self.token() for _ in range(3)]
        self.session.extend([("user", {"role": "user", "content": token}) for token in tokens])
        for token in tokens:
            tell(f"a {token}")

    def blob(self):
        token = self.token()
        result = token + "x" * self.random.randrange(2_000, 9_000)
        self.session.append("tool_result", {"toolCallId": token, "result": result})
        tell(f"a {token}")

    def tool(self):
        token = self.token()
        with self.session.tool("Read", {"path": token}) as call:
            tell(f"a {token}")
            tell("f")
            call.result = "done"

    def flush(self):
        self.session.flush()
        tell("f")

    def snapshot(self):
        self.session.snapshot()
        tell("f")

    def reopen(self):
        self.session.close()
        tell("f")
        self.session = self.hf.session(self.id)

    def run(self):
        steps = [self.append] * 24 + [self.batch, self.blob, self.tool, self.flush] * 2
        steps += [self.snapshot, self.reopen]
        for _ in range(STEPS_MAX):
            self.random.choice(steps)()


def warm_up():
    """Load what is loaded on first use, once for all children."""
    with Holdfast("memory:") as hf, hf.session("warm") as session:
        session.user("up")
        session.snapshot()


def main(store):
    warm_up()
    tell("ready")
    for line in sys.stdin:
        number, id = line.split()
        child = os.fork()
        if not child:
            tell(f"pid {os.getpid()}")  # by itself, so that it comes before all that it tells
            try:
                Writer(store, int(number), id).run()
            except BaseException:  # noqa: BLE001 - told to the parent, which fails the test
                tell("error " + traceback.format_exc().replace("\n", " | "))
            os._exit(0)
        os.waitpid(child, 0)
        tell("ended")


if __name__ == "__main__":
    main(sys.argv[1])
