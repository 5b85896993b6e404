"""Resuming a long session: open it and show its last 50 turns, in a fresh process."""

from __future__ import annotations

import os
from typing import Any

import holdfast
from bench.child import SESSION
from bench.figures import Line, line_of, median, millis, ratios_of
from bench.fresh import on_copy
from bench.workload import record, step

__all__ = ["Resume"]


class Resume:
    """A session of 100,000 events against one of 10,000, and both against the bare tail."""

    def __init__(self, *, quick: bool) -> None:
        self._sizes = (1_000, 10_000) if quick else (10_000, 100_000)
        self._folder = ""
        self._ours: dict[int, list[float]] = {size: [] for size in self._sizes}
        self._tail: dict[int, list[float]] = {size: [] for size in self._sizes}
        self._read: dict[int, list[float]] = {size: [] for size in self._sizes}

    def prepare(self, folder: str) -> None:
        """Create both sessions, as a program leaves them when it closes them."""
        self._folder = folder
        limits = holdfast.Limits(session_bytes_max=1 << 40)
        for size in self._sizes:
            call: Any = None
            store = self._store(size)
            with holdfast.open(store, limits=limits) as hf, hf.session(SESSION) as session:
                for index in range(size):
                    call = record(session, step(index), call)

    def measure(self, folder: str) -> None:
        """Run one round: each size twice in turn, the bare tail between."""
        found: dict[tuple[int, str], list[float]] = {}
        for _ in range(2):
            for size in self._sizes:
                for job in ("resume_session", "floor_tail", "read_tail"):
                    spent = on_copy(job, self._store(size))
                    found.setdefault((size, job), []).append(spent)
        for size in self._sizes:
            self._ours[size].append(min(found[size, "resume_session"]))
            self._tail[size].append(min(found[size, "floor_tail"]))
            self._read[size].append(min(found[size, "read_tail"]))

    def lines(self) -> list[Line]:
        """Return the table's lines."""
        small, large = self._sizes
        flat = line_of(
            f"resume to the last 50 turns, {large:,} events (of {small:,})",
            ratios_of(self._ours[large], self._ours[small]),
            None,
            ours=millis(median(self._ours[large])),
            floor=millis(median(self._ours[small])),
        )
        opened = self._line("open for writing and read the last 50 turns", self._ours[large])
        read = self._line("read the last 50 turns, not opened for writing", self._read[large])
        return [flat.shows("resume"), opened.shows("resume-tail"), read]

    def _line(self, what: str, ours: list[float]) -> Line:
        large = self._sizes[-1]
        return line_of(
            f"resume, {large:,} events: {what} (reading and decoding the bare tail)",
            ratios_of(ours, self._tail[large]),
            None,
            ours=f"{median(ours) / 1e6:.2f} ms",
            floor=f"{median(self._tail[large]) / 1e6:.2f} ms",
        )

    def _store(self, size: int) -> str:
        return os.path.join(self._folder, f"of-{size}")
