"""Another tool's session, before it becomes one of ours."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from holdfast.errors import HoldfastError, TooNew

if TYPE_CHECKING:
    from holdfast.formats._source import Source

_DIGEST_CHARS = 16
_UNFIT = re.compile(r"[^a-z0-9]+")
_READABLE_CHARS_MAX = 90
_MS = 1_000
# A number this large is no longer seconds, milliseconds, microseconds.
_UNITS = ((1e17, 1e-6), (1e14, 1e-3), (1e11, 1.0))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_MS = 253_402_300_799_999


class ForeignDraft(msgspec.Struct):
    """A future event.

    ``timestamp`` is Unix milliseconds, None if the source has no time. ``raw`` is the unchanged source and is kept in
    ``data["raw"]``. ``key`` is stable within the source: a second import of the same session leaves out known keys.
    Without one the key is made from the content.
    """

    type: str
    data: dict[str, Any]
    timestamp: int | None = None
    run: str | None = None
    key: str | None = None
    raw: Any = None


class Foreign(msgspec.Struct):
    """One session as another tool kept it. ``problems`` lists in words what could not be read."""

    tool: str
    foreign_id: str
    drafts: list[ForeignDraft]
    title: str | None = None
    tags: tuple[str, ...] = ()
    created_at: int | None = None
    cwd: str | None = None
    parent: str | None = None  # the foreign id of the session that this one was forked from
    version: str | None = None
    scope: str | None = None  # distinguishes sessions of the same foreign id, where that is not unique
    other_scope: str | None = None
    """A scope that counts only if the session of its foreign id here has nothing in common."""
    provider_type: str | None = None
    agent_id: str | None = None  # the agent of the session, as the tool names it
    problems: list[str] = msgspec.field(default_factory=list)
    refusal: HoldfastError | None = None  # why nothing of it may be recorded


@runtime_checkable
class Reader(Protocol):
    """Reads the files of one tool. Reading never writes, and tolerates damage."""

    tool: str

    def claims(self, source: Source) -> bool:
        """Return whether the source is this tool's, by its content."""

    def read(self, source: Source) -> Iterator[Foreign]:
        """Yield the sessions in it."""


def session_id_of(tool: str, foreign_id: str, scope: str | None = None) -> str:
    """Return the id under which a foreign session is kept here: the same one every time.

    The foreign id stays readable in it; a digest distinguishes ids that differ only by tool, scope, case
    or characters that an id of ours cannot have.
    """
    import hashlib  # it loads OpenSSL

    # NUL is in no id, so that no two of them make one text.
    whole = "\0".join([tool, foreign_id] if scope is None else [tool, foreign_id, scope])
    digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()
    readable = _UNFIT.sub("-", foreign_id.lower()).strip("-")[:_READABLE_CHARS_MAX].rstrip("-")
    return "-".join(filter(None, [tool.replace("_", "-"), readable, digest[:_DIGEST_CHARS]]))


def frame(tool: str, raw: Any, timestamp: int | None = None, key: str | None = None) -> ForeignDraft:
    """Return a draft for data outside the conversation that came with it."""
    return ForeignDraft("frame", {"direction": "imported", "tool": tool}, timestamp, key=key, raw=raw)


def check_version(name: str, tool: str, version: Any, newest: int) -> None:
    """Raise the error of :func:`refusal_of` for a document, if it is refused."""
    if refusal := refusal_of(name, tool, version, newest):
        raise refusal


def refusal_of(name: str, tool: str, version: Any, newest: int) -> TooNew | None:
    """Return the refusal of a document of an unknown version (None: older than versions); None if known."""
    try:
        number = float(version) if isinstance(version, (int, float, str)) else float("nan")
    except (ValueError, OverflowError):
        number = float("nan")
    # A version such as 1.5 only adds to 1, and is readable for readers of 1.
    if version is None or number < newest + 1:
        return None
    return TooNew(
        f"{name} has version {str(version)[:40]} of {tool}'s files, and this Holdfast knows up to {newest}",
        remedy="Nothing of it was recorded. Bring it in with a newer Holdfast.",
    )


