"""Durable steps: work that a session does once, whatever happens to the process that does it.

A step is recorded twice. ``step`` is its intent, on the medium before the function is called;
``step_result`` its end, appended after it. Between the two it is unknown whether the function
took effect, so a step that began and did not end is reported as unknown and runs again only if
its caller allows it. A step is identified by its key, never by its place in the program.
"""

# Loaded late: a session without steps need not load this.

from __future__ import annotations

import functools
import inspect
import itertools
import re
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from contextvars import ContextVar
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, overload

import msgspec

from holdfast.errors import (
    DataError,
    HoldfastError,
    OutcomeUnknown,
    ResultNotStored,
    SecretFound,
    StepFailed,
    UsageError,
)
from holdfast.replay import StepState, read_recorded
from holdfast.session._branches import EventFinder
from holdfast.session._lifetime import message_of, shielded
from holdfast.session._work import (
    RERUN,
    Retry,
    Work,
    as_returned,
    bound,
    classify_error,
    encode_arguments,
    is_async,
    is_lazy,
    is_timeout,
    is_undone,
    name_of,
    plain_object,
)
from holdfast.session.reader import blob_loader
from holdfast.storage import new_outcome

if TYPE_CHECKING:
    from concurrent.futures import Future

    from holdfast.model import Event
    from holdfast.session._journal import Journal
    from holdfast.session.session import Session

F = TypeVar("F", bound=Work)
Unknown = Literal["raise", "rerun"] | Callable[[OutcomeUnknown], Any]
"""The handling of a step that began and did not end: raise, run it again, or call this function."""

_KEY_CHARS_MAX = 1024
_find_unwritable = re.compile("[\0\ud800-\udfff]").search


class _Act(NamedTuple):
    """Something the protocol has to wait for, in both forms."""

    wait: Callable[[], Any]
    await_: Callable[[], Awaitable[Any]]


class _Frame:
    """The step that is running here: the call of its function, and the parent of steps that are called inside it."""

    __slots__ = ("counts", "key", "outer", "session", "step")

    def __init__(self, session: Session, step: StepCall) -> None:
        self.session, self.key, self.step, self.outer = session, step.key, step, _running.get()
        self.counts: dict[str, itertools.count[int]] = {}  # of calls within it, by name and arguments

    def wait(self) -> Any:
        """Call the function."""
        token = _running.set(self)
        try:
            return self.step.fn(*self.step.args, **self.step.kwargs)
        finally:
            _running.reset(token)

    async def await_(self) -> Any:
        """Call the function, in a thread if it is not async."""
        if not is_async(self.step.fn):
            import asyncio

            try:
                return await _settled(await asyncio.to_thread(self.wait))
            except RuntimeError as error:  # Python's own wait for a thread raises this instead of an interrupt
                raise (error.__context__ if isinstance(error.__context__, KeyboardInterrupt) else error) from None
        token = _running.set(self)
        try:
            return await self.step.fn(*self.step.args, **self.step.kwargs)
        finally:
            _running.reset(token)


Protocol = Generator[_Act | _Frame, Any, Any]

_running: ContextVar[_Frame | None] = ContextVar("holdfast_step", default=None)


class _Stay:
    """A claim of this process on a step; others may wait for its end."""

    __slots__ = ("waited_for",)

    def __init__(self) -> None:
        self.waited_for: Future[None] | None = None


class StepCall(NamedTuple):
    """One call of a function as a step, with the caller's options."""

    key: str
    fn: Work
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    name: str
    unknown: Unknown
    retry: Retry | None
    arguments: bytes
    """The arguments, or what represents them, as plain data."""
    call: str | None = None
    parent: str | None = None
    """The step that it belongs to, if that is not the one inside which it is called."""
    renewable: bool = False
    """True if a call after a failure is another attempt."""

    def digest(self, salt: str) -> str:
        """Return a digest that identifies the arguments without revealing them."""
        return blake2b(self.arguments, key=salt.encode()[:64], digest_size=12).hexdigest()


