"""Measurements in fresh processes: bytes, syncs, loads, memory, imports."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any, ClassVar

import holdfast
from bench.child import SESSION, ask, log_path
from bench.figures import Line, line_of, median, millis, ratios_of
from bench.workload import record, step

__all__ = ["Bytes", "Imports", "Load", "Memory", "Syncs", "on_copy"]


class Bytes:
    """The bytes that a session writes and leaves on disk, against its plain lines."""

    def __init__(self, *, quick: bool) -> None:
        self._count = 2_000 if quick else 10_000
        self._found: list[dict[str, int]] = []

    def measure(self, folder: str) -> None:
        """Run one round."""
        store = os.path.join(folder, "bytes")
        self._found.append(ask("write_session", store, str(self._count)))

    def lines(self) -> list[Line]:
        """Return the table's lines."""
        return [self._line("bytes on disk, snapshots included", "disk"), self._line("bytes written", "written")]

    def _line(self, what: str, name: str) -> Line:
        one = self._found[-1]
        return line_of(
            f"{what} (plain lines)",
            [found[name] / found["plain"] for found in self._found],
            None,
            ours=f"{one[name] / self._count:,.0f} B per event",
            floor=f"{one['plain'] / self._count:,.0f} B per event",
        ).shows(name)


class Syncs:
    """The number of syncs of one flush, counted by strace if it is installed."""

    _COUNT = 50

    def __init__(self, *, quick: bool) -> None:
        self._ratios: list[float] = []

    def measure(self, folder: str) -> None:
        """Count once, which is enough."""
        if self._ratios or shutil.which("strace") is None:
            return
        with tempfile.NamedTemporaryFile("r", dir=folder) as trace:
            calls = "trace=fsync,fdatasync,sync_file_range,sync,msync,getppid"
            strace = ("strace", "-f", "-qq", "-o", trace.name, "-e", calls)
            store = os.path.join(folder, "syncs")
            count = ask("flush_often", store, str(self._COUNT), prefix=strace)
            inside = trace.read().split("getppid(")[1]
        self._ratios.append(inside.count("sync(") / count)

    def lines(self) -> list[Line]:
        """Return the table's lines; none without strace."""
        if not self._ratios:
            return []
        return [line_of("syncs per flush (counted)", self._ratios, None, floor="1").shows("flush-syncs")]


class Load:
    """A verified load in a fresh process against bare decoding of the same file."""

    _JOBS: ClassVar = {
        "load_data": ("list(hf.events(id)), all data decoded", "plain", "load-data"),
        "load_events": ("list(hf.events(id)), data decoded when looked at", "plain", "load"),
        "open_session": ("open a session, no snapshot", "plain", ""),
        "open_snapshot": ("open a session, snapshot", "snapshot", "load-snapshot"),
        "open_messages": ("open a session and its messages", "plain", ""),
        "recover": ('hf.recover(id, "anthropic")', "plain", ""),
    }

    def __init__(self, *, quick: bool) -> None:
        self._count = 10_000
        self._floors: list[float] = []
        self._raw: list[float] = []
        self._ours: dict[str, list[float]] = {job: [] for job in self._JOBS}
        self._save: list[float] = []
        self._stores: dict[str, str] = {}

    def prepare(self, folder: str) -> None:
        """Create the stores; loads work on copies."""
        self._stores = _stores(folder, self._count)

    def measure(self, folder: str) -> None:
        """Run one round: floor, half of the loads, floor, the others, floor."""
        stores = self._stores
        floors = [ask("floor_typed", stores["plain"])]
        self._raw.append(ask("floor_raw", stores["plain"]))
        for number, (job, (_, kind, _)) in enumerate(self._JOBS.items()):
            name = "open_session" if job == "open_snapshot" else job
            self._ours[job].append(on_copy(name, stores[kind]))
            if number % 2:
                floors.append(ask("floor_typed", stores["plain"]))
        self._floors.append(median(floors))
        self._save.append(on_copy("save_session", stores["plain"]))

    def lines(self) -> list[Line]:
        """Return the table's lines."""
        found = []
        for job, (what, _, goal) in self._JOBS.items():
            line = self._line(f"load {self._count:,}: {what} (decode_lines, typed)", job, self._floors)
            found.append(line.shows(goal) if goal else line)
        raw = f"load {self._count:,}: list(hf.events(id)) (decode_lines, data left raw)"
        typed = f"recover {self._count:,} events to a provider dialect (our typed load)"
        loads = [spent / 1e6 for spent in self._ours["open_session"]]
        saves = [spent / 1e6 for spent in self._save]
        return [
            *found,
            self._line(raw, "load_events", self._raw),
            self._line(typed, "recover", self._ours["load_data"]).shows("recover"),
            line_of(f"ms to load a session of {self._count:,} events", loads, None).shows("load-ms"),
            line_of(f"ms to save one of {self._count:,}: event, flush, snapshot", saves, None).shows("save"),
        ]

    def _line(self, what: str, job: str, floors: list[float]) -> Line:
        ours = self._ours[job]
        spent = {"ours": millis(median(ours)), "floor": millis(median(floors))}
        return line_of(what, ratios_of(ours, floors), None, **spent)


