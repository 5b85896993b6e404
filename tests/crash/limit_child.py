"""A process with little of something: ``python limit_child.py <store> <what> <amount>``.

It writes ``a <token>`` for each append that returned and ``e <class>`` for each documented error,
then has enough again and must go on: ``done``. Anything else is told as ``error``.
"""

from __future__ import annotations

import os
import resource
import sys
import traceback
from pathlib import Path

from holdfast import Holdfast
from holdfast.errors import HoldfastError
from holdfast.model import Limits

LIMITS = Limits(blob_bytes_min=2_000)


def tell(text):
    os.write(1, text.encode() + b"\n")


def steps(hf, first):
    """Everything that needs files, each as a step of its own."""
    for number in range(first, first + 4):
        token = f"<{number}>"
        with hf.session("a") as session:
            session.append("tool_result", {"toolCallId": token, "result": "x" * 3_000})
            tell(f"a {token}")
            session.snapshot()
        hf.list()


def attempt(hf, first):
    try:
        steps(hf, first)
    except HoldfastError as error:
        tell(f"e {type(error).__name__}")
        return False
    except MemoryError:
        tell("e MemoryError")
        return False
    return True


def limited(what, amount):
    """Set the limit; what it was."""
    number = getattr(resource, f"RLIMIT_{what}")
    before = resource.getrlimit(number)
    if what == "NOFILE":
        amount += max(int(name) for name in os.listdir("/proc/self/fd")) + 1
    elif what == "AS":
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        amount += pages * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(number, (amount, before[1]))
    return number, before


def main(store, what, amount):
    with Holdfast(store, limits=LIMITS, timers=False) as hf:
        steps(hf, 0)
        number, before = limited(what, int(amount))
        attempt(hf, 10)
        resource.setrlimit(number, before)
    with Holdfast(store, limits=LIMITS, timers=False) as hf:
        tell("done" if attempt(hf, 20) else "error: it does not go on")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except BaseException:  # noqa: BLE001 - told to the parent, which fails the test
        tell("error " + traceback.format_exc().replace("\n", " | "))
