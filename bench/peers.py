"""``python -m bench.peers [--only NAME…]``: others' stores, and our adapters against them.

Writes `bench/ADAPTERS.md`. Each rival is measured in a process of its own that has so many seconds;
one that fails is a row that says so. What was measured is kept in `bench/peers.json`, rival by
rival, so that one can be measured again alone.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from bench import adapters_table
from bench.adapters import CASES
from bench.child import ROOT, SCRATCH
from bench.recovery import peers
from bench.rivals.asking import FRAMEWORKS, Rival, python_of
from bench.rivals.stores import STORES
from bench.server import Server, end_on_request, missing
from bench.workload import step

KEPT = os.path.join(ROOT, "bench", "peers.json")
_TEXTS = [step(index).text for index in range(400)]
_TRACE = "trace=fsync,fdatasync,sync_file_range,sync,msync,getppid"
_PATIENCE_S = 120
_STORE_COUNTS = {True: (300, 3.0), False: (1_000, 3.0)}
_STEPS, _STEPS_S = 400, 12.0
_COUNTED = 10


class Databases:
    """A server that provides fresh databases; or the reason why there is none."""

    def __init__(self) -> None:
        self.missing = missing()
        self._server: Server | None = None
        self._number = 0

    def url(self) -> str:
        """Create a database. Raises RuntimeError if that is impossible."""
        if self.missing:
            raise RuntimeError(self.missing)
        if self._server is None:
            self._server = Server()
            self._server.start()
        self._number += 1
        name = f"d{os.getpid()}x{self._number}"
        asyncio.run(_fetch(self._server.url, f"create database {name}"))
        return self._server.url.rpartition("/")[0] + f"/{name}"

    def counts(self) -> tuple[int, int]:
        """Return the bytes of the write-ahead log so far, and how often it was synced."""
        assert self._server is not None
        row = asyncio.run(_fetch(self._server.url, _WAL))
        return int(row[0]), int(row[1])

    def stop(self) -> None:
        """Stop the server, if there is one."""
        if self._server is not None:
            self._server.stop()


_WAL = "select pg_current_wal_insert_lsn() - '0/0'::pg_lsn, wal_sync from pg_stat_wal"


async def _fetch(url: str, statement: str) -> Any:
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchrow(statement)
    finally:
        await connection.close()


@contextlib.contextmanager
def _scratch() -> Iterator[str]:
    os.makedirs(SCRATCH, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="peers-", dir=SCRATCH, ignore_cleanup_errors=True) as folder:
        yield folder


def measure_store(name: str, databases: Databases) -> dict[str, Any]:
    """Measure one other store: as it is shipped, without its syncs, and with its syncs counted."""
    store = STORES[name]
    python = python_of(store.place)
    if python is None:
        return {"failed": "its environment was not made"}
    found: dict[str, Any] = {}
    with _scratch() as folder:
        rival = Rival(python)
        try:
            for is_durable, (count, seconds) in _STORE_COUNTS.items():
                if store.kind == "postgres" and not is_durable:
                    continue
                url = databases.url() if store.kind == "postgres" else ""
                task = {"store": name, "folder": folder, "texts": _TEXTS, "url": url}
                task |= {"count": count, "seconds": seconds, "durable": is_durable}
                floor = {**task, "store": "plain", "count": 60, "url": ""}
                floors = [rival.ask(floor, _PATIENCE_S)]
                answer = rival.ask(task, _PATIENCE_S)
                if "failed" in answer:
                    return answer
                floors.append(rival.ask(floor, _PATIENCE_S))
                answer["floor"] = [one for each in floors for one in each.get("spent", [])]
                found["shipped" if is_durable else "unsynced"] = answer
        finally:
            rival.end()
        task |= {"count": _COUNTED, "durable": True, "seconds": _PATIENCE_S}
        if store.kind == "postgres":
            task["url"] = databases.url()
            found["counted"] = _server_syncs(databases, Rival(python), task)
        else:
            found["counted"] = _syncs(folder, python, task)
    return found


def measure_adapter(name: str, databases: Databases) -> dict[str, Any]:
    """Measure one framework on its own store and on ours, step by step in turn; then count its syncs."""
    case = CASES[name]
    names = ("theirs", "ours", "ours-os") if not case.syncs else ("theirs", "ours")
    found: dict[str, Any]
    with _scratch() as folder:
        sides = {one: _place(case.kind, folder, one, databases) for one in names}
        task = {"case": name, "sides": sides, "steps": _STEPS, "seconds": _STEPS_S}
        rival = Rival(FRAMEWORKS, "bench.adapting")
        try:
            found = rival.ask(task, _PATIENCE_S)
        finally:
            rival.end()
        if "failed" in found:
            return found
        again = {one: _place(case.kind, folder, f"{one}-again", databases) for one in names[:2]}
        task |= {"sides": again, "steps": _COUNTED, "in_turn": True, "seconds": _PATIENCE_S}
        if case.kind == "postgres":
            for one in names[:2]:
                alone = {**task, "sides": {one: again[one]}}
                counted = _server_syncs(databases, Rival(FRAMEWORKS, "bench.adapting"), alone)
                found[one]["syncs"] = counted[0] if counted else None
                found[one]["written"] = None
        else:
            counted = _syncs(folder, FRAMEWORKS, task, "bench.adapting")
            for one, count in zip(names, counted, strict=False):
                found[one]["syncs"] = count
    return found


def _place(kind: str, folder: str, name: str, databases: Databases) -> str:
    if kind == "postgres":
        return databases.url()
    place = os.path.join(folder, name)
    os.mkdir(place, mode=0o700)
    return place


def _syncs(folder: str, python: str, task: dict[str, Any], *module: str) -> list[float]:
    """Return the syncs for each step, for each part between two marks, as counted by strace."""
    if shutil.which("strace") is None:
        return []
    trace = os.path.join(folder, "trace")
    prefix = ("strace", "-f", "--seccomp-bpf", "-qq", "-o", trace, "-e", _TRACE)
    rival = Rival(python, *module, prefix=prefix)
    try:
        answer = rival.ask(task, _PATIENCE_S)
    finally:
        rival.end()
    if "failed" in answer:
        print(f"not counted: {answer['failed']}", file=sys.stderr)
        return []
    with open(trace, encoding="utf-8", errors="replace") as file:
        parts = file.read().split("getppid(")
    return [part.count("sync(") / _COUNTED for part in parts[1::2]]


def _server_syncs(databases: Databases, rival: Rival, task: dict[str, Any]) -> list[float]:
    """Return the same for a server, whose processes report it at their end."""
    before = databases.counts()
    try:
        answer = rival.ask(task, _PATIENCE_S)
    finally:
        rival.end()
    time.sleep(0.3)
    after = databases.counts()
    return [] if "failed" in answer else [(after[1] - before[1]) / _COUNTED]


def main() -> int:
    """Measure the chosen cases, store the figures, write the table; return 1 if something failed."""
    known = {f"stores/{name}" for name in STORES} | {f"adapters/{name}" for name in CASES}
    parser = argparse.ArgumentParser(prog="bench.peers", description=__doc__)
    parser.add_argument("--only", nargs="+", help="names, or beginnings of names, of --list")
    parser.add_argument("--list", action="store_true", help="tell the names")
    parser.add_argument("--table", action="store_true", help="write the table; measure nothing")
    chosen = parser.parse_args()
    if chosen.list:
        print("\n".join(sorted(known)))
        return 0
    if not chosen.table:
        peers.install()
        wanted = [f"{kind}/{name}" for kind, names in (("stores", STORES), ("adapters", CASES)) for name in names]
        if chosen.only:
            wanted = [one for one in wanted if one.startswith(tuple(chosen.only))]
        _measure(wanted)
    with open(KEPT, encoding="utf-8") as file:
        kept = json.load(file)
    table = adapters_table.whole(kept)
    adapters_table.write(table, kept)
    print(table)
    return int(any("failed" in one for one in kept.values()))


def _measure(wanted: list[str]) -> None:
    end_on_request()
    databases = Databases()
    try:
        for name in wanted:
            begin = time.monotonic()
            kind, _, short = name.partition("/")
            measure = measure_store if kind == "stores" else measure_adapter
            try:
                found = measure(short, databases)
            except Exception as error:  # noqa: BLE001 - it takes no other with it
                found = {"failed": f"{type(error).__name__}: {error}"[:200]}
            row = adapters_table.condensed(found)
            _keep(name, row)
            said = row.get("failed", "")
            print(f"{time.monotonic() - begin:6.1f} s {name} {said}", file=sys.stderr, flush=True)
    finally:
        databases.stop()


def _keep(name: str, row: dict[str, Any]) -> None:
    """Replace a row."""
    kept: dict[str, Any] = {}
    with contextlib.suppress(FileNotFoundError), open(KEPT, encoding="utf-8") as file:
        kept = json.load(file)
    kept[name] = row
    rows = ",\n".join(f"{json.dumps(one)}: {json.dumps(kept[one])}" for one in sorted(kept))
    with open(f"{KEPT}.new", "w", encoding="utf-8") as file:
        file.write(f"{{\n{rows}\n}}\n")
    os.replace(f"{KEPT}.new", KEPT)


if __name__ == "__main__":
    sys.exit(main())
