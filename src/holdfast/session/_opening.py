"""Opening a session: lease, torn tail, damage, and the events before the first one."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from holdfast.errors import Damaged, Fenced, NotFound, TooLarge, UsageError
from holdfast.model import FORMAT_VERSION, VERSION, Limits, Notice, Position, check_id
from holdfast.replay import Fold, State, needs_interruption
from holdfast.session._agent_documents import AgentMemory
from holdfast.session._clock import Clock, now_ms, random_hex
from holdfast.session._loader import Loaded, find_loss, is_alive, load
from holdfast.session._writer import Draft, Writer
from holdfast.storage import Store, check_clash, check_made, is_at_work

if TYPE_CHECKING:
    from holdfast.model import Gap
    from holdfast.security import Sealer
    from holdfast.session._redaction import SessionRedaction
    from holdfast.session._seal import SessionSeal

# Asking a store on this machine costs microseconds, a remote one a round trip or more; but a server that reports the
# release ends the pause at once.
_NEAR_S = (0.001, 0.025)
_FAR_S = (0.02, 0.25)


def check_wait(wait_ms: Any) -> None:
    """Raise UsageError unless the value is a time to wait: a number of milliseconds, 0 for not at all."""
    is_number = isinstance(wait_ms, (int, float)) and not isinstance(wait_ms, bool)
    if not is_number or not math.isfinite(wait_ms) or wait_ms < 0:
        raise UsageError(
            f"wait_ms is a number of milliseconds, and not {wait_ms!r}",
            remedy="Give how long to wait at the most, such as wait_ms=10_000; 0 does not wait.",
        )


class Patience:
    """A wait for a session, in growing steps. Any thread may end it."""

    def __init__(self, store: Store, key: str, wait_ms: float) -> None:
        check_wait(wait_ms)
        self._store = store
        self._key = key
        self._until = time.monotonic() + wait_ms / 1000
        self._step, self._longest = _FAR_S if store.capabilities.defers else _NEAR_S

    def pause(self) -> bool:
        """Wait a little, or until the store reports a release; return False when the time is over."""
        left = self._until - time.monotonic()
        if left <= 0:
            return False
        self._store.wait(self._key, min(self._step, left))
        self._step = min(2 * self._step, self._longest)
        return True

    def stop(self) -> None:
        """Wait no longer than the current step."""
        self._until = 0.0


Resume = Literal["auto", "always", "never"]
"""The choice between resuming an existing session and creating a new one."""
Repair = Literal["raise", "auto"]
"""The handling of a damaged log at opening."""
Durability = Literal["barriers", "always", "os"]
"""When recorded events are forced onto the medium."""
_CHOICES = {"durability": get_args(Durability), "repair": get_args(Repair), "resume": get_args(Resume)}
_SALT_BYTES = 16
_ESCAPED_BYTES_MAX = 6  # bytes of JSON for one byte
_LEASE_MS_MIN = 100
_NO_AGENT = "default"  # the memory that sessions without an agent share


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a session. Times are milliseconds; 0 switches a timer off."""

    title: str | None = None
    agent_id: str | None = None
    agent_type: str | None = None
    provider_type: str | None = None
    resume: Resume = "auto"
    repair: Repair = "raise"
    durability: Durability = "barriers"
    staged: bool = False
    seal: bool | None = None
    """True to encrypt a new session; None to use the store's settings."""
    read_only: bool = False
    autosave_ms: int = 30_000
    snapshot_ms: int = 300_000
    lease_ms: int = 30_000
    """On stores with expiring leases: how long after its last sign of life a writer may be replaced."""
    wait_ms: float = 0
    """The time to wait for the write lease while another process holds it."""
    limits: Limits = Limits()
    clock: Clock = now_ms
    memory: Store | None = None
    """The store of agents' lasting memory; None for the store that has the session."""
    redactor: Any = None
    """Replaces secrets in everything that is recorded; None records it unchanged."""

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            if (value := getattr(self, name)) not in allowed:
                raise UsageError(f"{name} {value!r} is none of {', '.join(allowed)}")
        if self.memory is not None and not isinstance(self.memory, Store):
            raise UsageError(
                f"memory is a store, not {type(self.memory).__name__}",
                remedy="An object of six methods becomes one: holdfast.compat.DocumentStore(…).",
            )
        if type(self.wait_ms) is not int or self.wait_ms < 0:
            check_wait(self.wait_ms)
        if self.lease_ms < _LEASE_MS_MIN:
            raise UsageError(f"lease_ms must be at least {_LEASE_MS_MIN}, not {self.lease_ms}")
        if self.agent_id is not None:
            check_id(self.agent_id, what="agent id")
        if self.title is not None:
            check_title(self.title, self.limits)


def check_title(title: Any, limits: Limits) -> None:
    """Raise UsageError for a title that is not text, TooLarge for one that would not fit into a line."""
    if title is None:
        return
    if not isinstance(title, str):
        raise UsageError("a title is a text")
    size = len(title.encode("utf-8", "replace"))
    if size > limits.blob_bytes_min // _ESCAPED_BYTES_MAX:
        # A title that became a blob would be lost to lists.
        raise TooLarge(f"the title has {size:,} bytes", limit="blob_bytes_min", needed_bytes=size)


