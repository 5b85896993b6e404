"""A long test of everything at once: forks, snapshots, kills, archive, retention and search on one store.

    python tools/soak.py DURATION [STORE]        DURATION such as 90s, 10m, 1h

Two writers append, snapshot and fork; every few seconds one of them is killed and another begins.
The process itself lists, searches, archives, lets old sessions go and verifies what the killed ones
left. At the end its memory, its descriptors and the time of an append must be what they were. That
time is compared with the bare write of such a line at the same moment, so that what else the
machine does is no part of it.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from holdfast import Holdfast
from holdfast.catalog import Policy
from holdfast.errors import HoldfastError

UNITS = {"s": 1, "m": 60, "h": 3600}
SAMPLE_S = 2.0
KILL_S = 3.0
SESSIONS_KEPT = 25
WRITERS = 2
RENEWED_S = 20
APPENDS = 50
REST_S = 0.02
LINE = b"x" * 300 + b"\n"
MIB = 1 << 20


def seconds_of(text: str) -> float:
    """Parse a duration such as 30m."""
    unit = UNITS.get(text[-1:])
    return float(text) if unit is None else float(text[:-1]) * unit


def work(store: str, seed: int) -> None:
    """Write until killed, and report each append that returned."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    count = 0
    with Holdfast(store) as hf:
        while True:
            # Other sessions after a while: retention must delete as many as are created.
            id = f"session-{int(time.time() / RENEWED_S)}-{chance.randrange(12)}"
            try:
                with hf.session(id) as session:
                    for _ in range(chance.randrange(1, 30)):
                        count += 1
                        session.user(f"<{seed}-{count}> some words to search for {chance.random()}")
                        os.write(1, f"{id} <{seed}-{count}>\n".encode())
                    if chance.random() < 0.2:
                        session.snapshot()
                if chance.random() < 0.1:
                    hf.fork(id, new_id=f"fork-{seed}-{count}")
            except HoldfastError:
                pass
            time.sleep(REST_S)