class Steps:
    """The steps of one session, and which of them run in this process."""

    def __init__(self, session: Session, journal: Journal) -> None:
        self._session, self._journal = session, journal
        self._guard = threading.Lock()
        self._busy: dict[str, _Stay] = {}
        self._uncalled: dict[str, int] = {}  # attempts that began here, but whose function was not called
        self._finder: EventFinder | None = None
        self._load = blob_loader(journal.opening.documents)
        self._modules: dict[str, str] = {}  # of functions that are known by their names
        self._salt = ""  # of the digests; from the first event, and the same ever after
        # A result that outlives a killed process goes to the medium with the next flush.
        self._flushes_results = not session.store.capabilities.survives_kill
        self._newest: Event | None = None  # the result recorded last, for callers that wait for it

    @staticmethod
    def check(
        key: str,
        fn: Work,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        unknown: Unknown,
        retry: Retry | None,
        name: str | None = None,
        covered: Any = None,
    ) -> StepCall:
        """Check the options of a call. Raises UsageError before anything is recorded."""
        if not isinstance(key, str) or not key or len(key) > _KEY_CHARS_MAX:
            raise UsageError(f"the key of a step is a text of 1 to {_KEY_CHARS_MAX} characters")
        if _find_unwritable(key):
            raise UsageError(f"the key of a step holds a character that cannot be recorded: {key!r}")
        if not callable(fn):
            raise UsageError(f"a step is a function, not {type(fn).__name__}")
        if is_lazy(fn):
            raise UsageError(
                f"{name_of(fn)} is a generator: to call it does nothing yet",
                remedy="Give a function that does the work and returns its result as a list.",
            )
        if not callable(unknown) and unknown not in ("raise", "rerun"):
            raise UsageError(f'unknown is "raise", "rerun" or a function, not {unknown!r}')
        if retry is not None and not isinstance(retry, Retry):
            raise UsageError(f"retry is a Retry, not {type(retry).__name__}")
        name = name or name_of(fn)
        given = bound(fn, args, kwargs) if covered is None else covered
        return StepCall(key, fn, args, kwargs, name, unknown, retry, encode_arguments(name, given))

    def check_name(self, name: str, fn: Work) -> None:
        """Raise UsageError if a function cannot name a step: it has no name, or another function has the same."""
        module = getattr(fn, "__module__", None) or ""
        known = self._modules.setdefault(name, module)
        if name.endswith("<lambda>") or known != module:
            what = "a lambda" if name.endswith("<lambda>") else f"{name} of {known} and {name} of {module}"
            raise UsageError(f"{what} cannot be told from others", remedy="Give it a name of its own: step(name=…).")

    def decorate(self, fn: Work | None, **options: Any) -> Any:
        """Make a function a step of this session; without one, return a decorator."""
        return durable_function(lambda: self._session, fn, **options)

    def begin(self) -> None:
        """Take the session for writing; UsageError if it is saved only at its end."""
        if self._journal.options.staged:
            raise UsageError(
                "a staged session is written when it is saved: no step of it is safe before",
                remedy="Open the session without staging.",
            )
        self._journal.begin()

    def run(self, step: StepCall) -> Any:
        """Run a step that was checked."""
        if is_async(step.fn):
            raise UsageError(
                f"{step.name} is async, and once would only make a coroutine of it", remedy="Use `await s.aonce(…)`."
            )
        protocol = self._protocol(step)
        try:
            act = next(protocol)
            while True:
                value: Any = None
                failure: BaseException | None = None
                try:
                    value = act.wait()
                except BaseException as error:  # noqa: BLE001 - the protocol says what it means
                    failure = error
                act = protocol.send(value) if failure is None else protocol.throw(failure)
        except StopIteration as end:
            return end.value
        except RuntimeError as error:
            if isinstance(error.__cause__, StopIteration) and str(error) == "generator raised StopIteration":
                raise error.__cause__ from None  # the function raised it, and the protocol is a generator
            raise

    async def arun(self, step: StepCall) -> Any:
        """Run a step that was checked, without blocking the event loop."""
        protocol = self._protocol(step)
        try:
            act = next(protocol)
            while True:
                value, failure = None, None
                try:
                    value = await act.await_()
                except BaseException as error:  # noqa: BLE001 - the protocol says what it means
                    failure = error
                act = protocol.send(value) if failure is None else protocol.throw(failure)
        except StopIteration as end:
            return end.value

    def _protocol(self, step: StepCall) -> Protocol:
        """Run all of a step but the waiting, which differs between sync and async callers."""
        known = self._journal.live_state.steps.get(step.key)
        if known is None or known.status != "done":
            mine = _Stay()
            try:
                while (end := self._enter(step.key, mine)) is not None:
                    yield _Act(end.result, functools.partial(shielded, end))
                # Taken first: another process may have done the step since this one opened the session, and only the
                # holder knows the newest state.
                self.begin()
                known = yield from self._settle(step, self._journal.live_state.steps.get(step.key))
            finally:
                try:
                    self._leave(step.key, mine)
                finally:
                    self._leave(step.key, mine)  # in case the first was interrupted
        else:
            self._check_same(step, known)
        if known.unstored is not None:
            raise ResultNotStored(
                f"step {step.key} is done, but its result could not be recorded: {known.unstored}",
                key=step.key,
                name=known.name,
                session_id=self._session.id,
            )
        if not known.is_long:
            return as_returned(read_recorded(known.raw, self._load), step.fn)
        return as_returned(self._find(known.result_seq).data.get("value"), step.fn)

    def _find(self, seq: int) -> Event:
        log = self._journal.writer.log
        if self._finder is None or self._finder.log is not log:
            self._finder = EventFinder(log, self._journal.opening.documents)
        if self._newest is not None and self._newest.seq == seq:
            self._finder.keep(self._newest)
        return self._finder.find(seq)

    def _flush(self) -> _Act:
        return _Act(self._session.barrier, self._session.abarrier)

    def _settle(self, step: StepCall, known: StepState | None) -> Generator[_Act | _Frame, Any, StepState]:
        """Bring a step to its end: done, or an exception with the reason."""
        attempt = 1
        if known is not None:
            self._check_same(step, known)
            if known.status == "done":
                return known
            if known.status == "failed":
                if not step.renewable:
                    yield from self._wait_to_retry(step, known)
            # If the disk failed before the call, this process knows that nothing happened.
            elif self._uncalled.get(step.key) != known.attempt and (yield from self._resolve(step, known)):
                return self._journal.live_state.steps[step.key]
            attempt = known.attempt + 1
        while True:
            self._begin(step, attempt)
            self._uncalled[step.key] = attempt
            yield self._flush()
            self._uncalled.pop(step.key, None)
            try:
                value = self._ended(step, (yield _Frame(self._session, step)))
            except BaseException as error:
                wait_s = self._fail(step, attempt, error)
                if self._flushes_results and self._journal.live_state.steps[step.key].status == "failed":
                    yield self._flush()  # with the time of the next attempt
                if wait_s is None:
                    raise
                yield _sleep(wait_s)
                attempt += 1
            else:
                self._done(step, attempt, value)
                if self._flushes_results:
                    yield self._flush()
                return self._journal.live_state.steps[step.key]

    def _wait_to_retry(self, step: StepCall, known: StepState) -> Protocol:
        retry = step.retry
        if retry is None or retry.attempts <= known.attempt or not retry.takes(known.kinds):
            raise StepFailed(
                f"step {step.key} failed when it ran: {known.error}",
                key=step.key,
                name=known.name,
                error=known.error,
                attempt=known.attempt,
                session_id=self._session.id,
            )
        if known.retry_at:
            left_s = known.retry_at / 1000 - time.time()
            # Never longer than the wait itself: the clock may have been set back meanwhile.
            yield _sleep(max(0.0, min(left_s, retry.wait_s)))

    def _resolve(self, step: StepCall, known: StepState) -> Generator[_Act, Any, bool]:
        """Decide about a step that began and did not end; return whether its result was found."""
        if step.unknown == "rerun":
            return False
        steps = self._journal.live_state.steps
        inner = [name for name, one in steps.items() if one.parent == step.key and one.status == "done"]
        of_these = f"; done inside of it: {', '.join(inner)}" if inner else ""
        error = OutcomeUnknown(
            f"step {step.key} began and was cut short: whether it took effect is unknown{of_these}",
            key=step.key,
            name=known.name,
            attempt=known.attempt,
            begun_at=known.begun_at,
            idempotency_key=self.idempotency_key(step.key),
            done_inside=inner or None,
            session_id=self._session.id,
        )
        if not callable(step.unknown):
            raise error
        ask = step.unknown
        found = yield _Act(lambda: ask(error), lambda: _settled(ask(error)))
        if found is RERUN:
            return False
        self._done(step, known.attempt, found, found=True)
        if self._flushes_results:
            yield self._flush()
        return True

    def _enter(self, key: str, mine: _Stay) -> Future[None] | None:
        """Claim a step for this call; if it runs in this process already, return the end to wait for."""
        frame = _running.get()
        while frame is not None:
            if frame.session is self._session and frame.key == key:
                raise UsageError(f"step {key} is called inside of itself", key=key)
            frame = frame.outer
        with self._guard:
            busy = self._busy.setdefault(key, mine)
            if busy is not mine:
                busy.waited_for = busy.waited_for or new_outcome()
            return busy.waited_for

    def _leave(self, key: str, mine: _Stay) -> None:
        if self._busy.get(key) is mine:
            with self._guard:
                self._busy.pop(key, None)
        if mine.waited_for is not None and not mine.waited_for.done():
            mine.waited_for.set_result(None)

    def _begin(self, step: StepCall, attempt: int) -> None:
        data = {"step": step.key, "name": step.name, "digest": self._digest(step), "attempt": attempt}
        frame = _running.get()
        parent = step.parent or (frame.key if frame is not None and frame.session is self._session else None)
        if parent is not None:
            data["parent"] = parent
        if step.call is not None:
            data["call"] = step.call
        redactor = self._journal.options.redactor
        if redactor is not None and redactor.data("step", {"step": step.key}).data["step"] != step.key:
            # Under another name it would never be found again, and be done twice.
            raise UsageError(
                "the key of a step holds a secret, and would be recorded without it",
                remedy="Choose a key that holds no secret.",
            )
        self._journal.record("step", data)

    def _ended(self, step: StepCall, value: Any) -> Any:
        """Return a result.

        Raises OutcomeUnknown for one that has to be run first: the function did only part of the work.
        """
        if not is_undone(value):
            return value
        if inspect.iscoroutine(value):
            value.close()
        raise OutcomeUnknown(
            f"step {step.key} gave a {type(value).__name__} in the place of a result, which nobody runs",
            remedy="Give `s.aonce` what is async, and a list in the place of a generator.",
            key=step.key,
            name=step.name,
            session_id=self._session.id,
        )

    def _fail(self, step: StepCall, attempt: int, error: BaseException) -> float | None:
        """Record how an attempt ended; return the seconds to wait, or None if it was the last one."""
        retry, (kinds, is_given_up) = step.retry, classify_error(error)
        again = retry is not None and attempt < retry.attempts and retry.takes(kinds)
        data: dict[str, Any] = {"step": step.key, "attempt": attempt, "ok": False}
        wait_s = None
        # A request may have left before its answer was abandoned: that is not a failure.
        if is_given_up or (is_timeout(kinds) and not again):
            data["cancelled"] = True
        elif again and retry is not None:
            wait_s = float(retry.wait_s)
            data["retry_at"] = int((time.time() + wait_s) * 1000)
        try:
            self._journal.record("step_result", data | {"error": {"message": message_of(error), "kinds": kinds}})
        except SecretFound as secret:
            self._journal.record("step_result", data | {"error": {"message": secret.message, "kinds": kinds}})
        return wait_s

    def _done(self, step: StepCall, attempt: int, value: Any, *, found: bool = False) -> None:
        data: dict[str, Any] = {"step": step.key, "attempt": attempt, "ok": True}
        if found:
            data["found"] = True
        # The function has run: a result that cannot be kept must not hide that.
        try:
            kept = msgspec.to_builtins(value, str_keys=True, enc_hook=plain_object)
        except Exception as error:  # noqa: BLE001 - what the result's own code raises may be anything
            data["unstored"] = message_of(error)
        else:
            data["value"] = kept
        try:
            self._newest = self._journal.record("step_result", data)
        except (DataError, SecretFound, ValueError, RecursionError) as error:
            data.pop("value", None)
            data["unstored"] = error.message if isinstance(error, HoldfastError) else message_of(error)
            self._journal.record("step_result", data)

    def idempotency_key(self, key: str) -> str:
        """Return a step's key for other services: the same at each attempt, and in a fork made of the session."""
        state = self._journal.live_state
        known = state.steps.get(key)
        log = (known.log if known is not None else None) or state.log or ""
        return blake2b(key.encode(), key=log.encode()[:64], digest_size=16).hexdigest()

    def _check_same(self, step: StepCall, known: StepState) -> None:
        if known.digest != self._digest(step):
            raise UsageError(
                f"step {step.key} was recorded with other arguments",
                remedy="Give other work a key of its own.",
                key=step.key,
                session_id=self._session.id,
            )

    def _digest(self, step: StepCall) -> str:
        self._salt = self._salt or self._journal.live_state.first_log or ""
        return step.digest(self._salt)


