"""``python -m bench.rivals.serving``: answers tasks, a line of JSON each, until its input ends."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sqlite3
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

from bench.rivals.stores import MODE, STORES, Step

__all__ = ["answer", "on_disk", "written"]


def _without_syncs() -> None:
    """Switch off syncs for every SQLite connection from now on, in favour of the rivals."""
    really = sqlite3.connect

    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = really(*arguments, **options)
        if not MODE.is_durable:
            connection.execute("pragma synchronous=off")
        return connection

    sqlite3.connect = sqlite3.dbapi2.connect = connect  # type: ignore[assignment]  # told less of its parameters


async def _work(task: dict[str, Any]) -> dict[str, Any]:
    """Store messages up to a number, or until the time is up."""
    MODE.is_durable = task["durable"]
    if "stay" in task:
        return await _further(task)
    with tempfile.TemporaryDirectory(dir=task["folder"], ignore_cleanup_errors=True) as folder:
        begin = time.perf_counter()
        step = STORES[task["store"]].begin(task.get("url") or folder)
        if inspect.isawaitable(step):
            step = await step
        begun_ms = (time.perf_counter() - begin) * 1e3
        return {**await _measured(step, task, folder), "begun_ms": begun_ms}


_staying: dict[str, Step] = {}


async def _further(task: dict[str, Any]) -> dict[str, Any]:
    """Continue with the store of this name, for short turns."""
    name = task["stay"]
    if name not in _staying:
        folder = os.path.join(task["folder"], name)
        os.mkdir(folder, mode=0o700)
        step = STORES[task["store"]].begin(folder)
        _staying[name] = await step if inspect.isawaitable(step) else step
        await _one(_staying[name], "user", "the first message makes what is needed")
    spent = []
    for number in range(task["count"]):
        text = task["texts"][number % len(task["texts"])]
        begin = time.perf_counter_ns()
        await _one(_staying[name], "user", text)
        spent.append(time.perf_counter_ns() - begin)
    return {"spent": spent}


async def _measured(step: Step, task: dict[str, Any], folder: str) -> dict[str, Any]:
    texts = task["texts"]
    roles = ("user", "assistant")
    spent: list[int] = []
    sizes: dict[int, tuple[int, int, int]] = {}
    payload = 0
    until = time.monotonic() + task["seconds"]
    await _one(step, "user", "the first message makes what is needed")
    begin_written, begin_disk = written(), on_disk(folder)
    os.getppid()  # seen by who counts calls
    for number in range(task["count"]):
        role, text = roles[number % 2], texts[number % len(texts)]
        begin = time.perf_counter_ns()
        await _one(step, role, text)
        spent.append(time.perf_counter_ns() - begin)
        payload += len(text.encode())
        if number + 1 in (100, 200, 500, 1_000):
            now = (written() - begin_written, on_disk(folder) - begin_disk, payload)
            sizes[number + 1] = now
        if time.monotonic() > until:
            break
    os.getppid()
    sizes[len(spent)] = (written() - begin_written, on_disk(folder) - begin_disk, payload)
    return {"spent": spent, "sizes": sizes}


async def _one(step: Step, role: str, text: str) -> None:
    done = step(role, text)
    if inspect.isawaitable(done):
        await done


def written() -> int:
    """Return the bytes that this process has passed to write calls so far."""
    with open("/proc/self/io", "rb") as file:
        rows = dict(row.split(b":") for row in file)
    return int(rows[b"wchar"])


def on_disk(folder: str) -> int:
    """Return the bytes of all files; for a SQLite database those of its pages, including the write-ahead log."""
    found = 0
    for base, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(base, name)
            if name == "db":
                found += _pages(path)
            elif not name.startswith(("db-", "catalog")):
                try:
                    found += os.stat(path).st_size
                except FileNotFoundError:
                    continue
    return found


def _pages(path: str) -> int:
    connection = sqlite3.connect(path, timeout=2)
    try:
        counts = ("page_count", "freelist_count", "page_size")
        pages, free, size = (connection.execute(f"pragma {name}").fetchone()[0] for name in counts)
        return (pages - free) * size
    finally:
        connection.close()


def answer(work: Callable[[dict[str, Any]], Any]) -> None:
    """Answer every task of the input, with an error if it fails, and end the process."""
    warnings.simplefilter("ignore")
    # Libraries may print, which must not mix with the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            try:
                found = runner.run(work(json.loads(line)))
            except Exception as error:  # noqa: BLE001 - whoever asked is told
                found = {"failed": f"{type(error).__name__}: {error}"[:300]}
            answers.write(json.dumps(found) + "\n")
            answers.flush()
        os._exit(0)  # threads of libraries must not keep it


if __name__ == "__main__":
    _without_syncs()
    answer(_work)
