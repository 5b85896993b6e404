"""Exporting sessions: as documents, as data, as bundles, and as other tools' own files."""

from __future__ import annotations

import importlib
import os
import shlex
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, tzinfo
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from holdfast.errors import UsageError
from holdfast.library import _finder, _views
from holdfast.library._core import Core, Progress, check_function, check_path
from holdfast.library._views import of_known_format, reached
from holdfast.model import Event
from holdfast.session import read_range, resolve_blobs, unreadable_from

if TYPE_CHECKING:
    from holdfast.formats import ExportOptions, Format, Recorded
    from holdfast.replay import Incomplete, Provider, Recovery

Target = str | os.PathLike[str] | IO[Any]
T = TypeVar("T")
_STEPS = 200  # how many times progress is reported


class Installed(msgspec.Struct, frozen=True):
    """A session that was written where another tool finds it."""

    tool: str
    session_id: str
    """The id by which the other tool knows it."""
    path: str
    command: str
    """The command that continues the session there."""


class ExportRequest(NamedTuple):
    """The options of an export."""

    format: Format
    options: ExportOptions


def export(
    core: Core,
    id: str,
    asked: ExportRequest,
    to: Target | None,
    at: int | None,
    overwrite: bool,
    sign: str | bytes | None,
    progress: Progress | None,
) -> Any:
    check_function("progress", progress)
    if to is not None and not hasattr(to, "write"):
        check_path("to", to)
    chosen = asked.format
    chunks = chosen.write(recorded(core, id, at, progress), asked.options)
    if sign is not None:
        if not isinstance(to, (str, os.PathLike)):
            raise UsageError("a signature is written beside a file", remedy="Give the path of one.")
        from holdfast.library._keychain import write_signed

        return write_signed(chunks, _path(to, id, chosen), sign, overwrite=overwrite)
    if to is None:
        data = b"".join(chunks)
        return data.decode("utf-8", "replace") if chosen.is_text else data
    if isinstance(to, (str, os.PathLike)):
        from holdfast.storage import place_file

        place_file(_path(to, id, chosen), chunks, overwrite=overwrite)
    else:
        _write_to(to, chunks, is_text=chosen.is_text)
    return None


def install(
    core: Core,
    id: str,
    tool: str,
    cwd: str | os.PathLike[str] | None,
    at: int | None,
    model: str | None,
    overwrite: bool,
) -> Installed:
    from holdfast.storage import place_file

    chosen, options = asked(tool, "UTC", cwd, None, model)
    if not chosen.is_native:
        raise UsageError(f"{chosen.name} is not a tool that sessions can be put into")
    session = recorded(core, id, at)
    plan = installation(chosen, session, options)
    path = place_file(plan.path, chosen.write(session, options), overwrite=overwrite, make_folders=True)
    return Installed(chosen.name, plan.session_id, path, plan.command)


def recorded(core: Core, id: str, at: int | None, progress: Progress | None = None) -> Recorded:
    """Return the session for a writer: as it is now, whatever is added meanwhile."""
    from holdfast.formats import Recorded
    from holdfast.library._copy import log_lines, own_documents
    from holdfast.replay import describe

    key = core.stored(id)
    log, documents = core.store.log(key), core.store.documents(key)
    newest = next(read_range(log, reverse=True, limit=1), None) if at is None else None
    end = reached(log, id, at) if at is not None else -1 if newest is None else newest.seq
    until = None if end < 0 else end
    size = log.size()

    def events() -> Iterator[Event]:
        found = of_known_format(read_range(log, stop=end + 1))
        return _told(resolve_blobs(found, documents), end + 1, progress)

    def recover(provider: Provider, incomplete: Incomplete) -> Recovery:
        return _views.recover(core, id, provider, incomplete, at=until)

    return Recorded(
        metadata=_finder.info(core, id) if at is None else describe(_views.state(core, id, at=at), id, size),
        state=lambda: _views.state(core, id, at=until),
        events=events,
        lines=lambda: _told(log_lines(log, size, at), size, progress, len),
        recover=recover,
        lost_from=lambda: unreadable_from(log, documents) if at is None else None,
        # Exported as stored: a sealed session stays sealed and takes its wrapped keys along.
        documents=own_documents(log, core.inner.documents(key), end, at, size),
    )


