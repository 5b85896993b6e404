"""The model behind docs/explanation/scale.md: a plan from measured figures and assumptions.

Everything here is arithmetic and a seeded simulation: the same figures give the same tables.
"""

from __future__ import annotations

import heapq
import math
import random
from typing import Any, NamedTuple

import msgspec

__all__ = ["Assumptions", "Measured", "Plan", "Played", "rows_of", "simulate"]

_DAY_S = 86_400
_MONTH_DAYS = 30
_TURN_EVENTS = 4


class Assumptions(msgspec.Struct, frozen=True):
    """Assumptions: the load, the machines, the prices. Change them to your own."""

    users: int = 10_000_000
    events_per_day: int = 1_000_000_000
    events_per_session: int = 50
    session_minutes: int = 15
    peak: float = 3.0
    """The load of the busiest minutes, relative to the mean of a day."""
    busy: float = 0.5
    """The planned utilisation of a processor."""
    hot_days: int = 30
    cold_days: int = 335
    copies: int = 2
    """The number of machines of a database: itself and a standby."""
    sessions_per_process: int = 500
    """The number of sessions open at once in one application process."""
    cores_per_database: int = 32
    tb_per_database: float = 8.0
    gb_per_partition: float = 64.0
    connections: int = 5
    """The connections of one process: the default of four, and one that listens."""
    usd_core_hour: float = 0.045
    usd_disk_gb_month: float = 0.10
    usd_object_gb_month: float = 0.023
    usd_million_puts: float = 5.0
    puts_per_session: int = 3


class Measured(msgspec.Struct, frozen=True):
    """One machine's figures; processor time is of one core."""

    app_event_us: float
    app_batch_us: float
    db_event_us: float
    db_batch_us: float
    app_index_us: float
    db_index_us: float
    app_session_us: float
    db_session_us: float
    db_renewal_us: float
    commit_ms: float
    log_bytes: float
    table_bytes: float
    index_bytes: float
    wal_bytes: float
    index_wal_bytes: float
    archive_ratio: float
    batch_events: float
    events_per_s: float

    @classmethod
    def of(cls, cost: dict[str, dict[str, float]], counts: dict[str, int], **rest: float) -> Measured:
        """Derive the figures from the costs of single events, batched events, sessions and renewals."""
        fits = {}
        for side in ("app", "db"):
            rows = [(cost[how]["commits"], counts[how], cost[how][side]) for how in ("alone", "together")]
            fits[side] = _fit(*rows)
        sessions, renewals, events = counts["sessions"], counts["renewals"], counts["together"]
        return cls(
            app_batch_us=fits["app"][0] * 1e6,
            app_event_us=fits["app"][1] * 1e6,
            db_batch_us=fits["db"][0] * 1e6,
            db_event_us=fits["db"][1] * 1e6,
            app_index_us=cost["index"]["app"] / events * 1e6,
            db_index_us=cost["index"]["db"] / events * 1e6,
            index_wal_bytes=cost["index"]["wal"] / events,
            app_session_us=cost["sessions"]["app"] / sessions * 1e6,
            db_session_us=cost["sessions"]["db"] / sessions * 1e6,
            db_renewal_us=cost["renewals"]["db"] / renewals * 1e6,
            wal_bytes=cost["together"]["wal"] / events,
            batch_events=events / max(1.0, cost["together"]["commits"]),
            events_per_s=events / cost["together"]["seconds"],
            **rest,
        )


def _fit(alone: tuple[float, int, float], together: tuple[float, int, float]) -> tuple[float, float]:
    """Return the cost of a batch and of an event in it, from two mixtures of both; neither is below 0."""
    (batches, events, cost), (batches2, events2, cost2) = alone, together
    determinant = batches * events2 - batches2 * events
    if determinant <= 0:
        return 0.0, cost2 / events2
    batch = (cost * events2 - cost2 * events) / determinant
    event = (cost2 - batch * batches2) / events2
    if batch < 0 or event < 0:
        return (0.0, cost2 / events2) if batch < 0 else (cost / batches, 0.0)
    return batch, event


