"""Work that is measured in a separate process: ``python -m bench.child JOB ARGUMENT…``.

Each job prints one JSON value. What is not to be measured (imports, the interpreter's start) is
done before the clock starts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

__all__ = ["ROOT", "SCRATCH", "ask"]

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# In the checkout and ignored by git: a temporary directory of the system may be memory. Not .cache,
# which building the documentation empties.
SCRATCH = os.path.join(ROOT, ".bench")
SESSION = "bench"
TURNS = 50
_SECONDS_MAX = 180


def ask(job: str, *arguments: str, prefix: tuple[str, ...] = (), compiled: str = "") -> Any:
    """Run a job in a fresh process and return its answer. Raises CalledProcessError or TimeoutExpired.

    ``compiled`` names a folder for compiled files: what is imported while the clock runs is then
    read as after an installation, from the second time on.
    """
    command = [*prefix, sys.executable, "-m", "bench.child", job, *arguments]
    environment = dict(os.environ)
    if compiled:
        environment["PYTHONPYCACHEPREFIX"] = compiled
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, env=environment, timeout=_SECONDS_MAX)
    return json.loads(done.stdout)


def log_path(store: str) -> str:
    """Return the path of the session's events."""
    return os.path.join(store, "sessions", SESSION, "events.jsonl")


def _timed(work: Callable[[], Any]) -> int:
    begin = time.perf_counter_ns()
    kept = work()
    spent = time.perf_counter_ns() - begin
    del kept
    return spent


def floor_typed(store: str) -> int:
    """Read and decode the log into typed structs."""
    from bench.floor import decode_typed

    return _timed(lambda: decode_typed(log_path(store)))


def floor_raw(store: str) -> int:
    """Read and decode the envelopes of the log."""
    from bench.floor import decode_raw

    return _timed(lambda: decode_raw(log_path(store)))


def load_events(store: str) -> int:
    """Read every event of the session, verified."""
    from holdfast import Holdfast

    return _timed(lambda: list(Holdfast(store).events(SESSION)))


def known_steps(store: str, count: str) -> int:
    """Open the session, and run steps whose results are known."""
    import holdfast
    from bench.steps import KNOWN, result

    def passed() -> None:
        with holdfast.open(store) as hf, hf.session(KNOWN) as session:
            for number in range(int(count)):
                session.once(f"n{number}", result, number)

    return _timed(passed)


def load_data(store: str) -> int:
    """Read every event of the session, verified, with its data decoded."""
    from holdfast import Holdfast

    return _timed(lambda: [event.data for event in Holdfast(store).events(SESSION)])


def open_session(store: str) -> int:
    """Open the session for writing: verified, folded, lease held."""
    from holdfast import Holdfast

    return _timed(lambda: Holdfast(store).session(SESSION))


def open_messages(store: str) -> int:
    """Open the session for writing, and make its conversation."""
    return _timed(_conversation_of(store))


def recover(store: str) -> int:
    """Make a conversation that the provider accepts from the log, with its code already loaded."""
    from holdfast import Holdfast
    from holdfast.replay import recover as loaded

    loaded([], provider="anthropic")
    return _timed(lambda: Holdfast(store).recover(SESSION, "anthropic"))


def save_session(store: str) -> int:
    """Append one event to an open session, flush, take a snapshot; return the median of seven."""
    from holdfast import Holdfast

    def save() -> None:
        session.user("one more")
        session.flush()
        session.snapshot()

    with Holdfast(store) as hf, hf.session(SESSION) as session:
        session.user("the first one opens the file")
        session.flush()
        return sorted(_timed(save) for _ in range(7))[3]


def resume_session(store: str) -> int:
    """Open the session for writing, and read its last turns with their data."""
    holdfast = _warm(store)

    def work() -> Any:
        hf = holdfast(store)
        return hf.session(SESSION), _last_turns(hf)

    return _timed(work)


def read_tail(store: str) -> int:
    """Read the last turns with their data."""
    holdfast = _warm(store)
    return _timed(lambda: _last_turns(holdfast(store)))


def _warm(store: str) -> Any:
    """Load everything that opens and reads a session, because imports have a line of their own."""
    from holdfast import Holdfast

    with Holdfast(f"{store}-warm") as hf:
        for _ in range(2):
            with hf.session(SESSION) as session:
                for _ in range(TURNS):
                    session.user("warm")
                session.snapshot()
            assert _last_turns(hf)
    return Holdfast