def _told(
    items: Iterator[T], total: int, progress: Progress | None, weight: Callable[[T], int] = lambda _: 1
) -> Iterator[T]:
    """Yield the items and report progress."""
    done = told = 0
    for item in items:
        yield item
        if progress is not None:
            done += weight(item)
            if (done - told) * _STEPS >= total:
                told = done
                progress(min(done, total), total)


def asked(
    name: str,
    zone: tzinfo | str,
    cwd: str | os.PathLike[str] | None,
    passphrase: str | None,
    model: str | None,
    incomplete: Incomplete = "mark",
) -> ExportRequest:
    """Return the options of an export. Raises UsageError for a combination that makes no sense."""
    from holdfast.formats import ExportOptions, format_of

    format = format_of(name)
    if passphrase is not None and format.name != "bundle":
        raise UsageError(f"a passphrase seals a bundle, not {format.name}", remedy="Export to format 'bundle'.")
    if incomplete not in ("drop", "mark", "keep"):
        raise UsageError(f"incomplete={incomplete!r}: one of drop, mark, keep")
    if cwd is not None:
        check_path("cwd", cwd)
    folder = os.path.realpath(os.fspath(cwd) if cwd is not None else ".")
    if format.is_native and folder.encode("utf-8", "replace").decode() != folder:
        raise UsageError("the project's path has bytes that are no text; the tool could not read it")
    options = ExportOptions(zone=_zone(zone), cwd=folder, passphrase=passphrase, model=model, incomplete=incomplete)
    return ExportRequest(format, options)


def _zone(zone: tzinfo | str) -> tzinfo:
    if isinstance(zone, tzinfo):
        return zone
    if not isinstance(zone, str):
        raise UsageError(f"a time zone is a name or a tzinfo, not {type(zone).__name__}")
    if zone.upper() == "UTC":
        return UTC
    if zone == "local":
        return datetime.now().astimezone().tzinfo or UTC
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(f"there is no time zone {zone[:60]!r}", remedy="Use UTC, local, or Europe/Vienna.") from None


def _path(to: str | os.PathLike[str], id: str, format: Format) -> str:
    path = os.fspath(to)
    return os.path.join(path, id + format.suffix) if os.path.isdir(path) else path


def _write_to(file: IO[Any], chunks: Iterator[bytes], *, is_text: bool) -> None:
    """Write to an open file of bytes or of text."""
    import codecs
    import io

    if not isinstance(file, io.TextIOBase) and not hasattr(file, "encoding"):
        for chunk in chunks:
            file.write(chunk)
        return
    if not is_text:
        raise UsageError("a bundle is bytes", remedy="Open the file in binary mode.")
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for chunk in chunks:
        file.write(decoder.decode(chunk))
    file.write(decoder.decode(b"", final=True))


# Where each coding agent looks for its sessions, and the command that resumes one there.
class Installation(msgspec.Struct, frozen=True):
    """The place of the file, the tool's id of the session, and the command that continues it."""

    path: str
    session_id: str
    command: str


# The variable that overrides a tool's folder, and the default; the other tools get a file in the project.
_HOMES = {"claude-code": ("CLAUDE_CONFIG_DIR", ".claude"), "codex": ("CODEX_HOME", ".codex")}
_COMMANDS = {
    "claude-code": "claude --resume {own}",
    "codex": "codex resume {own}",
    "gemini-cli": "gemini --session-file {file}",
    "opencode": "opencode import {file} && opencode --session {own}",
}


def installation(format: Format, recorded: Recorded, options: ExportOptions) -> Installation:
    writer = importlib.import_module(f"holdfast.formats.writers.{format.name.replace('-', '_')}")
    own, name = writer.session_id(recorded), f"{recorded.metadata.session_id}.{format.name}{format.suffix}"
    path = os.path.join(options.cwd, name)
    if format.name in _HOMES:
        variable, folder = _HOMES[format.name]
        home = os.environ.get(variable) or os.path.expanduser(f"~/{folder}")
        path = os.path.join(home, writer.session_file(recorded, options).removeprefix(f"{folder}/"))
    command = _COMMANDS[format.name].format(own=own, file=shlex.quote(name))
    return Installation(path, own, f"cd {shlex.quote(options.cwd)} && {command}")