class Opening:
    """One opening of one session: what it loaded and what it holds."""

    def __init__(
        self, store: Store, session_id: str, options: Options, lost_whole: Callable[[], Gap | None] = lambda: None
    ) -> None:
        """``lost_whole`` returns what others saw in a log that has no event any more."""
        self.session_id = session_id
        self._lost_whole = lost_whole
        self.key = f"sessions/{session_id}"
        self.options = options
        self.read_only = options.read_only
        self.log = store.log(self.key)
        self.documents = store.documents(self.key)
        self.opened_at = options.clock()
        self.begun = False
        """True once this opening has been recorded."""
        self.goes_on = False
        """True if the session was opened again before its closing had ended."""
        self.epoch = 0
        self.repaired: list[Gap] = []
        """The losses, if the log was damaged and has been repaired."""
        self.tell: Callable[[Notice], None] | None = None
        """Called when the right to write is taken or released."""
        self._store = store
        self._seal: SessionSeal | None = None
        self._lease = store.lease(self.key)
        self.held = self._was_there = False
        """True while the write lease is held; and True if the session existed."""

    def open(self) -> None:
        """Take the lease if wanted, and read the log; after an exception, at any moment, the caller releases it."""
        store, options = self._store, self.options
        try:
            if options.wait_ms and not self.read_only:
                # Also for a session that does not exist yet: a caller who waits wants to continue without being refused
                # later.
                self._hold()
            with store.kept_open(self.key) as exists:
                self._was_there = exists
                if not exists or options.resume == "never":
                    self._check_policy(exists=exists)
                if store.has_keys or options.seal:
                    from holdfast.session._seal import SessionSeal

                    self._seal = SessionSeal(store, self.key, wanted=options.seal, exists=exists)
                # Before the log is read: under the lease it does not change any more.
                if exists and not self.read_only and not self.held:
                    self._hold()
                self.loaded = self._load(begun=exists)
        except BaseException:
            self.release()
            raise

    def taken(self) -> Notice:
        return Notice("lease_acquired", self.session_id, {"epoch": self.epoch})

    def agent_memory(self) -> AgentMemory:
        """Return the lasting memory of the session's agent; all sessions without one share one."""
        agent = self.options.agent_id or self.loaded.fold.state.agent_id or _NO_AGENT
        store = self.options.memory or self._store
        return AgentMemory(store.documents(f"agents/{agent}"), self.options.clock, read_only=self.read_only)

    def take_over(self) -> None:
        """Take the lease and cut off the torn tail. Events that another process recorded meanwhile are loaded."""
        if not self.held:
            # The lease of a session that did not exist when it was opened.
            check_made(self._store, self.key)
            try:
                self._hold()
                if self.log.size() != self.loaded.position.offset + self.loaded.torn:
                    self._check_policy(exists=True)
                    self.loaded = self._load(begun=True)
            except BaseException:
                # Without the lease the next append checks again; with it, it would write blindly.
                self.release()
                raise
        self._cut_torn()

    def take_over_at(self, position: Position) -> None:
        """Take the lease for the staged events; Fenced if the log has moved on without it."""
        if not self.held:
            self._hold()
            if self.log.size() != position.offset:
                self.release()
                what = f"session {self.session_id} was written by someone else while this was staged"
                raise Fenced(what, session_id=self.session_id)
        if self._seal is not None:
            self._seal.hand_over()
        self._cut_torn()

    def begin_sealing(self, writer: Writer) -> None:
        """Start sealing before the first event of this opening, if configured."""
        if self._seal is not None:
            self._seal.begin(self.log, writer, staged=self.options.staged)

    def redaction(self) -> SessionRedaction:
        """Return the redaction of the session, and remove secrets from the options it was opened with."""
        from holdfast.session._redaction import SessionRedaction

        options = self.options
        if not self._was_there:
            options.redactor.check_name(self.session_id, "the id of a session")
        if options.agent_id is not None:
            options.redactor.check_name(options.agent_id, "the id of an agent")
        found = SessionRedaction(self.session_id, options.redactor, options.limits)
        self.options = found.without_secrets(options)
        return found

    @property
    def is_recorded(self) -> bool:
        """True if the loaded log has this opening, although the write of it was interrupted."""
        last = self.loaded.fold.state.last_open
        ours = last is not None and not last.closed and is_at_work(last.pid, last.host) and last.pid == os.getpid()
        return ours and last is not None and self.held and last.epoch == self.epoch

    def go_on(self) -> None:
        """Keep the lease: the session was opened again while it was being closed."""
        self.goes_on = self.begun or self.goes_on
        self.begun = False

    def preamble(self, state: State) -> list[Draft]:
        """Return the events that precede the first event of this opening."""
        drafts = []
        # A log that was lost completely and repaired begins with a note of that.
        begun_anew = state.log is None and state.generation > 0 and not state.message_count
        if state.event_count == 0 or (begun_anew and state.last_open is None):
            start = {
                "format": FORMAT_VERSION,
                "log": random_hex(_SALT_BYTES),
                "generation": state.generation,
                "agent_id": self.options.agent_id,
                "agent_type": self.options.agent_type,
                "provider_type": self.options.provider_type,
            }
            drafts.append(Draft("session_start", {name: value for name, value in start.items() if value is not None}))
        sealer = None if self._seal is None else self._seal.sealer
        opened = {
            "format": FORMAT_VERSION,
            "epoch": self.epoch,
            "version": VERSION,
            "pid": os.getpid(),
            "host": os.uname().nodename,
            # The salt of this opening's seal, or a number that is used only once.
            "salt": random_hex(_SALT_BYTES) if sealer is None else sealer.salt.hex(),
        }
        drafts.append(Draft("opened", opened))
        # Recorded by the next writer, since the interrupted one could not.
        if (interruption := needs_interruption(state)) is not None:
            drafts.append(Draft("interrupted", interruption))
        if self.options.title not in (None, state.title) and not self.goes_on:
            drafts.append(Draft("title", {"title": self.options.title}))
        return drafts

    def release(self) -> None:
        """Release everything."""
        # The log first: once the lease is gone, another may be writing to it already.
        self.log.close()
        self._lease.release()
        was_held, self.held = self.held, False
        # A folder that was created for the lease alone would look like a session in lists.
        if was_held and not (self._was_there or self.begun or self.goes_on):
            self._store.forget(self.key)
        if was_held and self.tell is not None:
            self.tell(Notice("lease_released", self.session_id, {"epoch": self.epoch}))

    def _check_policy(self, *, exists: bool) -> None:
        if exists and self.options.resume == "never":
            raise UsageError(
                f"session {self.session_id} exists, and resume='never' was asked for",
                remedy="Choose another id, or leave the id out to get a new one.",
                session_id=self.session_id,
            )
        if not exists:
            if self.options.resume == "always" or self.read_only:
                raise NotFound(f"there is no session {self.session_id}", session_id=self.session_id)
            check_clash(self._store, self.key)

    def _hold(self) -> None:
        self.epoch = self._lease.acquire(self.session_id, self.options.lease_ms)
        self.held = True
        if self.tell is not None:
            self.tell(self.taken())

    def _cut_torn(self) -> None:
        if self.loaded.torn:
            self.log.cut(self.loaded.position.offset, self.epoch)
            self.loaded.torn = 0

    def _load(self, *, begun: bool) -> Loaded:
        mending = self.options.repair == "auto"
        # With the lease it can be asked later: no other process appends meanwhile.
        known = self._lease.settled if self.held else None
        settled = self.log.settled() if begun and known is None else 0
        tolerant = mending or self.read_only
        # A log that does not exist is not asked: whether it appeared meanwhile is seen with the lease.
        if begun:
            loaded = load(self.log, self.documents, limits=self.options.limits, tolerant=tolerant, begun=True)
        else:
            loaded = Loaded(Fold())
        if loaded.torn and not (loaded.position.seq or tolerant):
            # Raise Damaged instead of setting aside, as a torn write, what somebody else wrote.
            from holdfast.session._branches import is_foreign

            if is_foreign(self.log):
                raise Damaged(
                    f"no line of session {self.session_id} can be read: they have numbers, but no checksums",
                    remedy="Take `seq` out of its lines, and it opens as a plain log; nothing of it was changed.",
                    session_id=self.session_id,
                )
        loss = None
        if known and known > loaded.position.offset:
            settled = self.log.settled()
        if not loaded.gaps and (settled or loaded.torn or loaded.ahead or not loaded.position.seq):
            loss = find_loss(self.log, loaded.position, loaded.torn, settled=settled, ahead=loaded.ahead)
            if loss is None and begun and not loaded.position.seq:
                loss = self._lost_whole()
            loaded.gaps = [] if loss is None else [loss]
        if loaded.gaps and not self.read_only:
            if not mending:
                gap = loaded.gaps[0]
                if gap is loss:
                    what = f"{gap.size:,} bytes from byte {gap.offset:,} on are lost"
                    left = f"{gap.first_seq:,} events are left" if gap.first_seq else "no event is left"
                else:
                    what = f"it is damaged at byte {gap.offset:,} (event {gap.first_seq})"
                    left = "everything else is readable"
                raise Damaged(
                    f"session {self.session_id}: {what}; {left}", session_id=self.session_id, seq=gap.first_seq
                )
            loaded = self._repaired(loss)
        # With the lease it is known that the writer before is gone.
        state = loaded.fold.state
        state.alive = not loaded.position.seq or (self.read_only and is_alive(state))
        return loaded

    def _repaired(self, loss: Gap | None) -> Loaded:
        """Rewrite the log without what is damaged, and load it."""
        from holdfast.session._repair import repair_log

        def sealer() -> Sealer | None:
            from holdfast.session._seal import rewriter_for

            return rewriter_for(self._store, self.key, self.log, self.epoch)

        self.repaired = repair_log(self.log, self.documents, self.epoch, sealer=sealer, lost_whole=lambda: loss)
        return load(self.log, self.documents, limits=self.options.limits, tolerant=True)