def _sleep(seconds: float) -> _Act:
    async def asleep() -> None:
        import asyncio

        await asyncio.sleep(seconds)

    return _Act(lambda: time.sleep(seconds), asleep)


async def _settled(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def durable_function(
    find_session: Callable[[], Session],
    fn: Work | None = None,
    *,
    key: str | Callable[..., str] | None = None,
    name: str | None = None,
    unknown: Unknown = "raise",
    retry: Retry | None = None,
) -> Any:
    """Return a function that is a step of its session, identified by name and arguments; without one, a decorator."""
    if fn is None:
        return functools.partial(durable_function, find_session, key=key, name=name, unknown=unknown, retry=retry)
    called = name or name_of(fn)

    def planned(session: Session, args: tuple[Any, ...], kwargs: dict[str, Any]) -> StepCall:
        covered = key(*args, **kwargs) if callable(key) else None
        mark = called if key is None else f"{called}:{covered if callable(key) else key}"
        step = Steps.check(mark, fn, args, kwargs, unknown=unknown, retry=retry, name=called, covered=covered)
        if name is None:
            session.steps.check_name(called, fn)
        if key is not None:
            return step
        if session.seq < 0:
            session.steps.begin()  # the digest is keyed with a salt in the first event
        mark = f"{called}:{step.digest(session.live_state.first_log or '')}"
        frame = _running.get()
        if frame is None or frame.session is not session:
            return step._replace(key=mark)
        number = next(frame.counts.setdefault(mark, itertools.count(1)))  # also correct where threads call at once
        return step._replace(key=f"{frame.key}/{mark}#{number}")

    if is_async(fn):

        @functools.wraps(fn)
        async def astep(*args: Any, **kwargs: Any) -> Any:
            session = find_session()
            return await session.steps.arun(planned(session, args, kwargs))

        return astep

    @functools.wraps(fn)
    def step(*args: Any, **kwargs: Any) -> Any:
        session = find_session()
        return session.steps.run(planned(session, args, kwargs))

    return step


def current_session() -> Session:
    """Return the session whose step runs here, or whose ``with`` block this is."""
    from holdfast.session.session import open_block

    frame, block = _running.get(), open_block()
    if frame is not None:
        return frame.session
    if block is None:
        raise UsageError(
            "a step belongs to a session, and none is open here",
            remedy="Call it inside `with hf.session(…):`, or decorate it with `@s.step`.",
        )
    return block[0]


def idempotency_key() -> str:
    """Return an idempotency key for the step that runs here, the same at each attempt.

    Pass it to the service that the step calls, so that it can recognise a repeat.
    """
    frame = _running.get()
    if frame is None:
        raise UsageError("no step runs here", remedy="Ask for the key inside of the function given to `once`.")
    return frame.session.steps.idempotency_key(frame.key)


@overload
def step(fn: F) -> F: ...


@overload
def step(
    *,
    key: str | Callable[..., str] | None = None,
    name: str | None = None,
    unknown: Unknown = "raise",
    retry: Retry | None = None,
) -> Callable[[F], F]: ...


def step(fn: Any = None, **options: Any) -> Any:
    """Make a function a durable step of the session in whose ``with`` block it is called.

    It is identified by its name and arguments: called again, in any process, it returns its first
    result. ``key``, a text or a function of the arguments, makes it another step.
    """
    return durable_function(current_session, fn, **options)