class Soak:
    """The long-running process, and its measurements of itself."""

    def __init__(self, store: str) -> None:
        self.store = store
        self.hf = Holdfast(store)
        self.chance = random.Random(0)  # noqa: S311 - no secret
        self.seeds = iter(range(1, 1 << 30))
        self.writers = [self.start() for _ in range(WRITERS)]
        self.samples: list[tuple[int, int, float, float]] = []
        self.kills = self.acknowledged = self.pruned = self.hits = self.steps = 0
        self.problems: list[str] = []

    def start(self) -> subprocess.Popen[str]:
        """Start another writer."""
        command = [sys.executable, __file__, "--work", self.store, str(next(self.seeds))]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - ours

    def kill(self) -> None:
        """Kill one writer; its acknowledged events must be in the log while the session exists."""
        number = self.chance.randrange(len(self.writers))
        child = self.writers[number]
        child.send_signal(signal.SIGKILL)
        assert child.stdout is not None
        lines = [line for line in child.stdout if line.endswith("\n")]
        child.stdout.close()
        child.wait(30)
        self.writers[number] = self.start()
        self.kills += 1
        self.acknowledged += len(lines)
        told: dict[str, set[str]] = {}
        for line in lines:
            id, _, token = line.strip().partition(" ")
            told.setdefault(id, set()).add(token)
        for id, tokens in told.items():
            self.check(id, tokens)

    def check(self, id: str, tokens: set[str]) -> None:
        """Check that a session is whole and has all reported events, if it still exists."""
        try:
            report = self.hf.verify(id)
            text = b"\n".join(bytes(event.raw) for event in self.hf.events(id)).decode()
        except HoldfastError:
            return  # it was let go meanwhile
        if report.gaps:
            self.problems.append(f"{id} is damaged: {report.gaps}")
        newest = [token for token in tokens if token in text]
        # A session that was deleted and created again has none of them; any other session has all.
        if newest and len(newest) != len(tokens):
            self.problems.append(f"{id} lost {len(tokens) - len(newest)} of {len(tokens)}")

    def step(self) -> None:
        """Run one of each operation on the store."""
        self.steps += 1
        acts = (self.find, self.find, self.archive, self.read, self.tidy)
        try:
            self.chance.choice(acts)()
        except HoldfastError as error:
            if type(error).__name__ not in ("Locked", "NotFound", "Conflict"):
                self.problems.append(repr(error))

    def find(self) -> None:
        """List and search."""
        self.hf.list(50)
        self.hits += len(list(self.hf.search("words", limit=5)))

    def archive(self) -> None:
        """Archive a session that is not open."""
        self.hf.archive(self.chance.choice(self.hf.session_ids() or ["none"]))

    def read(self) -> None:
        """Read the state of a session."""
        self.hf.state(self.chance.choice(self.hf.session_ids() or ["none"]))

    def tidy(self) -> None:
        """Apply retention: sessions beyond a number go to the trash, and are later erased."""
        done = self.hf.prune(policies=[Policy(keep=SESSIONS_KEPT, action="delete")])
        self.pruned += len(done.decisions)
        for one in self.hf.trash.list():
            self.hf.store.drop(one.key)

    def measure(self) -> None:
        """Measure memory, descriptors, and the median times of an append and of a bare write."""
        times, bare = [], []
        with self.hf.session("measured") as session, tempfile.TemporaryFile(buffering=0) as file:
            for _ in range(APPENDS):
                before = time.perf_counter()
                session.user("x")
                between = time.perf_counter()
                file.write(LINE)
                times.append(between - before)
                bare.append(time.perf_counter() - between)
        self.hf.delete("measured")
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        memory = pages * os.sysconf("SC_PAGE_SIZE")
        files = len(os.listdir("/proc/self/fd"))
        self.samples.append((memory, files, statistics.median(times), statistics.median(bare)))

    def run(self, duration: float) -> None:
        """Run for a number of seconds."""
        end = time.monotonic() + duration
        next_kill = next_sample = time.monotonic()
        while (now := time.monotonic()) < end:
            if now >= next_kill:
                self.kill()
                next_kill = now + KILL_S
            if now >= next_sample:
                self.measure()
                next_sample = now + SAMPLE_S
            self.step()
            time.sleep(REST_S)
        for child in self.writers:
            child.kill()
            child.communicate()
        for id in self.hf.session_ids():
            self.check(id, set())
        self.hf.close()

    def verdict(self) -> list[str]:
        """Return the measurements that grew: the last fifth compared with the second."""
        fifth = max(1, len(self.samples) // 5)
        early, late = self.samples[fifth : 2 * fifth], self.samples[-fifth:]
        found = list(self.problems)
        (memory, files, append, bare), (memory_2, files_2, append_2, bare_2) = (
            [statistics.median(values) for values in zip(*part, strict=True)] for part in (early, late)
        )
        if memory_2 > memory * 1.1 + 8 * MIB:
            found.append(f"memory grew from {memory / MIB:.0f} to {memory_2 / MIB:.0f} MiB")
        if files_2 > files + 2:
            found.append(f"descriptors grew from {files:.0f} to {files_2:.0f}")
        if append_2 / bare_2 > 1.5 * append / bare + 2:
            found.append(f"an append took {append / bare:.1f} writes, then {append_2 / bare_2:.1f}")
        return found


def note(minutes: float, found: list[str]) -> None:
    """Record the result for the report of the campaign: see tests/crash/campaign_log.py."""
    place = os.environ.get("CAMPAIGN_RESULTS")
    if place:
        day = datetime.now(UTC).date().isoformat()
        line = {"row": "soak", "count": int(minutes), "wrong": len(found), "date": day, "note": ""}
        with open(place, "a", encoding="utf-8") as results:
            results.write(json.dumps(line) + "\n")


def main(duration: str, store: str | None = None) -> None:
    """Run the test, print the result, and fail if any measurement grew."""
    seconds = seconds_of(duration)
    place = store or tempfile.mkdtemp(prefix="soak-")
    soak = Soak(place)
    soak.run(seconds)
    found = soak.verdict()
    memory, files, append, bare = soak.samples[-1]
    print(
        f"{seconds / 60:.1f} min: {soak.kills} kills, {soak.acknowledged:,} appends of the killed,"
        f" {soak.steps:,} steps, {soak.pruned} sessions let go, {soak.hits:,} hits; at the end"
        f" {memory / MIB:.0f} MiB, {files} descriptors, {append * 1e6:.0f} µs an append"
        f" ({append / bare:.1f} bare writes); " + ("; ".join(found) if found else "flat")
    )
    note(seconds / 60, found)
    if store is None:
        shutil.rmtree(place, ignore_errors=True)
    sys.exit(bool(found))


if __name__ == "__main__":
    if sys.argv[1] == "--work":
        work(sys.argv[2], int(sys.argv[3]))
    main(*sys.argv[1:])