class Memory:
    """The memory of a loaded session with its messages, against the bytes of its log."""

    def __init__(self, *, quick: bool) -> None:
        self._count = 10_000
        self._payload = 0
        self._store = ""
        self._held: list[int] = []
        self._peak: list[int] = []
        self._floor: list[int] = []

    def prepare(self, folder: str) -> None:
        """Create the store."""
        self._store = _stores(folder, self._count)["plain"]

    def measure(self, folder: str) -> None:
        """Run one round."""
        store = self._store
        self._payload = os.path.getsize(log_path(store))
        found = on_copy("memory_session", store)
        self._held.append(found["held"])
        self._peak.append(found["peak"])
        self._floor.append(ask("memory_floor", store)["held"])

    def lines(self) -> list[Line]:
        """Return the table's lines."""
        payload = f"{self._payload / 1e6:.1f} MB"
        return [
            self._line("a loaded session with its messages", self._held, payload).shows("memory"),
            self._line("the same, at its highest", self._peak, payload),
            self._line("typed structs of the log, for comparison", self._floor, payload),
        ]

    def _line(self, what: str, found: list[int], payload: str) -> Line:
        ratios = [size / self._payload for size in found]
        ours = f"{median(found) / 1e6:.1f} MB"
        return line_of(f"memory: {what} (payload)", ratios, None, ours=ours, floor=payload)


class Imports:
    """The cost of importing above a bare interpreter; everything is compiled beforehand, as after an installation."""

    # With its types: `import holdfast` alone loads nothing until a name is used.
    _CODES = (
        "pass",
        "import msgspec, orjson",
        "from holdfast import Event, HoldfastError, Limits, Notice, SessionMetadata",
        "from holdfast import open",
    )

    def __init__(self, *, quick: bool) -> None:
        self._each = 3 if quick else 5
        self._spent: list[tuple[float, ...]] = []

    def measure(self, folder: str) -> None:
        """Run one round: all of them repeatedly, in turn."""
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": os.path.join(folder, "compiled")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for code in self._CODES:
            _run(code, environment)
        turns = [[_run(code, environment) for code in self._CODES] for _ in range(self._each)]
        self._spent.append(tuple(median(each) for each in zip(*turns, strict=True)))

    def lines(self) -> list[Line]:
        """Return the table's lines."""
        what = "import holdfast, above a bare interpreter (msgspec and orjson)"
        first_use = "the same with what the first open() loads (msgspec and orjson)"
        return [self._line(what, 2).shows("import"), self._line(first_use, 3)]

    def _line(self, what: str, number: int) -> Line:
        added = [(spent[number] - spent[0], spent[1] - spent[0]) for spent in self._spent]
        ours, floor = (median(each) for each in zip(*added, strict=True))
        ratios = [one / least for one, least in added]
        return line_of(what, ratios, None, ours=millis(ours), floor=millis(floor))


def _run(code: str, environment: dict[str, str]) -> int:
    command = [sys.executable, "-P", "-c", code]
    begin = time.perf_counter_ns()
    subprocess.run(command, check=True, env=environment)
    return time.perf_counter_ns() - begin


def _stores(folder: str, count: int) -> dict[str, str]:
    """Return two stores with the same session, one of them with a snapshot near its end."""
    found = {kind: os.path.join(folder, f"{kind}-{count}") for kind in ("plain", "snapshot")}
    for kind, store in found.items():
        if not os.path.exists(store):
            _fill(store, count, snapshot=kind == "snapshot")
    return found


def _fill(store: str, count: int, *, snapshot: bool) -> None:
    call: Any = None
    limits = holdfast.Limits(snapshot_growth_bytes_min=1 << 40)
    with holdfast.open(store, limits=limits) as hf, hf.session(SESSION) as session:
        for index in range(count):
            call = record(session, step(index), call)
            if snapshot and index == count - 50:
                session.snapshot()


def on_copy(job: str, store: str) -> Any:
    """Run a job on a copy, so that a process that ends without closing does not affect the next one."""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(store)) as folder:
        copy = os.path.join(folder, "store")
        shutil.copytree(store, copy)
        os.chmod(copy, 0o700)
        return ask(job, copy)
