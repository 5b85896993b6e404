"""The command, killed in the middle of what it does to the disk.

Run as ``python mend_child.py``. For each line ``[store, nth, output, arguments]``, as JSON, on its
input it forks; the child runs the command with its output in a file, and is killed by SIGKILL
before the nth call that changes the disk, or after half of it if that is a write and ``nth`` is
negative. With 0 it comes to its end. The parent tells the status: ``-9``, or the exit code.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from holdfast import Holdfast
from holdfast.apps.cli import main as command
from holdfast.storage import MemoryStore
from holdfast.storage.disk import Disk

CHANGING = (
    *("make_directory", "remove_directory", "open_log", "open_new", "open_lock", "write", "sync"),
    *("sync_directory", "rename", "link", "unlink", "truncate"),
)


def tell(text):
    os.write(1, f"{text}\n".encode())


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def kill_at(nth):
    """Have each changing call counted, and the nth one be the last."""
    count = 0

    def counted(call, real):
        def work(*arguments, **options):
            nonlocal count
            count += 1
            if count == nth:
                die()
            if count == -nth:
                if call == "write":
                    *place, data = arguments
                    real(*place, bytes(data)[: len(data) // 2])
                die()
            return real(*arguments, **options)

        return work

    for call in CHANGING:
        found = vars(Disk)[call]
        kind = type(found) if isinstance(found, staticmethod) else lambda work: work
        setattr(Disk, call, kind(counted(call, getattr(found, "__func__", found))))


def run(store, nth, output, arguments):
    place = os.open(output, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
    os.dup2(place, 1)
    os.dup2(place, 2)
    sys.argv = ["holdfast", "--store", store, *arguments]
    if nth:
        kill_at(nth)
    command()


def main():
    with Holdfast(MemoryStore(), timers=False) as hf, hf.session("a") as session:
        session.user("what is loaded late is loaded")
    tell("ready")
    for line in sys.stdin:
        child = os.fork()
        if not child:
            status = 1
            try:
                run(*json.loads(line))
            except SystemExit as end:
                status = end.code or 0
            finally:
                sys.stdout.flush()
                os._exit(status)
        status = os.waitpid(child, 0)[1]
        tell(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
