"""``python -m bench.scale``: what 10 million users would need, from what one machine measures.

Measures the PostgreSQL store (processor time of the application and of the server, bytes, commits),
puts the figures into a model, and plays one shard through a simulation of its busiest minutes.
``--write`` keeps the figures (bench/scale.json) and puts the tables into docs/explanation/scale.md;
``--kept`` computes with the figures that are kept and measures nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from typing import Any

import msgspec

from bench.child import ROOT, SCRATCH
from bench.figures import median
from bench.model import Assumptions, Measured, Plan, rows_of, simulate
from bench.workload import step

__all__ = ["main", "page_with", "tables"]

KEPT = os.path.join(ROOT, "bench", "scale.json")
PAGE = os.path.join(ROOT, "docs", "explanation", "scale.md")
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"

_SESSIONS = 64


def measure(*, quick: bool) -> Measured:
    """Measure this machine. Raises RuntimeError without a server."""
    from bench import server

    why = server.missing()
    if why is not None:
        raise RuntimeError(why)
    running = server.Server()
    try:
        running.start()
        return asyncio.run(_measure(running, 100 if quick else 500))
    finally:
        running.stop()


async def _measure(running: Any, each: int) -> Measured:
    import asyncpg

    import holdfast

    question = await asyncpg.connect(running.url)
    counts = {"alone": each * 4, "together": _SESSIONS * each, "sessions": each}
    counts["renewals"] = _SESSIONS * (each // 5)
    cost: dict[str, dict[str, float]] = {}
    with holdfast.open(running.url) as hf:
        hf._core.feeder.watch = lambda _session: None  # noqa: SLF001 - the index is measured by itself
        batches = _Batches(hf._core.store)  # noqa: SLF001 - what it sends is counted
        alone = hf.session("alone")
        alone.assistant("the first event makes the tables")
        alone.flush()
        many = [hf.session(f"many-{number}") for number in range(_SESSIONS)]
        for session in many:
            session.assistant("the first event makes the session")
            session.flush()
        works = {
            "alone": lambda: _one_by_one(alone, each * 4),
            "sessions": lambda: _open_and_close(hf, each),
            "together": lambda: _together(many, each),
            "index": lambda: hf.list(1),
            "renewals": lambda: _renew(hf, many, each // 5),
        }
        sizes = {}
        for name, work in works.items():
            if name == "together":
                await asyncio.to_thread(hf.list, 1)  # what came before is not to be counted
            before = await _table_bytes(question)
            cost[name] = await _cost(running, question, batches, work)
            sizes[name] = await _table_bytes(question) - before
        log_bytes = sum(hf.info(session.id).size_bytes for session in many) / counts["together"]
        for session in [*many, alone]:
            session.close()
    rest = {
        "table_bytes": sizes["together"] / counts["together"],
        "index_bytes": sizes["index"] / counts["together"],
        "log_bytes": log_bytes,
        "commit_ms": await _commit_ms(question),
        "archive_ratio": _archive_ratio(),
    }
    await question.close()
    return Measured.of(cost, counts, **rest)


class _Batches:
    """Counts what a store sends to its server; the server tells its own counts too late."""

    def __init__(self, store: Any) -> None:
        sender = store._sender  # noqa: SLF001 - nothing else passes everything that is sent
        self.count = 0
        self._send, sender._send = sender._send, self  # noqa: SLF001 - the same

    def __call__(self, packets: Any) -> Any:
        self.count += 1
        return self._send(packets)


async def _cost(running: Any, question: Any, batches: _Batches, work: Any) -> dict[str, float]:
    """Processor time of both sides, commits and bytes of the write-ahead log, for some work."""
    before = await _counters(running, question, batches)
    await asyncio.to_thread(work)
    after = await _counters(running, question, batches)
    return {name: after[name] - before[name] for name in before}


async def _counters(running: Any, question: Any, batches: _Batches) -> dict[str, float]:
    wal = await question.fetchval("SELECT (pg_current_wal_insert_lsn() - '0/0')::float8")
    return {
        "app": time.process_time(),
        "db": running.cpu_seconds(),
        "commits": float(batches.count),
        "wal": wal,
        "seconds": time.monotonic(),
    }


async def _table_bytes(question: Any) -> float:
    found = await question.fetchval(
        "SELECT sum(pg_total_relation_size(c.oid))::float8 FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = 'holdfast' AND c.relkind = 'r'"
    )
    return float(found)


async def _commit_ms(question: Any) -> float:
    await question.execute("CREATE TABLE commits (n int)")
    spent = []
    for number in range(100):
        begin = time.perf_counter()
        await question.execute("INSERT INTO commits VALUES ($1)", number)
        spent.append((time.perf_counter() - begin) * 1e3)
    return median(spent)


def _one_by_one(session: Any, count: int) -> None:
    for index in range(count):
        session.assistant(step(index * 4 + 1).text)
        session.flush()


def _together(sessions: list[Any], each: int) -> None:
    """Append to every session at once, with a flush after four events, like a turn of a conversation."""

    async def talk(session: Any) -> None:
        for index in range(each):
            session.assistant(step(index * 4 + 1).text)
            if index % 4 == 3:
                await session.aflush()
        await session.aflush()

    async def everyone() -> None:
        await asyncio.gather(*map(talk, sessions))

    asyncio.run(everyone())


def _open_and_close(hf: Any, count: int) -> None:
    for number in range(count):
        with hf.session(f"short-{number}") as session:
            session.assistant("one event")


def _renew(hf: Any, sessions: list[Any], times: int) -> None:
    """Renew the leases as the renewer does a third of a lease before its end, so many times."""
    from holdfast.storage.postgres.store import renew

    link = hf._core.store.link  # noqa: SLF001 - what the renewer of the store does with it
    held = {
        f"sessions/{session.id}": (session._journal.opening.epoch, 30_000)  # noqa: SLF001 - the same
        for session in sessions
    }
    for _ in range(times):
        renew(link, held)


def _archive_ratio() -> float:
    from bench.branching import Archive

    case = Archive(quick=True)
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        case.measure(folder)
    return case.lines()[0].ratio


def tables(measured: Measured, assumed: Assumptions) -> str:
    """Return the figures as Markdown."""
    plan = Plan(measured, assumed)
    parts = [
        _table(("measured on one machine", ""), _measured_rows(measured)),
        _table(("assumed", ""), [(name, _said(value)) for name, value in _members(assumed)]),
        _table(("needed", ""), rows_of(plan)),
        _table(_PLAYED, _played(plan)),
        _table(("a million events", "USD"), _cost_rows(plan)),
    ]
    return "\n\n".join(parts)


_PLAYED = (
    "one database, simulated",
    "commits",
    "events/s",
    "commits/s",
    "events in a batch",
    "flush p50",
    "p99",
    "cores",
)
_SLOW_MS = 5.0


def _played(plan: Plan) -> list[tuple[str, ...]]:
    few = max(1, plan.databases // 4)
    cases: list[tuple[str, float, dict[str, Any]]] = [
        ("mean", 1 / plan.assumed.peak, {}),
        ("peak", 1.0, {}),
        ("1.5 times the peak", 1.5, {}),
        (f"peak, a commit takes {_SLOW_MS:g} ms", 1.0, {"commit_ms": _SLOW_MS}),
        (f"peak, only {few} databases", 1.0, {"databases": few}),
        (f"peak, only {few} databases, a commit takes {_SLOW_MS:g} ms", 1.0, {"databases": few, "commit_ms": _SLOW_MS}),
    ]
    rows = []
    for what, load, rest in cases:
        for serial in (True, False):
            one = simulate(plan, load, serial=serial, **rest)
            said = "in a row" if serial else "together"
            rates = (f"{one.events_s:,.0f}", f"{one.commits_s:,.0f}", f"{one.batch_events:,.1f}")
            times = (f"{one.p50_ms:,.1f} ms", f"{one.p99_ms:,.1f} ms", f"{one.cores_used:,.1f}")
            rows.append((what, said, *rates, *times))
    return rows


def _measured_rows(measured: Measured) -> list[tuple[str, str]]:
    return [
        ("application, processor time of an event", f"{measured.app_event_us:,.0f} us"),
        ("application, of a batch", f"{measured.app_batch_us:,.0f} us"),
        ("application, of opening and closing a session", f"{measured.app_session_us:,.0f} us"),
        ("database, processor time of an event", f"{measured.db_event_us:,.0f} us"),
        ("database, of a batch", f"{measured.db_batch_us:,.0f} us"),
        ("database, of opening and closing a session", f"{measured.db_session_us:,.0f} us"),
        ("application, of an event in the catalogue", f"{measured.app_index_us:,.0f} us"),
        ("database, of an event in the catalogue", f"{measured.db_index_us:,.0f} us"),
        ("database, of renewing a lease", f"{measured.db_renewal_us:,.1f} us"),
        ("a commit, from asking to answer", f"{measured.commit_ms:,.2f} ms"),
        ("bytes of an event in the log", f"{measured.log_bytes:,.0f} B"),
        ("in the store's tables", f"{measured.table_bytes:,.0f} B"),
        ("in the catalogue's tables", f"{measured.index_bytes:,.0f} B"),
        ("in the write-ahead log, for the store", f"{measured.wal_bytes:,.0f} B"),
        ("in the write-ahead log, for the catalogue", f"{measured.index_wal_bytes:,.0f} B"),
        ("archived, against the log", f"{measured.archive_ratio:.2f}"),
        (
            f"one process, {_SESSIONS} sessions, a flush after 4 events",
            f"{measured.events_per_s:,.0f} events/s, {measured.batch_events:,.1f} in a batch",
        ),
    ]


def _cost_rows(plan: Plan) -> list[tuple[str, str]]:
    costs = plan.usd_per_million()
    rows = [(what, f"{usd:,.2f}") for what, usd in costs.items()]
    return [*rows, ("together", f"{sum(costs.values()):,.2f}")]


def _members(assumed: Assumptions) -> list[tuple[str, Any]]:
    return [(name.replace("_", " "), value) for name, value in msgspec.structs.asdict(assumed).items()]


def _said(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def _table(head: tuple[str, ...], rows: list[Any]) -> str:
    marks = "|".join(["---"] + ["--:"] * (len(head) - 1))
    lines = [f"| {' | '.join(head)} |", f"|{marks}|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def page_with(page: str, figures: str) -> str:
    """Return the page with new figures between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{figures}\n\n{END}{after}"


def kept() -> Measured:
    """Return the figures of the last stored run."""
    with open(KEPT, "rb") as file:
        return msgspec.json.decode(file.read(), type=Measured)


def main() -> int:
    """Measure or take what is kept; print; with ``--write`` keep it and renew the page."""
    parser = argparse.ArgumentParser(prog="bench.scale", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer events")
    parser.add_argument("--kept", action="store_true", help="compute with bench/scale.json")
    parser.add_argument("--write", action="store_true", help="keep the figures, renew the page")
    for name, default in msgspec.structs.asdict(Assumptions()).items():
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=type(default), default=default, help=f"{default:,}")
    chosen = vars(parser.parse_args())
    quick, use_kept, write = (chosen.pop(name) for name in ("quick", "kept", "write"))
    try:
        measured = kept() if use_kept else measure(quick=quick)
    except RuntimeError as error:
        print(f"nothing to measure with: {error}; --kept computes with kept figures")
        return 1
    figures = tables(measured, Assumptions(**chosen))
    print(figures)
    if write:
        with open(KEPT, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(measured)) + b"\n")
        with open(PAGE, encoding="utf-8") as file:
            page = file.read()
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(page_with(page, figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
