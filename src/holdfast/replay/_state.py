"""State: everything in a session besides its conversation, as one value.

It is the result of folding the log's events, and the content of a snapshot. The live one belongs to its :class:`Fold`;
readers get :meth:`State.copy`. The usage of requests to models and the list of todos are parsed here, for the fold and
for others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec

from holdfast.errors import InvalidData
from holdfast.model import (
    LazyDecoder,
    SessionMetadata,
    Status,
    brief,
    decode_json,
    fill_references,
    has_marked_keys,
    restore_keys,
)

# The progress of a tool call without a result, including questions to its user.
# A ``tool_call``, or a message that asks for one, is an intent: whether it took effect is unknown. A ``permission`` for
# the call knows more: while the question is open, and after a refusal, the call has not run.
Stage = Literal["announced", "asked", "begun", "refused"]

_REFUSALS = frozenset({"deny", "denied", "reject", "rejected", "cancelled"})
WHY_NOT_RUN: dict[Stage, str] = {"asked": "nobody answered whether it may run", "refused": "it was refused"}
"""Why a call has not run, by its stage; at any other stage it may have."""


def stage_after(decision: Any, ask: Any = None) -> Stage | None:
    """Return the stage of a call after a decision, None for none: one that neither asks nor refuses lets it run.

    The answer to an ``ask`` that waited is carried out later: the call begins with an event of its own.
    """
    if not isinstance(decision, str):
        return None
    if decision == "ask":
        return "asked"
    if decision in _REFUSALS:
        return "refused"
    return "begun" if ask is None else None


LoadBlob = Callable[[dict[str, Any]], Any]
"""Loads the payload of a reference ``{"$blob": …}``."""


class MemoryEntry(msgspec.Struct, kw_only=True, omit_defaults=True, rename={"raw": "value"}):
    """One memory entry of the session."""

    key: str
    raw: msgspec.Raw
    """The value as recorded; read it with :attr:`value`."""
    description: str = ""
    scope: str = "session"
    priority: str = "normal"
    pinned: bool = False
    size_bytes: int = 0
    created_at: int = 0
    updated_at: int = 0
    last_accessed_at: int = 0
    seq: int = -1
    """The event that set it last."""

    def __repr__(self) -> str:
        return f"MemoryEntry(key={self.key!r}, value={brief(msgspec.json.decode(self.raw))}, scope={self.scope!r})"

    @property
    def value(self) -> Any:
        """The value: a fresh copy at each access."""
        return self.read()

    def read(self, load: LoadBlob | None = None) -> Any:
        """Return the value, with references to blobs replaced by ``load``."""
        return read_recorded(self.raw, load)


class MemoryStats(msgspec.Struct, frozen=True):
    """The size of the memory; counted from the entries, so it always agrees with them."""

    total_entries: int
    total_size_bytes: int


class PluginState(msgspec.Struct, kw_only=True, omit_defaults=True, rename={"raw": "state"}):
    """The state that a plugin saved, unchanged, whether or not the plugin is known here."""

    name: str
    raw: msgspec.Raw
    version: int | str | None = None
    updated_at: int = 0
    seq: int = -1

    @property
    def state(self) -> Any:
        """The plugin's state: a fresh copy at each access."""
        return self.read()

    def read(self, load: LoadBlob | None = None) -> Any:
        """Return the state, with references to blobs replaced by ``load``."""
        return read_recorded(self.raw, load)


