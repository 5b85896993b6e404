"""The health of a store: each check, and the remedy if it fails."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from holdfast._config import configuration, strange_variables
from holdfast._lazy import lazy_modules
from holdfast.apps.cli._app import App
from holdfast.apps.render.failures import strangers_hint
from holdfast.apps.render.words import counted, size
from holdfast.errors import HoldfastError, NotFound, UsageError
from holdfast.library import Holdfast
from holdfast.model import SessionMetadata

if TYPE_CHECKING:
    from holdfast.library.answers import store as answers
else:
    (answers,) = lazy_modules("holdfast.library.answers", "store")

GOOD: Final = "ok"
WARNING: Final = "warning"
BAD: Final = "bad"
_SAMPLE = 20  # newest sessions that are looked at; `verify --all` looks at every one
_SAMPLE_BYTES_MAX, _SAMPLE_SECONDS_MAX = 50_000_000, 2.0
_SPACE_LOW_BYTES = 500_000_000
_SPACE_NONE_BYTES = 10_000_000
_LOOK_BYTES_MAX = 20_000_000  # a bigger log without a snapshot would keep people waiting
_NAMED_MAX = 5


def place_and_reason(app: App) -> tuple[str, str]:
    """Return where the store is, and which setting chose it."""
    if app.place is not None:
        return app.place, "given with --store"
    settings = configuration()
    origin = settings.origin("store") or ""
    reason = "the user's data folder, as nothing else is set" if origin == "default" else origin
    return str(settings.get("store")), reason


def check_settings() -> Iterator[answers.Check]:
    """Yield checks of environment variables that look like misspelt settings."""
    for name, suggestion in strange_variables().items():
        yield answers.Check("settings", WARNING, f"{name} is no setting{suggestion}", "Mend or unset it.")


def check_store(app: App, *, compare: bool = False) -> Iterator[answers.Check]:
    """Yield all checks of the store; ``compare`` also whether its index fits. Writes nothing but the index."""
    try:
        library = app.library
    except UsageError:
        raise
    except HoldfastError as error:
        yield answers.Check("opens", BAD, error.message, error.remedy)
        return
    path = getattr(library.store, "path", None)
    if path is None:
        yield _check_reach(library)
        able = library.store.capabilities
        if not able.stores:
            yield answers.Check("keeps", WARNING, "nothing: this store forgets a session when it is closed")
        elif not able.survives_kill:
            yield answers.Check("keeps", WARNING, "only as long as the program runs")
        else:
            yield answers.Check("keeps", GOOD, "yes")
    else:
        yield from _check_folder(path)
        # Whether the folder belongs to another system, whose sessions are not shown here.
        told, remedy = strangers_hint(library)
        if told:
            yield answers.Check("store", BAD, told, remedy)
    yield _check_durability(library)
    yield from _check_sessions(library, compare=compare)
    for agent, names in library.agents.damaged().items():
        found = f"{', '.join(names)} of {agent} cannot be read"
        remedy = f"Set aside with `holdfast repair --agent {agent}`; the agent's next run does so too."
        yield answers.Check("agents", BAD, found, remedy)
    yield _check_keys(library)


def check_model() -> answers.Check:
    """Return which model a conversation would use; nothing is loaded or asked."""
    from holdfast.agent import choose_model

    try:
        choice = choose_model(None, configuration())
    except HoldfastError as error:
        return answers.Check("model", WARNING, error.message, error.remedy)
    server = f" at {choice.base_url}" if choice.base_url else ""
    tiny = ", which is tiny: good to try things out" if choice.is_local else ""
    return answers.Check("model", GOOD, f"{choice.name or 'the first'}{server} ({choice.reason}){tiny}")


def _check_reach(library: Holdfast) -> answers.Check:
    started = time.perf_counter()
    try:
        library.store.check()
    except HoldfastError as error:
        return answers.Check("answers", BAD, error.message, error.remedy)
    return answers.Check("answers", GOOD, f"in {(time.perf_counter() - started) * 1000:.0f} ms")


def _check_durability(library: Holdfast) -> answers.Check:
    """Report what a crash can cost."""
    able, chosen = library.store.capabilities, configuration().get("durability", "barriers")
    if not able.survives_kill:
        return answers.Check("durability", WARNING, "none: what is recorded ends with the program")
    kill = "sent a moment after it is recorded" if able.defers else "safe from a crash at once"
    if not able.syncs or chosen == "os":
        remedy = 'Set `durability` to "barriers".' if able.syncs else ""
        told = f"what is recorded is {kill}; power loss may cost the last seconds"
        return answers.Check("durability", WARNING, told, remedy)
    when = "with every event" if chosen == "always" else "after each turn and before each tool"
    return answers.Check("durability", GOOD, f"what is recorded is {kill}, and from power loss {when}")


def _check_folder(path: str) -> Iterator[answers.Check]:
    # The folder itself, or the nearest one above it that is there.
    existing = path
    while not os.path.isdir(existing) and existing != os.path.dirname(existing):
        existing = os.path.dirname(existing)
    disk = os.statvfs(existing)
    if existing == path:
        yield answers.Check("opens", GOOD, "yes, and only you can write to it")
        yield _check_rights(path)
    else:
        yield answers.Check("opens", GOOD, "not there yet; it is made with the first event")
    if os.access(existing, os.W_OK | os.X_OK) and not disk.f_flag & os.ST_RDONLY:
        yield answers.Check("writable", GOOD, "yes")
    else:
        remedy = "Sessions can be read and not continued. Use another store, or mend the rights."
        yield answers.Check("writable", BAD, f"no: {existing} is read-only for you", remedy)
    # The space for this user, not that reserved for root.
    free = disk.f_bavail * disk.f_frsize
    if free < _SPACE_NONE_BYTES:
        yield answers.Check("space", BAD, f"{size(free)} free", "Free some space: sessions cannot be continued.")
    elif free < _SPACE_LOW_BYTES:
        yield answers.Check("space", WARNING, f"{size(free)} free", "Free some space before it runs out.")
    else:
        yield answers.Check("space", GOOD, f"{size(free)} free")


def _check_rights(path: str) -> answers.Check:
    mode = stat.S_IMODE(os.stat(path).st_mode)
    # Logs hold whatever was said and read, secrets too.
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        told = f"others on this machine can look into it (mode {mode:03o})"
        return answers.Check("private", WARNING, told, f"Close it: chmod go-rwx {path}")
    return answers.Check("private", GOOD, "yes, only you can read it")


def _check_sessions(library: Holdfast, *, compare: bool) -> Iterator[answers.Check]:
    count = kept = 0
    for entry in library.store.entries():
        count, kept = count + 1, kept + entry.size
    yield answers.Check("sessions", GOOD, f"{count:,}, {size(kept)}" if count else "none yet")
    yield _check_catalogue(library, compare=compare)
    rows = library.list(_SAMPLE)
    if rows:
        yield _check_sample(library, rows)
        yield _check_writers(library, rows)
    closed = [row for row in rows if row.state in ("too_new", "sealed")]
    if closed:
        names = ", ".join(f"{row.session_id} ({row.state.replace('_', ' ')})" for row in closed)
        yield answers.Check("closed", WARNING, names, "Install a newer Holdfast, or give the key.")
    trash = sum(1 for _ in library.store.entries("trash/"))
    if trash:
        yield answers.Check("trash", GOOD, f"{counted(trash, 'session')}; back with holdfast undelete")


def _check_catalogue(library: Holdfast, *, compare: bool) -> answers.Check:
    """Check the catalogue; nothing that is wrong here can lose anything."""
    health = library.catalog_health(check=compare)
    known = counted(health.sessions, "session")
    path = getattr(library.store, "path", None)
    if path is not None and not os.path.isdir(path):
        return answers.Check("catalogue", GOOD, "made with the first session")
    # It works all the same, and is made anew in each process until its place can be used.
    if health.place is None and library.store.catalog_place() is not None and health.trouble:
        remedy = "Lists and searches are right, and slower. Mend the rights, or close what locks it."
        return answers.Check("catalogue", WARNING, f"in memory for now: {health.trouble}", remedy)
    where = "in memory" if health.place is None else os.path.basename(health.place)
    if health.trouble and not health.mended and health.place is not None:
        return answers.Check("catalogue", WARNING, f"{known}, {where}; {health.trouble}")
    mended = ", made anew just now" if health.mended else ""
    behind = ""
    if health.lag_sessions:
        how_much = f"{counted(health.lag_sessions, 'session')}, {size(health.lag_bytes)}"
        behind = f"; it was behind by {how_much}, and has caught up"
    return answers.Check("catalogue", GOOD, f"{known}, {where}{mended}{behind}")


def _check_writers(library: Holdfast, rows: list[SessionMetadata]) -> answers.Check:
    """Report who has sessions open, and who died with one open. Neither is wrong."""
    open_now = [row.session_id for row in rows if row.open]
    left = [name for row in rows if not row.open and (name := _left_by(library, row))]
    found = [f"open now: {', '.join(open_now)}"] if open_now else []
    if left:
        found.append(f"left open by a process that no longer runs: {', '.join(left)}")
    remedy = "Nothing is lost: opening the session continues it and records the interruption."
    return answers.Check("writers", GOOD, "; ".join(found) or "none", remedy if left else "")


def _left_by(library: Holdfast, row: SessionMetadata) -> str:
    """Return the session with its last writer, if that one never closed it and has ended."""
    # The state of a long log without a snapshot takes a while to fold.
    if row.state != "ok" or row.size_bytes > _LOOK_BYTES_MAX:
        return ""
    try:
        last = library.state(row.session_id).last_open
    except HoldfastError:
        return ""
    return "" if last is None or last.closed else f"{row.session_id} (process {last.pid} on {last.host})"


def _check_keys(library: Holdfast) -> answers.Check:
    """Check whether sealed sessions can be opened, as far as they were examined."""
    if not library.store.has_keys:
        return answers.Check("keys", GOOD, "none set: encrypted sessions stay locked, new sessions are not encrypted")
    closed = list(library.keys.check().items())
    if closed:
        names = "; ".join(f"{key}: {reason}" for key, reason in closed[:_NAMED_MAX])
        more = f" and {len(closed) - _NAMED_MAX:,} more" if len(closed) > _NAMED_MAX else ""
        return answers.Check("keys", WARNING, names + more, "Give the key with which it was sealed.")
    return answers.Check("keys", GOOD, "set, and everything that is sealed opens")


def _check_sample(library: Holdfast, rows: list[SessionMetadata]) -> answers.Check:
    """Read the newest logs to their last byte, as far as nobody has to wait for it."""
    broken = {row.session_id: row.state for row in rows if row.state in ("damaged", "unreadable")}
    # Bounded in bytes and in time: doctor answers at once, `verify --all` looks at everything.
    until, bytes_left, read = time.monotonic() + _SAMPLE_SECONDS_MAX, _SAMPLE_BYTES_MAX, 0
    for row in rows:
        bytes_left -= row.size_bytes
        if row.state != "ok" or bytes_left < 0 or time.monotonic() > until:
            continue
        if not _is_whole(library, row.session_id):
            broken[row.session_id] = "damaged"
        read += 1
    if not broken:
        rest = len(rows) - read
        also = f"; {rest:,} more look so and were not read" if rest else ""
        return answers.Check("sample", GOOD, f"the newest {read:,} are whole, to the last byte{also}")
    first = next(iter(broken))
    told = ", ".join(f"{id} is {state}" for id, state in broken.items())
    return answers.Check("sample", BAD, told, f"See `holdfast verify {first}`, then `holdfast repair {first}`.")


def _is_whole(library: Holdfast, session_id: str) -> bool:
    try:
        return library.verify(session_id).ok
    except NotFound:
        return True  # deleted meanwhile
    except HoldfastError:
        return False
