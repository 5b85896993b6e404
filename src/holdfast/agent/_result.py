"""Answers of models and results of runs, in our own types: the engine's types stop here."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Literal, Self

import msgspec

from holdfast.agent._sync import own_loop
from holdfast.errors import ResumeTokenExpired, ResumeTokenInvalid, ResumeTokenUsed, UsageError
from holdfast.model import Notice
from holdfast.session import Session, Waiting

if TYPE_CHECKING:
    from holdfast.agent._interjections import Steering
    from holdfast.agent._run_log import RunLog


class Speech(msgspec.Struct, frozen=True):
    """Words of a model: its answer (``text``) or its thoughts (``thinking``)."""

    kind: str
    text: str
    signature: str | None = None
    thought_signature: str | None = None
    """Google's form of a signature; only the provider that made one may see it again."""
    redacted: bool = False
    """True if the provider withheld the text, so that there is only a signature."""


class CallRequest(msgspec.Struct, frozen=True):
    """A tool call that the model asks for. ``fault`` is why its arguments cannot be read."""

    id: str
    name: str
    args: dict[str, Any]
    fault: str | None = None
    thought_signature: str | None = None


class Usage(msgspec.Struct, kw_only=True):
    """Tokens of one request or of several. ``estimated`` if no provider reported them."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    requests: int = 0
    estimated: bool = False

    @property
    def total_tokens(self) -> int:
        """Input and output tokens together."""
        return self.input_tokens + self.output_tokens

    def add(self, other: Usage) -> None:
        for name, figure in msgspec.structs.asdict(other).items():
            own = getattr(self, name)
            setattr(self, name, own or figure if name == "estimated" else own + figure)

    def figures(self) -> dict[str, Any]:
        """Return the members to record, without those that are zero or false."""
        found = msgspec.structs.asdict(self)
        del found["requests"]
        return {name: value for name, value in found.items() if value or name in ("input_tokens", "output_tokens")}


class Reply(msgspec.Struct, frozen=True):
    """One answer of a model: words, then calls."""

    speech: list[Speech]
    calls: list[CallRequest]
    usage: Usage
    model: str | None = None
    finish_reason: str | None = None

    @property
    def text(self) -> str:
        """The answer without thoughts."""
        return "".join(part.text for part in self.speech if part.kind == "text")


class Ask(msgspec.Struct, frozen=True):
    """One request to a model: the conversation in neutral form, and its options."""

    messages: list[dict[str, Any]]
    instructions: str | None = None
    tools: tuple[Any, ...] = ()
    """The tools that may be called, each a :class:`Tool`."""
    output: Any = None
    """The form of the answer, an :class:`OutputForm` whose tool is among ``tools``; None if it is a text."""


def blocks_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the content of a neutral message as blocks, also if it is a text."""
    content = message.get("content", [])
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


# Suspended runs: a token is handed out once, works once and expires.


class Suspension(msgspec.Struct, frozen=True):
    """The suspension of a run: the token to continue with, until ``expires_at`` (Unix ms)."""

    token: str
    reason: str
    resume_as: str
    expires_at: int


class _Suspended(msgspec.Struct):
    """A suspension as recorded in the log: the token's digest, never the token."""

    digest: str
    expires_at: int
    resume_as: str
    call: str | None
    id: str | None = None
    done: bool = False


def new_token() -> tuple[str, str]:
    """Make a token; return it with the digest to keep."""
    import secrets

    token = secrets.token_urlsafe(24)
    return token, _digest(token)


def suspension_of(session: Session, waiting: list[Waiting]) -> Suspension | None:
    """Return the suspension of the first open question that has a token."""
    for one in waiting:
        if one.token is not None:
            ask = session.live_state.asks[one.id]
            return Suspension(one.token, one.reason, ask.resume_as, one.expires_at or ask.until or 0)
    return None


def find_waiting(session: Session, token: str, now: int) -> _Suspended:
    """Return the suspension that a token belongs to.

    Raises ResumeTokenInvalid, ResumeTokenUsed or ResumeTokenExpired.
    """
    found = _read(session).get(_digest(token))
    if found is None:
        raise ResumeTokenInvalid(session_id=session.id)
    if found.done:
        raise ResumeTokenUsed(session_id=session.id)
    if found.expires_at <= now:
        raise ResumeTokenExpired(session_id=session.id, expires_at=found.expires_at)
    return found


def revoke(talk: RunLog) -> None:
    """Continue without the answer: spend the token, and record the interruption for the waiting call."""
    asks = [ask for ask in talk.session.live_state.asks.values() if ask.is_open]
    talk.append("resumed", {"reason": "superseded"})
    # For a delegate's question it is the call of the delegate.
    calls = dict.fromkeys((*ask.above, ask.call)[0] for ask in asks if ask.resume_as == "tool_result")
    for call in calls:
        if call is not None:
            message = "interrupted: the conversation went on before an answer came"
            talk.tool_result(call, {"error": True, "message": message}, is_error=True)