class Plan:
    """The resources that the load needs."""

    def __init__(self, measured: Measured, assumed: Assumptions) -> None:
        self.measured = measured
        self.assumed = assumed
        self.mean_s = assumed.events_per_day / _DAY_S
        self.peak_s = self.mean_s * assumed.peak
        sessions_day = assumed.events_per_day / assumed.events_per_session
        self.sessions_peak_s = sessions_day / _DAY_S * assumed.peak
        self.open_sessions = self.sessions_peak_s * assumed.session_minutes * 60
        # A lease lasts 30 seconds and is renewed three times in that.
        self.renewals_s = self.open_sessions / 10
        self.app_cores = self._app_cores()
        self.db_cores = self._db_cores()
        event_bytes = measured.table_bytes + measured.index_bytes
        self.hot_tb = assumed.events_per_day * assumed.hot_days * event_bytes / 1e12
        cold_bytes = assumed.events_per_day * measured.log_bytes * measured.archive_ratio
        self.cold_tb = cold_bytes * assumed.cold_days / 1e12
        self.databases = max(
            math.ceil(self.db_cores / assumed.cores_per_database), math.ceil(self.hot_tb / assumed.tb_per_database)
        )
        self.processes = math.ceil(max(self.app_cores, self.open_sessions / assumed.sessions_per_process))
        self.partitions = 1 << math.ceil(
            math.log2(max(1.0, self.hot_tb * 1e3 / self.databases / assumed.gb_per_partition))
        )

    def _app_cores(self) -> float:
        """Return the cores of the applications, in the worst case that each turn is a batch of its own."""
        one = self.measured
        used = self.peak_s * (one.app_event_us + one.app_index_us + one.app_batch_us / _TURN_EVENTS)
        return (used + self.sessions_peak_s * one.app_session_us) / 1e6 / self.assumed.busy

    def _db_cores(self) -> float:
        one = self.measured
        used = self.peak_s * (one.db_event_us + one.db_index_us + one.db_batch_us / _TURN_EVENTS)
        used += self.sessions_peak_s * one.db_session_us + self.renewals_s * one.db_renewal_us
        return used / 1e6 / self.assumed.busy

    def usd_per_million(self) -> dict[str, float]:
        """Return the cost of a million events in a steady month, by item."""
        assumed = self.assumed
        millions = assumed.events_per_day * _MONTH_DAYS / 1e6
        core_month = assumed.usd_core_hour * 24 * _MONTH_DAYS
        disk = self.hot_tb * 1e3 * assumed.copies * assumed.usd_disk_gb_month
        puts = assumed.puts_per_session / assumed.events_per_session * assumed.usd_million_puts
        return {
            "processors of the applications": self.app_cores * core_month / millions,
            "processors of the databases": self.db_cores * assumed.copies * core_month / millions,
            "disks of the databases": disk / millions,
            "object storage": self.cold_tb * 1e3 * assumed.usd_object_gb_month / millions,
            "writing the objects": puts,
        }


class Played(NamedTuple):
    """One database in the simulation."""

    load: float
    events_s: float
    commits_s: float
    batch_events: float
    p50_ms: float
    p99_ms: float
    cores_used: float


def simulate(
    plan: Plan,
    load: float,
    *,
    serial: bool,
    databases: int | None = None,
    commit_ms: float | None = None,
    seconds: float = 10.0,
) -> Played:
    """Simulate one of the databases and its processes at ``load`` times the peak, deterministically.

    Turns come at random. A process sends one batch at a time: all that came meanwhile. The database
    has so many cores, and a commit waits for its disk: together with others, or, as ``serial``
    says, one after the other, which is what ``NOTIFY`` does to the transactions that use it.
    """
    play = _Play(plan, load, databases or plan.databases, serial=serial)
    play.commit_ms = commit_ms or plan.measured.commit_ms
    return play.run(seconds)


