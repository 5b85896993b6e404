"""``python -m bench.million [--events N] [--store FOLDER]``: one very long session, each figure in its own process.

Makes the session if the folder has none: events of 200 bytes, or with ``--large`` of 1.5 KB. Tells processor time, and
the highest memory of the whole process against the bytes of the log.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import holdfast
from bench.child import ROOT, SCRATCH, SESSION, log_path

__all__ = ["JOBS", "main"]

_TURNS = 50
_ARCHIVED_MAX = 1 << 30  # bytes
_SMALL = 70  # characters, of a line with 200 bytes


def _make(store: str, events: int, *, large: bool) -> None:
    from bench.workload import record, step  # its texts are none of what is measured

    call: Any = None
    with _open(store) as hf:
        with hf.session(SESSION) as session:
            for index in range(events):
                event = step(index)
                call = record(session, event if large else event._replace(text=event.text[:_SMALL]), call)
        hf.list(1)  # else every process that opens it would go on with the catalogue


def _open(store: str) -> holdfast.Holdfast:
    return holdfast.open(store, limits=holdfast.Limits(session_bytes_max=1 << 40))


def _opened(hf: holdfast.Holdfast) -> object:
    return hf.session(SESSION)


def _last_turns(hf: holdfast.Holdfast) -> object:
    """Return the messages of the last turns, from events read from the end."""
    from holdfast.replay import Conversation

    found, turns = [], 0
    for event in hf.events(SESSION, reverse=True):
        found.append(event)
        turns += event.type == "user"
        if turns == _TURNS:
            break
    conversation = Conversation()
    conversation.feed_all(found[::-1])
    return conversation.messages("anthropic")


def _messages(hf: holdfast.Holdfast) -> object:
    return hf.session(SESSION).messages("anthropic")


def _recovered(hf: holdfast.Holdfast) -> object:
    return hf.recover(SESSION, provider="anthropic")


def _exported(hf: holdfast.Holdfast) -> object:
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        return hf.export(SESSION, "jsonl", to=os.path.join(folder, "session"))


def _archived(hf: holdfast.Holdfast) -> object:
    hf.archive(SESSION)
    return hf.unarchive(SESSION)


JOBS: dict[str, Callable[[holdfast.Holdfast], object]] = {
    "open by snapshot": _opened,
    f"messages of the last {_TURNS} turns": _last_turns,
    "messages": _messages,
    "recover": _recovered,
    "export as lines": _exported,
    "archive, and back": _archived,
}


_SHORT = tuple(JOBS)[:2]
"""The jobs that take no longer than loading their code, which is loaded beforehand."""


def _warm_up(store: str) -> None:
    with _open(store) as hf:
        with hf.session(SESSION) as session:
            for _ in range(_TURNS):
                session.user("warm")
        assert _opened(hf)
        assert _last_turns(hf)


def _measured(store: str, job: str) -> tuple[float, int]:
    """Return the seconds of processor time, and the highest memory in bytes."""
    if job in _SHORT:
        _warm_up(f"{store}-warm")
    with _open(store) as hf:
        begin = time.process_time()
        kept = JOBS[job](hf)
        spent = time.process_time() - begin
        del kept
    return spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Measure and print; ``--job`` is for the measuring processes."""
    parser = argparse.ArgumentParser(prog="bench.million", description="One very long session.")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--large", action="store_true", help="events of 1.5 KB instead of 200 bytes")
    parser.add_argument("--store", default="", help="where the session is, or is to be made and kept")
    parser.add_argument("--only", nargs="+", choices=JOBS, default=JOBS)
    parser.add_argument("--job", choices=(*JOBS, "make"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.job == "make":
        _make(chosen.store, chosen.events, large=chosen.large)
        return
    if chosen.job:
        print(json.dumps(_measured(chosen.store, chosen.job)))
        return
    os.makedirs(SCRATCH, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        store = os.path.abspath(chosen.store or os.path.join(folder, "store"))
        if not os.path.exists(log_path(store)):
            # In a separate process, because a child process inherits the highest memory of its parent.
            command = [sys.executable, "-m", "bench.million", "--store", store, "--job", "make"]
            command += ["--events", str(chosen.events), *(["--large"] if chosen.large else [])]
            subprocess.run(command, cwd=ROOT, check=True)
        size = os.path.getsize(log_path(store))
        print(f"{size / 1e6:,.0f} MB of log; load of the machine {os.getloadavg()[0]:.1f}")
        for job in chosen.only:
            if JOBS[job] is _archived and size > _ARCHIVED_MAX:
                print(f"{job:28} not done: only logs up to 1 GiB are archived")
                continue
            command = [sys.executable, "-m", "bench.million", "--store", store, "--job", job]
            done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
            spent, peak = json.loads(done.stdout)
            print(f"{job:28} {spent:8.3f} s  {peak / 1e6:7,.0f} MB  {peak / size:5.2f} of the log", flush=True)


if __name__ == "__main__":
    main()