def _read(session: Session) -> dict[str, _Suspended]:
    waiting: dict[str, _Suspended] = {}
    for event in session.events():
        data = event.data
        if event.type == "suspended":
            expires_at, call, digest = data.get("expires_at"), data.get("call"), str(data.get("token"))
            waiting[digest] = _Suspended(
                digest=digest,
                # Waiting for a time or an event does not expire.
                expires_at=expires_at if isinstance(expires_at, int) else (0 if "kind" not in data else 1 << 62),
                resume_as=str(data.get("resume_as", "user_message")),
                call=call if isinstance(call, str) else None,
                id=data.get("id"),
            )
        elif event.type in ("resumed", "forked", "merged"):
            for one in waiting.values():
                # Without a token the session went on by itself: no answer is awaited any more. A fork waits for
                # nothing: the token is its parent's, and works once.
                one.done = one.done or (data.get("token") in (None, one.digest) and data.get("ids") in (None, [one.id]))
    return waiting


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


RunStatus = Literal["completed", "waiting", "failed", "stopped"]


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run. ``session_id`` is None if the run had no session."""

    output: Any
    """The answer: a text, or a value of the agent's ``output_type``; empty text if the run waits or was stopped."""
    session_id: str | None = None
    usage: Usage
    messages: list[dict[str, Any]] = []
    """The whole conversation in neutral form."""
    suspended: Suspension | None = None
    """Set if a tool waits for someone; go on with ``Agent.resume``."""
    status: RunStatus = "completed"
    waiting: list[Waiting] = []
    """The open questions, if the run waits; answer them from any process."""
    notices: list[Notice] = []
    """Damage that was found and repaired since the last run of the session."""
    finish_reason: str | None = None
    run: str | None = None
    limit: str | None = None
    """The limit that stopped the run, if one did: "tokens", "cost" or "time"."""

    @property
    def pause(self) -> str:
        """The reason why the run has not finished, in words that follow a name; empty if it has."""
        if self.limit is not None:
            return f"stopped at its limit of {self.limit}"
        if self.status != "waiting":
            return ""
        is_asked = not self.waiting or any(one.kind not in ("time", "event") for one in self.waiting)
        tools = ", ".join(dict.fromkeys(one.tool for one in self.waiting if one.tool))
        what = "an answer" if is_asked else "a time or an event"
        return f"waits for {what}{f' ({tools})' if tools else ''}; `holdfast waiting` shows more"


class RunStream:
    """A run whose answer is read as it comes: ``async for text in stream``, then ``.result``.

    As a context manager it stops the run when the block is left before the end; the text until then stays
    recorded. The run begins with the first of the two. Without an event loop ``for text in stream`` reads it: the run
    proceeds while a piece is awaited, and is stopped when the ``for`` is left.
    """

    def __init__(
        self, start: Callable[[Callable[[str], None]], Coroutine[Any, Any, RunResult]], steering: Steering
    ) -> None:
        self._start = start
        self._steering = steering
        self._pieces: asyncio.Queue[str | None] | None = None
        self._task: asyncio.Task[RunResult] | None = None

    @property
    def result(self) -> RunResult:
        """The result, once the stream has ended. Raises the error that ended the run, if any."""
        if self._task is None or not self._task.done():
            raise UsageError("the stream has not ended yet", remedy="Read it to its end first.")
        return self._task.result()

    async def __aenter__(self) -> Self:
        self._begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def steer(self, text: str, *, interrupt: bool = False) -> None:
        """Send a message to the agent while it works; see :meth:`Agent.steer`."""
        self._steering.say(text, interrupt=interrupt)

    @property
    def unsaid(self) -> list[str]:
        """Messages sent before the run began: they are not recorded if it fails first."""
        return self._steering.unsaid

    async def begun(self) -> None:
        """Wait until messages are recorded at once, or the run is over."""
        await asyncio.shield(asyncio.wrap_future(self._steering.begun))

    async def stop(self) -> None:
        """Stop the run, and wait until that is recorded."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def __aiter__(self) -> AsyncIterator[str]:
        pieces, task = self._begin()
        while (piece := await pieces.get()) is not None:
            yield piece
        await task

    def __iter__(self) -> Iterator[str]:
        with own_loop("async for text in stream") as runner:
            pieces = self.__aiter__()

            async def read() -> str | None:
                return await anext(pieces, None)

            try:
                while (piece := runner.run(read())) is not None:
                    yield piece
            finally:
                runner.run(self.stop())

    def _begin(self) -> tuple[asyncio.Queue[str | None], asyncio.Task[RunResult]]:
        if self._pieces is None or self._task is None:
            pieces: asyncio.Queue[str | None] = asyncio.Queue()
            self._pieces = pieces
            self._task = asyncio.ensure_future(self._start(pieces.put_nowait))
            # However it ends, the reader of the pieces is told that no more come.
            self._task.add_done_callback(lambda _task: pieces.put_nowait(None))
            self._task.add_done_callback(lambda _task: self._steering.end())
        return self._pieces, self._task