class _Play:
    def __init__(self, plan: Plan, load: float, databases: int, *, serial: bool) -> None:
        self._measured = plan.measured
        self.commit_ms = 0.0
        self._load = load
        self._serial = serial
        self._random = random.Random(16)
        processes = max(1, round(plan.processes / databases))
        rate = plan.peak_s * load / databases / _TURN_EVENTS / processes
        self._rate = rate
        self._waiting: list[list[float]] = [[] for _ in range(processes)]
        self._flying: list[list[float]] = [[] for _ in range(processes)]
        self._cores = [0.0] * plan.assumed.cores_per_database
        self._disk = 0.0
        self._agenda: list[tuple[float, int, str, int]] = []
        self._number = 0
        self._latencies: list[float] = []
        self._batches = 0
        self._used = 0.0

    def run(self, seconds: float) -> Played:
        for process in range(len(self._waiting)):
            self._note(self._random.expovariate(self._rate), "turn", process)
        while self._agenda and self._agenda[0][0] < seconds:
            now, _, what, process = heapq.heappop(self._agenda)
            getattr(self, f"_{what}")(now, process)
        found = sorted(self._latencies) or [math.inf]
        turns = len(self._latencies)
        return Played(
            load=self._load,
            events_s=turns * _TURN_EVENTS / seconds,
            commits_s=self._batches / seconds,
            batch_events=turns * _TURN_EVENTS / max(1, self._batches),
            p50_ms=found[len(found) // 2] * 1e3,
            p99_ms=found[len(found) * 99 // 100] * 1e3,
            cores_used=self._used / seconds,
        )

    def _note(self, when: float, what: str, process: int) -> None:
        self._number += 1
        heapq.heappush(self._agenda, (when, self._number, what, process))

    def _turn(self, now: float, process: int) -> None:
        self._note(now + self._random.expovariate(self._rate), "turn", process)
        self._waiting[process].append(now)
        if not self._flying[process]:
            self._send(now, process)

    def _send(self, now: float, process: int) -> None:
        batch = self._flying[process] = self._waiting[process]
        self._waiting[process] = []
        one = self._measured
        event_us = one.db_event_us + one.db_index_us
        work = (one.db_batch_us + event_us * _TURN_EVENTS * len(batch)) / 1e6
        self._used += work
        free = heapq.heappop(self._cores)
        done = max(now, free) + work
        heapq.heappush(self._cores, done)
        self._note(done, "commit", process)

    def _commit(self, now: float, process: int) -> None:
        wait = self._random.expovariate(1e3 / self.commit_ms)
        begin = max(now, self._disk) if self._serial else now
        self._disk = begin + wait
        self._note(begin + wait, "stored", process)

    def _stored(self, now: float, process: int) -> None:
        self._batches += 1
        self._latencies += [now - came for came in self._flying[process]]
        self._flying[process] = []
        if self._waiting[process]:
            self._send(now, process)


def rows_of(plan: Plan) -> list[tuple[str, Any]]:
    """Return the plan as text."""
    return [
        ("events per second, mean", f"{plan.mean_s:,.0f}"),
        ("events per second, peak", f"{plan.peak_s:,.0f}"),
        ("sessions opened per second, peak", f"{plan.sessions_peak_s:,.0f}"),
        ("sessions open at once, peak", f"{plan.open_sessions:,.0f}"),
        ("leases renewed per second, peak", f"{plan.renewals_s:,.0f}"),
        ("cores of the applications", f"{plan.app_cores:,.0f}"),
        ("processes of the applications", f"{plan.processes:,}"),
        ("cores of the databases, without standbys", f"{plan.db_cores:,.0f}"),
        ("databases", f"{plan.databases:,}"),
        ("partitions of each table in each", f"{plan.partitions:,}"),
        ("connections to each database", f"{_connections(plan):,.0f}"),
        (f"in the databases, {plan.assumed.hot_days} days", f"{plan.hot_tb:,.1f} TB"),
        (f"in the archive, {plan.assumed.cold_days} days", f"{plan.cold_tb:,.1f} TB"),
    ]


def _connections(plan: Plan) -> int:
    """Return the connections of the processes whose users live in one database."""
    return math.ceil(plan.processes / plan.databases) * plan.assumed.connections
