"""Sessions of a terminal: nothing lost, nothing in the way, and written down.

Shows S2-104 to S2-108. The writer is killed with SIGKILL again and again:

    python examples/shown/terminal_sessions.py
"""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import holdfast
from holdfast.errors import HoldfastError

KILLS = 10
WRITER = """
import sys
import holdfast

session = holdfast.open(sys.argv[1]).session("busy")
while True:
    event = session.user("x" * 300)
    print(event.seq, flush=True)  # from here on it must never be lost
"""
PROJECT = Path(__file__).parents[2]


def nothing_is_lost(store: str) -> None:
    """Kill a writer in mid-work; what it was told is recorded must be there."""
    lost = told = 0
    for _ in range(KILLS):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, store], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        seqs = [int(writer.stdout.readline()) for _ in range(100)]
        writer.kill()
        seqs += [int(line) for line in writer.stdout if line.endswith("\n")]
        writer.wait()
        with holdfast.open(store) as hf:
            there = {event.seq for event in hf.events("busy")}
        told += len(seqs)
        lost += len(set(seqs) - there)
    with holdfast.open(store) as hf:
        report = hf.verify("busy")
    assert told >= KILLS * 100
    print(f"S2-104 {KILLS} kills, acknowledged events that were lost: {lost}; whole: {report.ok}")


def coverage() -> None:
    """What the tests must cover before anything lands."""
    settings = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))
    print("S2-105 tests must cover at least", settings["tool"]["coverage"]["report"]["fail_under"], "%")


def edge_cases(store: str) -> None:
    """Odd input is refused with a sentence, and leaves nothing behind."""
    odd = {
        "an id that is a path": lambda hf: hf.session("../../etc/passwd"),
        "a message of 2 MB": lambda hf: hf.session("a").user("x" * 2_000_000),
        "half a character": lambda hf: hf.session("a").user("\ud83d"),
        "a session that is not there": lambda hf: hf.export("nobody", "markdown"),
    }
    with holdfast.open(store) as hf:
        for what, attempt in odd.items():
            try:
                attempt(hf)
            except HoldfastError as error:
                print(f"S2-106 {what}: {type(error).__name__}")
        print("       sessions that came of it:", len(list(hf.list())))


def indicators(store: str) -> None:
    """The command says where it stands, on a terminal as in a pipe."""
    command = [sys.executable, "-m", "holdfast", "list", "--store", store]
    piped = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    above, below = pty.openpty()
    subprocess.run(command, stdout=below, stderr=below, check=True)
    os.close(below)
    shown = os.read(above, 65_536).decode()
    os.close(above)
    print("S2-107 colours on a terminal:", "\x1b[" in shown, "- and in a pipe:", "\x1b[" in piped)


def documentation() -> None:
    """What there is to read."""
    pages = sorted((PROJECT / "docs" / "howto").rglob("*.md"))
    print("S2-108 how-to guides, whose examples are run by the tests:", len(pages) > 30)


def main() -> None:
    """Show each of them on stores that go with the program."""
    with tempfile.TemporaryDirectory() as folder:
        nothing_is_lost(f"{folder}/one")
        coverage()
        edge_cases(f"{folder}/two")
        indicators(f"{folder}/one")
        documentation()


if __name__ == "__main__":
    main()