def _last_turns(hf: Any) -> list[Any]:
    found, turns = [], 0
    for event in hf.events(SESSION, reverse=True):
        found.append(event.data)
        turns += event.type == "user"
        if turns == TURNS:
            return found
    raise AssertionError(turns)


def floor_tail(store: str) -> int:
    """Read the bytes that hold the last turns, decode them into typed structs."""
    from bench.floor import decode_tail

    path = log_path(store)
    size = decode_tail(path, 1 << 22, find=TURNS)
    return _timed(lambda: decode_tail(path, size))


def memory_floor(store: str) -> dict[str, int]:
    """Return the memory that typed structs of the log take."""
    from bench.floor import decode_typed

    return _grown(lambda: decode_typed(log_path(store)))


def memory_session(store: str) -> dict[str, int]:
    """Return the memory that an open session with its messages takes."""
    return _grown(_conversation_of(store))


def _conversation_of(store: str) -> Callable[[], Any]:
    """Return a function that opens a session and makes its messages, with its code already loaded."""
    from holdfast import Holdfast
    from holdfast.replay import Conversation

    Conversation().messages("anthropic")

    def work() -> Any:
        session = Holdfast(store).session(SESSION)
        return session, session.messages("anthropic")

    return work


def _grown(work: Callable[[], Any]) -> dict[str, int]:
    before = _resident()
    kept = work()
    after, peak = _resident(), _peak()
    del kept
    return {"held": after - before, "peak": peak - before}


def _resident() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _peak() -> int:
    with open("/proc/self/status", "rb") as file:
        rows = dict(row.split(b":", 1) for row in file)
    return int(rows[b"VmHWM"].split()[0]) * 1024


def write_session(store: str, count: str) -> dict[str, int]:
    """Record a session with default settings; return the bytes written, and their payload."""
    import holdfast
    from bench.workload import plain_bytes, record, step

    before = _written()
    call = None
    with holdfast.open(store) as hf, hf.session(SESSION) as session:
        for index in range(int(count)):
            call = record(session, step(index), call)
    after = _written()
    plain = sum(plain_bytes(step(index)) for index in range(int(count)))
    return {
        "plain": plain,
        "written": after - before,
        "log": os.path.getsize(log_path(store)),
        "disk": _tree_bytes(store),
    }


def _written() -> int:
    """Return the bytes that this process has passed to write calls."""
    with open("/proc/self/io", "rb") as file:
        rows = dict(row.split(b":") for row in file)
    return int(rows[b"wchar"])


def _tree_bytes(folder: str) -> int:
    sizes = 0
    for path, _, names in os.walk(folder):
        sizes += sum(os.path.getsize(os.path.join(path, name)) for name in names)
    return sizes


def flush_often(store: str, count: str) -> int:
    """Append and flush a number of times, after one that is not counted; mark both ends for strace."""
    import holdfast

    with holdfast.open(store) as hf, hf.session(SESSION) as session:
        session.user("first")
        session.flush()
        os.getppid()
        for number in range(int(count)):
            session.user(f"message {number}")
            session.flush()
        os.getppid()
    return int(count)


def flush_many(store: str, sessions: str, each: str, how: str) -> int:
    """Append and flush in many sessions at once, in one event loop or in a thread each."""
    import asyncio
    from threading import Thread

    import holdfast

    async def atalk(session: Any) -> None:
        for number in range(int(each)):
            session.user(f"message {number}")
            await session.aflush()

    def talk(session: Any) -> None:
        for number in range(int(each)):
            session.user(f"message {number}")
            session.flush()

    async def loop() -> None:
        await asyncio.gather(*map(atalk, opened))

    with holdfast.open(store) as hf:
        opened = [hf.session(f"many-{number}") for number in range(int(sessions))]
        for session in opened:
            session.user("first")
            session.flush()
        threads = [Thread(target=talk, args=(session,)) for session in opened]
        os.getppid()
        if how == "loop":
            asyncio.run(loop())
        else:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        os.getppid()
        for session in opened:
            session.close()
    return int(sessions) * int(each)


