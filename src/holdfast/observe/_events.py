"""Structured logs: what happens to sessions, by the standard library's logging."""

from __future__ import annotations

import contextlib
import logging
import os
from typing import Any, TextIO

import msgspec

from holdfast.errors import HoldfastError
from holdfast.model import Event, Notice
from holdfast.observe._watcher import code_of
from holdfast.session import Finished, Observer
from holdfast.storage import add_to_file

# Levels of events: problems are louder than the rest, routine is quieter.
_LEVELS = {
    **dict.fromkeys(("snapshot_failed", "flush_failed", "lease_lost", "subscriber_failed"), logging.ERROR),
    **dict.fromkeys(("torn_tail", "repaired", "recovered", "session_near_limit", "secrets_redacted"), logging.WARNING),
    **dict.fromkeys(("lease_acquired", "lease_released"), logging.DEBUG),
}
_HEADING = ("event", "space", "session_id")
# Members of a notice that may contain text of a session, of a variable or of an exception.
_WORDS = frozenset({"message", "error", "name", "lost", "reason"})

LEVELS = ("off", "error", "warning", "info", "debug")
"""The levels, from nothing to everything."""


def log_to(place: TextIO | str, level: str, form: str = "json") -> LogObserver | None:
    """Return an observer that writes to a stream or a file, as "json" or "text"; None for "off".

    A file is private, is added to, and may be moved away at any time. Raises as ``add_to_file``.
    """
    if level == "off":
        return None
    handler = _FileHandler(place) if isinstance(place, str) else logging.StreamHandler(place)
    handler.setFormatter(TextFormatter() if form == "text" else JsonFormatter())
    logger = logging.getLogger("holdfast.sessions")
    # Not one more: to begin twice in a process must not write each line twice.
    logger.handlers[:] = [handler]
    logger.setLevel(level.upper())
    # Or a program that logs to the same place would have it twice.
    logger.propagate = False
    return LogObserver(logger)


class LogObserver(Observer):
    """Writes a record for each notice, each failure, and each event, to a logger.

    Records have ``session_id``, ``space`` if it is in one, and what belongs to it as attributes, in
    ``record.holdfast``. Events are told at DEBUG: their type, seq and size, never what was said, unless ``content``.
    """

    def __init__(self, logger: logging.Logger | None = None, *, content: bool = False) -> None:
        self._logger = logger or logging.getLogger("holdfast")
        self._content = content

    def end(self, begun: Any, done: Finished) -> None:
        if done.error is not None:
            detail = {"operation": done.operation, "code": code_of(done.error)}
            if self._content:
                detail["message"] = str(done.error)
            self._write(logging.ERROR, "operation_failed", done.session_id, detail)

    def tell(self, session_id: str, item: Event | Notice) -> None:
        if isinstance(item, Notice):
            detail = {name: item.detail[name] for name in item.detail if self._content or name not in _WORDS}
            self._write(_LEVELS.get(item.kind, logging.INFO), item.kind, session_id, detail)
        elif self._logger.isEnabledFor(logging.DEBUG):
            detail = {"type": item.type, "seq": item.seq, "size_bytes": len(item.raw)}
            if self._content:
                detail["data"] = item.data
            self._write(logging.DEBUG, "event", session_id, detail)

    def _write(self, level: int, kind: str, session_id: str, detail: dict[str, Any]) -> None:
        if self._logger.isEnabledFor(level):
            space, _, id = session_id.rpartition("/")
            place = {"space": space} if space else {}
            told = {"event": kind, **place, "session_id": id, **detail}
            self._logger.log(level, "%s %s", kind, session_id, extra={"holdfast": told})


class _FileHandler(logging.Handler):
    """Adds each record to a file as one line; what cannot be written then disturbs nobody."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = os.path.abspath(os.path.expanduser(path))
        add_to_file(self._path, b"")  # fail now if it is not writable

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(HoldfastError):
            add_to_file(self._path, f"{self.format(record)}\n".encode("utf-8", "replace"))


class JsonFormatter(logging.Formatter):
    """One line of JSON for each record: when, how loud, by whom, what belongs to it; the message of another's."""

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, Any] = {"at": int(record.created * 1000), "level": record.levelname.lower()}
        told |= {"logger": record.name}
        told |= getattr(record, "holdfast", None) or {"message": record.getMessage()}
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(told, enc_hook=repr, order=None).decode()


class TextFormatter(logging.Formatter):
    """One line of text for each record: when, how loud, what, and what belongs to it."""

    def format(self, record: logging.LogRecord) -> str:
        head = f"{self.formatTime(record)} {record.levelname} {record.getMessage()}"
        told: dict[str, Any] = getattr(record, "holdfast", None) or {}
        pairs = [f"{k}={msgspec.json.encode(v).decode()}" for k, v in told.items() if k not in _HEADING]
        return " ".join([head, *pairs])