class Approval(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A standing permission to use a tool. The reader decides whether it has expired."""

    scope: str = "session"
    approved_at: int = 0
    approved_by: str | None = None
    expires_at: int | None = None
    args_hash: str | None = None


class Permissions(msgspec.Struct, omit_defaults=True):
    """The calls that the agent may make without asking."""

    approvals: dict[str, Approval] = {}
    allowlist: list[str] = []
    blocklist: list[str] = []
    version: int = 1


class ToolState(msgspec.Struct, omit_defaults=True):
    """Which tools are enabled, and how they are grouped and ranked; by tool name."""

    enabled: dict[str, Any] = {}
    namespaces: dict[str, Any] = {}
    priorities: dict[str, Any] = {}


class Tokens(msgspec.Struct, omit_defaults=True):
    """The usage of requests to a model."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    requests: int = 0
    cost: float | None = None
    """None until an event names a cost."""


_COUNTS = Tokens.__struct_fields__[:-1]


def total_cost(used: Iterable[Tokens]) -> float | None:
    """Return the cost of several models together; None until an event names a cost."""
    known = [tokens.cost for tokens in used if tokens.cost is not None]
    return sum(known) if known else None


class SessionUsage(Tokens, omit_defaults=True):
    """The usage of the session, in all and by model (``""`` if no model was named)."""

    by_model: dict[str, Tokens] = {}


class Parent(msgspec.Struct, frozen=True):
    """The session from which this one was forked, and the last event they share."""

    session: str
    seq: int | None = None


class Turning(msgspec.Struct, frozen=True):
    """A turn that has begun and not ended."""

    turn: int | str
    seq: int
    started_at: int = 0


class PendingCall(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A tool call that has no result yet."""

    tool: str
    seq: int
    """The event that began it, or the message that asks for it if nothing else is known."""
    stage: Stage = "begun"
    """The progress of the call: "announced" by a message that asks for it, with no event of its own;
    "asked" about, with no answer, or "refused" by its user, so that it has not run."""

    @property
    def begun(self) -> bool:
        """True if an event of its own has begun the call, and its user did not prevent it."""
        return self.stage == "begun"


StepStatus = Literal["begun", "done", "failed", "unknown"]


class StepState(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False, rename={"raw": "value"}):
    """The progress of a durable step, as recorded by its last attempt."""

    name: str
    digest: str = ""
    """The digest of the arguments; the same key with another digest is another piece of work."""
    seq: int
    """The event that records its beginning."""
    begun_at: int = 0
    attempt: int = 1
    status: StepStatus = "begun"
    """Begun but not ended is unknown to other processes; "unknown" is recorded."""
    result_seq: int = -1
    # By a factory: a schema is made of this class, and none can say a raw default.
    raw: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))
    """The result as recorded, unless it is long."""
    is_long: bool = False
    """True if the result has to be read from its event."""
    error: str | None = None
    kinds: list[str] = []
    """The class of the exception and its bases, the nearest first."""
    retry_at: int = 0
    unstored: str | None = None
    """Why the result of a completed step is not recorded."""
    parent: str | None = None
    call: str | None = None
    """The tool call that it carries out."""
    log: str | None = None
    """The log in which it began, if this one is a fork."""


class AskState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A question that a session waits for: for a person, a time or an event. Times are Unix milliseconds."""

    seq: int
    """The event that asks."""
    kind: str = "input"
    """``permission`` or ``input`` asks a person; ``time`` or ``event`` does not."""
    call: str | None = None
    call_seq: int = -1
    """The event of the waiting call, with its arguments."""
    tool: str = ""
    run: str | None = None
    agent: str | None = None
    path: list[str] = []
    """The runs of delegates down to the one that waits, the outermost first."""
    above: list[str] = []
    """The calls of those delegates, which wait for them."""
    reason: str = ""
    digest: str = ""
    """The digest of the arguments, as they were shown."""
    asked_at: int = 0
    expires_at: int | None = None
    on_expiry: str = "deny"
    until: int | None = None
    event: str | None = None
    replayable: bool = True
    """True if the call can be made from the log, as it can unless secrets were removed from its arguments."""
    token: str | None = None
    resume_as: str = "tool_result"
    answered: int = -1
    """The event with the answer; -1 while there is none."""
    begun: bool = False
    """True if the approved call has begun, which uses up the answer."""
    done: bool = False

    @property
    def is_open(self) -> bool:
        """True if the question is unanswered, and the session has not gone on without an answer."""
        return self.answered < 0 and not self.begun and not self.done

    @property
    def for_person(self) -> bool:
        """True if the question waits for a person."""
        return self.kind not in ("time", "event")


class OpenedBy(msgspec.Struct, omit_defaults=True):
    """The last writer of the session, and whether it closed it."""

    seq: int
    opened_at: int = 0
    epoch: int = 0
    pid: int | None = None
    host: str | None = None
    version: str | None = None
    closed: bool = False


class State(
    msgspec.Struct,
    kw_only=True,
    omit_defaults=True,
    rename={"encoded": "variables"},
    # The version of this struct: a snapshot of another one does not decode and is skipped.
    tag_field="shape",
    tag=4,
):
    """A session's state after the events up to ``seq``. Times are Unix milliseconds."""

    seq: int = -1
    event_count: int = 0
    message_count: int = 0
    """User, assistant and system messages and tool results, as recorded (retracted ones too)."""
    turns: int = 0
    ignored: int = 0
    """Events of a known type with malformed data: they are in the log, but not in the state."""
    created_at: int = 0
    updated_at: int = 0

    format: int = 0
    log: str | None = None
    first_log: str | None = None
    """The log that this one began as: forks have it in common."""
    generation: int = 0
    agent_id: str | None = None
    agent_type: str | None = None
    provider_type: str | None = None
    parent: Parent | None = None
    root: str | None = None
    """The first session of the line that this one was forked from; None if it was not."""

    title: str | None = None
    title_auto: str | None = None
    """From an automatic ``title`` event, else from the first words of the first user message."""
    tags: list[str] = []
    links: dict[str, list[str]] = {}
    """Ids under which other systems know this session, by kind, the newest last."""
    metadata: dict[str, Any] = {}

    encoded: dict[str, msgspec.Raw] = {}
    """Variables as recorded; read them with :attr:`variables`."""
    memory: dict[str, MemoryEntry] = {}
    todos: list[dict[str, Any]] = []
    plugins: dict[str, PluginState] = {}
    permissions: Permissions = msgspec.field(default_factory=Permissions)
    tools: ToolState = msgspec.field(default_factory=ToolState)
    instructions: str | None = None
    config: dict[str, Any] = {}
    task: Any = None
    usage_by_model: dict[str, Tokens] = {}

    open_turns: dict[str, Turning] = {}
    """By run; the run without a name is ``""``."""
    pending_calls: dict[str, PendingCall] = {}
    """By id, calls without a result: running here, or at the crash."""
    asked: dict[str, int] = {}
    """By run, the seq of its last assistant message, if that asks for tools."""
    deferred_calls: dict[str, PendingCall] = {}
    """Calls that a finished turn left without a result, to be answered later."""
    streaming: dict[str, int] = {}
    """By run, the seq of the first streamed piece that no final message covers yet."""
    steps: dict[str, StepState] = {}
    """Durable steps by key, as their last attempts left them."""
    open_steps: dict[str, int] = {}
    """Steps that have begun and not ended, with the seq of their beginning."""
    asks: dict[str, AskState] = {}
    """Questions by id: open, or answered but not carried out yet."""
    unheard: list[int] = []
    """Events with a message to the working agent that the model has not seen yet."""
    interrupted_at: int = -1
    """The message count when work was interrupted; a later message means that it went on."""
    failed_at: int = -1
    """The message count when a turn ended in an error; a later message means that it went on."""
    alive: bool = True
    """True if the writer may still be running. This is determined when the state is read, never folded."""

    last_open: OpenedBy | None = None
    epoch: int = 0
    keys: dict[str, int] = {}
    """Idempotency keys and the events that carried them first."""

    @property
    def variables(self) -> dict[str, Any]:
        """The variables as Python values: fresh copies at each access."""
        return self.read_variables()

    def read_variables(self, load: LoadBlob | None = None, classes: Iterable[type] = ()) -> dict[str, Any]:
        """Return the variables, with blobs resolved by ``load`` and instances built of ``classes``."""
        known = tuple(classes)
        return {name: read_variable(raw, load, known) for name, raw in self.encoded.items()}

    def memory_stats(self) -> MemoryStats:
        """Return the number of memory entries, and their size."""
        size = sum(entry.size_bytes for entry in self.memory.values())
        return MemoryStats(len(self.memory), size)

    @property
    def usage(self) -> SessionUsage:
        """Tokens, requests and cost so far, summed over the models."""
        known = self.usage_by_model.values()
        sums = {name: sum(getattr(tokens, name) for tokens in known) for name in _COUNTS}
        # Copies: returned values must not change with the next event.
        by_model = {model: msgspec.structs.replace(tokens) for model, tokens in self.usage_by_model.items()}
        return SessionUsage(**sums, cost=total_cost(known), by_model=by_model)

    @property
    def metrics(self) -> dict[str, int]:
        """Input and output tokens, the number of requests, and the time of the last activity."""
        usage = self.usage
        return {
            "tokens_in": usage.input_tokens,
            "tokens_out": usage.output_tokens,
            "request_count": usage.requests,
            "last_activity": self.updated_at,
        }

    @property
    def shown_title(self) -> str | None:
        """The title that a person gave, else the automatic one."""
        return self.title or self.title_auto

    @property
    def open_turn(self) -> Turning | None:
        """The current turn; the first to begin if several runs have one."""
        return next(iter(self.open_turns.values()), None)

    @property
    def uncovered_delta(self) -> bool:
        """True if there is streamed text that no final message covers yet."""
        return bool(self.streaming)

    @property
    def suspended(self) -> bool:
        """True if a question is open."""
        return any(ask.is_open for ask in self.asks.values())

    @property
    def mid_turn(self) -> bool:
        """True if work was going on at this point of the log."""
        return bool(self.open_turns or self.pending_calls or self.streaming or self.open_steps)

    @property
    def status(self) -> Status:
        """The status of the session: a turn whose writer has died is interrupted."""
        # Also in mid-turn: it was left so on purpose.
        open_asks = [ask for ask in self.asks.values() if ask.is_open]
        if open_asks:
            return "waiting" if any(ask.for_person for ask in open_asks) else "suspended"
        if self.mid_turn:
            return "running" if self.alive else "interrupted"
        if self.interrupted_at == self.message_count:
            return "interrupted"
        if self.failed_at == self.message_count:
            return "failed"
        if self.asks:
            return "suspended"  # everything is answered, and no process has continued yet
        return "waiting" if self.deferred_calls else "idle"

    @property
    def unfinished(self) -> bool:
        """True if the last turn has not ended, so that an agent can continue it."""
        return self.status in ("running", "interrupted", "failed")

    def copy(self) -> State:
        """Return an independent copy of the state."""
        return _state_decoder.decode(_encode_state(self))

    def to_json(self) -> bytes:
        """Return the state as bytes, for a snapshot."""
        return _encode_state(self)

    @classmethod
    def from_json(cls, data: bytes) -> State:
        """Return the state in a snapshot. Raises InvalidData if it is invalid, or of another version."""
        try:
            return _state_decoder.decode(data)
        except (ValueError, RecursionError) as error:
            raise InvalidData(f"not a state: {error}") from error


_encode_state = msgspec.json.Encoder().encode
_state_decoder = LazyDecoder(State)


def read_recorded(raw: msgspec.Raw, load: LoadBlob | None = None) -> Any:
    """Return the value of recorded JSON, with references resolved and escaped keys restored."""
    value = decode_json(raw)
    if not has_marked_keys(bytes(raw)):
        return value
    return restore_keys(value) if load is None else fill_references(value, load)


def read_variable(raw: msgspec.Raw, load: LoadBlob | None, classes: tuple[type, ...]) -> Any:
    from holdfast.model import decode_value

    value = read_recorded(raw, load)
    try:
        return decode_value(value, classes)
    except InvalidData:  # too deep for the codec, which therefore never wrote it
        return value


def describe(state: State, session_id: str, size_bytes: int) -> SessionMetadata:
    """Return the metadata of a session from its events; what only a store knows is left at its defaults."""
    cwd = state.metadata.get("cwd")
    return SessionMetadata(
        session_id=session_id,
        title=state.shown_title,
        tags=tuple(state.tags),
        created_at=state.created_at,
        updated_at=state.updated_at,
        message_count=state.message_count,
        total_tokens=sum(tokens.total_tokens for tokens in state.usage_by_model.values()),
        event_count=state.event_count,
        size_bytes=size_bytes,
        agent_id=state.agent_id,
        parent=state.parent.session if state.parent else None,
        cwd=cwd if isinstance(cwd, str) else None,
        pinned=state.metadata.get("pinned") is True,
        held=bool(state.metadata.get("legal_hold")),
        status=state.status,
    )


# Adding up the usage of requests to models, whatever the provider calls its figures.
BYTES_PER_TOKEN = 4
"""The average length of a token in English, approximately."""

# By the place of the figure in the list that a report is read into.
_PLACES = {
    name: place
    for place, names in enumerate(
        (
            "input_tokens prompt_tokens inputTokens promptTokens",
            "output_tokens completion_tokens outputTokens completionTokens",
            "total_tokens totalTokens",
            "cache_read_tokens cache_read_input_tokens promptCacheHitTokens",
            "cache_write_tokens cache_creation_input_tokens",
            "requests",
            "cost cost_usd total_cost_usd",
        )
    )
    for name in names.split()
}
_COST = _PLACES["cost"]


def estimate_tokens(text: str) -> int:
    """Return the estimated tokens of a text, if none are reported."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return -(-size // BYTES_PER_TOKEN)


def add_usage(by_model: dict[str, Tokens], figures: dict[str, Any], model: Any = None) -> None:
    """Count one report of a provider. Values that are not figures are skipped.

    A report is an increment, and one request unless it says otherwise. Without a total, the total is input plus output.
    """
    # In the order of the places above; a report is one request unless it says otherwise.
    found: list[Any] = [0, 0, 0, 0, 0, 1, None]
    place_of = _PLACES.get
    for name, amount in figures.items():
        place = place_of(name)
        if place is not None and (place == _COST or (type(amount) is int and amount >= 0)):
            found[place] = amount
    given, made, total, cache_read, cache_write, requests, cost = found
    name = model if type(model) is str else ""
    tokens = by_model.get(name)
    if tokens is None:
        tokens = by_model[name] = Tokens()
    tokens.input_tokens += given
    tokens.output_tokens += made
    tokens.total_tokens += total or given + made
    tokens.cache_read_tokens += cache_read
    tokens.cache_write_tokens += cache_write
    tokens.requests += requests
    if type(cost) in (int, float) and 0 <= cost < math.inf:
        tokens.cost = (tokens.cost or 0.0) + float(cost)


def spend(by_model: dict[str, Tokens], usage: Any, model: Any, metadata: Any) -> None:
    """Count the usage of a message; foreign logs have it among its metadata."""
    if usage is None and isinstance(metadata, dict):
        usage, model = metadata.get("usage"), model or metadata.get("model")
    if isinstance(usage, dict):
        add_usage(by_model, usage, model)


# Todos: one list at a time, complete each time it is written; the last one wins.
TODO_TOOLS = frozenset({"todowrite", "todo_write"})
"""Names, case-insensitive, of tools whose calls contain the whole list."""


def read_todos(params: Any) -> list[dict[str, Any]]:
    """Return the list in a call's parameters or an event's data, unvalidated; empty if there is none."""
    if isinstance(params, str):
        try:
            params = decode_json(params.encode("utf-8", "replace"))
        except InvalidData:
            return []
    todos = params.get("todos") if isinstance(params, dict) else None
    return [todo for todo in todos if isinstance(todo, dict)] if isinstance(todos, list) else []