def crowded(store: str) -> dict[str, float]:
    """Return the milliseconds of queries of a large store: the first call, and the following ones.

    Each question gets a library of its own, every search another word, and the memory is that of
    the process at its highest.
    """
    import holdfast
    from bench.crowd import TAG, rare_words

    words = rare_words(1_000)
    questions: dict[str, Callable[[Any, int], Any]] = {
        "list": lambda hf, _: hf.list(50),
        "by_tag": lambda hf, _: hf.list(50, tags=[TAG]),
        "search": lambda hf, number: hf.search(words[number]),
        "prune": lambda hf, _: hf.prune(dry_run=True, policies=[]),
        "sorted": lambda hf, _: hf.list(50, sort="tokens"),
        "titles": lambda hf, _: hf.list(50, sort="title"),
        "narrowed": lambda hf, number: hf.list(50, text=f"{words[number][-6:]} n", sort="cost"),
        "lineage": lambda hf, _: hf.lineage("session-0000001"),
        "stats": lambda hf, _: hf.stats(tz="UTC"),
    }
    found: dict[str, float] = {}
    for name, question in questions.items():
        with holdfast.open(store) as hf:
            calls = 2 if name == "prune" else 9
            spent = [_timed(lambda hf=hf, ask=question, number=number: ask(hf, number)) for number in range(calls)]
        found[f"{name}_first"] = spent[0] / 1e6
        found[f"{name}_later"] = sorted(spent[1:])[(len(spent) - 1) // 2] / 1e6
    return {**found, "memory": _peak() / 1e6}


def app_painted(store: str) -> int:
    """Start the terminal app without a terminal, and leave it when its list is on the screen."""
    import asyncio

    import holdfast
    from holdfast.apps.tui import make_app

    async def paint(app: Any) -> int:
        async with app.run_test(size=(80, 24)):
            while not _has_rows(app):  # noqa: ASYNC110 - there is no event for a painted screen
                await asyncio.sleep(0.001)
            return len(app.screen.sessions.rows)

    with holdfast.open(store) as hf:
        return asyncio.run(paint(make_app(hf)))


def _has_rows(app: Any) -> bool:
    lists = app.screen.query("SessionTable")
    return bool(lists) and bool(lists.first().rows) and not app.screen._dirty_widgets  # noqa: SLF001 - what is not painted yet


def app_pressed(store: str, keys: str) -> dict[str, float]:
    """Return the median milliseconds from a key in a list of all sessions to the line that shows it."""
    import asyncio

    import holdfast
    from holdfast.apps.tui import SessionsApp

    async def press(app: Any) -> float:
        async with app.run_test(size=(80, 24)) as pilot:
            while not _has_rows(app):  # noqa: ASYNC110 - there is no event for a painted screen
                await asyncio.sleep(0.01)
            rows = app.screen.sessions
            await pilot.press("end")
            while rows.cursor < hf.catalog_health().sessions - 1:  # noqa: ASYNC110 - the same
                await asyncio.sleep(0.05)
            await pilot.pause()
            return await _keyed(app, rows, int(keys))

    with holdfast.open(store) as hf:
        return {"median_ms": asyncio.run(press(SessionsApp(hf)))}


async def _keyed(app: Any, rows: Any, keys: int) -> float:
    import asyncio

    from textual import events

    painted: list[int] = []
    shown = app._display  # noqa: SLF001 - where a screen is handed to the terminal

    def display(screen: Any, renderable: Any) -> None:
        shown(screen, renderable)
        painted.append(time.perf_counter_ns())

    app._display = display  # noqa: SLF001 - the same
    spent = []
    for number in range(keys):
        before, painted[:] = rows.cursor, []
        begin = time.perf_counter_ns()
        key = "up" if number % 4 else "pageup"
        app.post_message(events.Key(key, None))
        while rows.cursor == before or not painted:  # noqa: ASYNC110 - what is measured
            await asyncio.sleep(0)
        spent.append((painted[-1] - begin) / 1e6)
        await asyncio.sleep(0.02)
    return sorted(spent)[len(spent) // 2]


JOBS = {
    job.__name__: job
    for job in (
        floor_typed,
        known_steps,
        floor_raw,
        load_events,
        load_data,
        open_session,
        open_messages,
        resume_session,
        read_tail,
        floor_tail,
        recover,
        save_session,
        memory_floor,
        memory_session,
        write_session,
        flush_often,
        flush_many,
        crowded,
        app_painted,
        app_pressed,
    )
}

if __name__ == "__main__":
    print(json.dumps(JOBS[sys.argv[1]](*sys.argv[2:])))