def read_time(value: Any) -> int | None:
    """Return Unix milliseconds from a time as tools write it; None if it is invalid.

    Takes ISO 8601 with any number of fraction digits, ``Z``, an offset or none (then it is local
    time), and numbers of seconds, milliseconds, microseconds or nanoseconds.
    """
    if isinstance(value, str):
        text = value.strip()
        try:
            if not text.replace(".", "", 1).isdigit():
                moment = datetime.fromisoformat(text).astimezone(UTC)  # a naive one is local time
                return _sane((moment - _EPOCH) // timedelta(milliseconds=1))
            value = float(text)
        except (ValueError, OverflowError, OSError):
            return None
    if type(value) not in (int, float) or not 0 < value < float("inf"):
        return None
    factor = next((factor for least, factor in _UNITS if value >= least), None)
    return _sane(round(value * _MS) if factor is None else int(value * factor))


def _sane(stamp: int) -> int | None:
    return stamp if 0 < stamp <= _LAST_MS else None


# Making foreign data fit to be recorded: plain values, known types, stable keys.
# An append refuses what it cannot record faithfully. Here such a value is replaced by the nearest that can be, while
# the source line, which is kept beside it, still has the original.

# The types that a file may bring. Permissions, plugins, tools, settings and instructions are not among them: they would
# act on this machine in the name of the file's author.
ALLOWED_TYPES = frozenset(
    """
    user assistant system thinking tool_call tool_result retracted compaction
    turn_start turn_end agent_start agent_iteration agent_complete agent_error
    delegation delegation_complete
    variable_set variable_delete memory_set memory_delete todo_update task usage metadata
    title tag untag link frame
    """.split()  # noqa: SIM905 - a list of words is easier to read and to change
)
# They keep a session from being deleted here, which no foreign file may decide.
_RESERVED_METADATA = frozenset({"pinned", "legal_hold"})
_DEPTH_MAX = 50
_DIGITS_MAX = 64
_KEY_CHARS_MAX = 120
_STATE_BYTES_MAX = 200_000
_WHOLE_STATE = frozenset({"title", "tag", "untag", "link", "metadata", "task", "todo_update"})
# No line of a log may contain NUL itself; its picture shows that it was there.
_NUL = "\u2400"


def fit_drafts(foreign: Foreign) -> Iterator[ForeignDraft]:
    """Return the drafts of a session, each with a key and a time, and with recordable content.

    The key depends only on the content and on how often it came before, so that a grown source
    gives the same keys for its old entries.
    """
    seen: dict[str, int] = {}
    ends = _Ends()
    stamp = foreign.created_at
    for draft in foreign.drafts:
        fitted = _fit(draft, foreign.tool)
        # An entry without a time happened when the one before it did.
        stamp = draft.timestamp or stamp
        key = _key(fitted)
        count = seen[key] = seen.get(key, -1) + 1
        fitted.key = f"{key}.{count}" if count else key
        fitted.timestamp = stamp
        ends.take(fitted)
        yield fitted
    yield from ends.drafts(stamp)


def fit_value(value: Any, depth: int = _DEPTH_MAX) -> Any:
    """Return the nearest value that can be recorded."""
    if isinstance(value, str):
        return _fit_text(value)
    if isinstance(value, dict):
        if depth <= 0:
            return _as_text(value)
        return {_fit_text(str(key)): fit_value(item, depth - 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [fit_value(item, depth - 1) for item in value] if depth > 0 else _as_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and abs(value) >= 10**_DIGITS_MAX:
        return hex(value)
    return value if isinstance(value, (int, float, bool, type(None))) else _fit_text(str(value))


def _fit_text(text: str) -> str:
    text = text.replace("\0", _NUL)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _as_text(value: Any) -> str:
    try:
        import json

        return _fit_text(json.dumps(value, ensure_ascii=True))
    except (RecursionError, ValueError):
        return "(nested too deep)"


def _fit(draft: ForeignDraft, tool: str) -> ForeignDraft:
    data = fit_value(draft.data)
    if draft.type == "metadata":
        data = {name: value for name, value in data.items() if name not in _RESERVED_METADATA}
    if draft.type == "retracted" and isinstance(data.get("keys"), list):
        data["keys"] = [_key(ForeignDraft("", {}, key=str(key))) for key in data["keys"]]
    run = None if draft.run is None else _fit_text(draft.run)[:_KEY_CHARS_MAX]
    kept = ForeignDraft(draft.type, data, run=run, key=draft.key)
    is_large = draft.type in _WHOLE_STATE and len(msgspec.json.encode(data)) > _STATE_BYTES_MAX
    if draft.type not in ALLOWED_TYPES or is_large:
        told = {"direction": "imported", "tool": tool, "type": _fit_text(draft.type[:80])}
        kept = ForeignDraft("frame", {**told, "frame": data}, run=run, key=draft.key)
    if draft.raw is not None and kept.type != "metadata":  # a free map, every member of it counts
        kept.data["raw"] = _fit_raw(draft.raw)
    return kept


def _fit_raw(raw: Any) -> Any:
    """Return the unchanged source; bytes that are not text become base64."""
    if not isinstance(raw, bytes):
        return fit_value(raw)
    try:
        return _fit_text(raw.decode())
    except UnicodeDecodeError:
        import base64

        return {"base64": base64.b64encode(raw).decode()}


def _key(draft: ForeignDraft) -> str:
    if draft.key is not None:
        key = _fit_text(draft.key)
        return f"i.{key}" if len(key) <= _KEY_CHARS_MAX else f"i.{_digest(key.encode())}"
    return f"i.{_digest(msgspec.json.encode([draft.type, draft.data, draft.run]))}"


def _digest(data: bytes) -> str:
    import hashlib  # it loads OpenSSL

    return hashlib.sha256(data).hexdigest()[:20]


class _Ends:
    """The open ends of a session: it will not be continued here."""

    def __init__(self) -> None:
        self._calls: dict[str, None] = {}
        self._turns: dict[str, str | None] = {}

    def take(self, draft: ForeignDraft) -> None:
        if draft.type == "tool_call":
            self._calls[str(draft.data.get("id"))] = None
        elif draft.type == "tool_result":
            self._calls.pop(str(draft.data.get("toolCallId")), None)
        elif draft.type == "turn_start":
            self._turns[draft.run or ""] = draft.run
        elif draft.type == "turn_end":
            self._turns.pop(draft.run or "", None)

    def drafts(self, stamp: int | None) -> Iterator[ForeignDraft]:
        """Return the missing ends of turns."""
        # A call without an answer would wait for ever: its turn is ended.
        if self._calls:
            self._turns.setdefault("", None)
        for name, run in self._turns.items():
            calls = list(self._calls) if run is None else []
            key = f"i.end.{_digest(msgspec.json.encode([name, calls]))}"
            yield ForeignDraft("turn_end", {"reason": "imported"}, stamp, run, key)
