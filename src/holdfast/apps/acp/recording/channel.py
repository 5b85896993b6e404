"""One session between an editor and its agent: what is recorded, and in what order."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from holdfast.apps.acp.handover import Attached, ReplayedWords, Waits, interruption_note, undone
from holdfast.apps.acp.recording.recorder import Notes, OpenCall, Taken
from holdfast.apps.acp.recording.values import clean, mask_servers
from holdfast.errors import HoldfastError, InvalidData, TooLarge
from holdfast.library import Holdfast
from holdfast.model import Event, Limits
from holdfast.replay import needs_interruption
from holdfast.session import Resume, Session

Draft = tuple[str, dict[str, Any]]
Said = tuple[int, int]
Work = Callable[[], Awaitable[None]]

_GIB = 1024**3
# The agent decides how long its words are, and a recorder that refuses them loses them.
_LONG = {"message_bytes_max": _GIB, "blob_bytes_max": _GIB, "session_bytes_max": 64 * _GIB}
# After this long a pause a word has ended, and readers should see it. Only words that a secret may begin with are held
# back at all, and a stream that stalls in one of those continues after it.
_PAUSE_S = 10.0
_HEAD_BYTES = 256
_TURNING = frozenset({"link", "forked", "merged", "imported", "user", "closed"})


def open_session(hf: Holdfast, id: str | None, *, resume: Resume) -> Session:
    """Return a session for frames: as long as they are, damage repaired. Raises as ``hf.session``."""
    return hf.session(id, resume=resume, repair="auto", provider_type="acp", limits=long_limits(hf.limits))


def long_limits(limits: Limits) -> Limits:
    """Return the limits with room for whatever an agent says."""
    found: Limits = msgspec.structs.replace(limits, **_LONG)
    return found


class Ending:
    """The participants at the end of a session, derived from its events in order."""

    def __init__(self) -> None:
        self._link: tuple[Any, Any] = (None, None)
        self.was_left_open = False  # whether nobody closed it after its last prompt; then its agent may be dead, too

    @classmethod
    def of(cls, hf: Holdfast, id: str) -> Ending:
        """Return the ending of a session: as little of its log is read as tells it, from the end on."""
        found: list[Event] = []
        is_known = is_ended = False
        for event in hf.events(id, types=_TURNING, reverse=True):
            found.append(event)
            is_known = is_known or _names_agent(event)
            is_ended = is_ended or event.type in ("user", "closed")
            if is_known and is_ended:
                break
        ending = cls()
        for event in reversed(found):
            ending.take(event)
        return ending

    def take(self, event: Event) -> None:
        """Take the next event, of any type."""
        if event.type not in _TURNING:
            return
        if event.type in ("user", "closed"):
            self.was_left_open = event.type == "user"
        if _names_agent(event):
            data = _data_of(event) if event.type == "link" else {}
            self._link = (data.get("agent"), data.get("id"))

    def known_id(self, agent: str) -> str | None:
        """Return the agent's own id of the session, if that agent was there until the end.

        None if another one went on with it, or if it is a branch: then the agent's own session is
        another conversation.
        """
        name, id = self._link
        return id if name == agent and isinstance(id, str) else None


def _names_agent(event: Event) -> bool:
    """Return whether an event says which agent has the session from now on, or that none does."""
    if event.type == "link":
        return _data_of(event).get("kind") == "acp"
    return event.type != "closed" and _data_of(event).get("direction") != "client"


def _data_of(event: Event) -> dict[str, Any]:
    try:
        return event.data
    except InvalidData:  # in a log from elsewhere: this proxy did not record it
        return {}


class Pause:
    """Does some work once nothing was said for a while."""

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._timer: asyncio.TimerHandle | None = None
        self._working: asyncio.Task[None] | None = None

    def begin(self, *, wanted: bool = True) -> None:
        """Wait from now on, and no more for a pause that was waited for before."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(_PAUSE_S, self._end) if wanted else None

    def _end(self) -> None:
        self._working = asyncio.ensure_future(self._work())

    def close(self) -> None:
        """Wait for nothing any more, and leave off what is being done."""
        for waiting in (self._timer, self._working):
            if waiting is not None:
                waiting.cancel()


class Channel:
    """One session that is open on both sides."""

    def __init__(self, hf: Holdfast, session: Session, agent: str, params: dict[str, Any]) -> None:
        self._hf = hf
        self.session = session
        self.id = session.id
        self.params = params  # the working directory and the servers that the editor named, as the agent wants them
        self.notes = Notes(agent, next_seq=lambda: session.seq + 1 + len(self._held), limits=session.limits)
        self._agent_id: str | None = None
        self._own_mark = msgspec.json.encode(self.id)
        self._agent_mark = b"\0"
        self.is_looked_at = not session.restored
        """True once the participants at the end of the earlier record are known."""
        self.known_id: str | None = None  # under which id the agent had it last
        self.doubtful = False  # whether the agent may have been killed before it had written everything
        self.attaching = asyncio.Lock()
        self.answer: dict[str, Any] = {}  # what the agent said when it took the session: modes, options
        self.settings: dict[str, Any] = dict(session.live_state.metadata.get("acp_settings") or {})
        """Settings of the user, by request, so that an agent that forgets them gets them again."""
        self.prompts: dict[Any, None] = {}  # the editor's ids of the prompts that the agent is at
        self.told: list[str] = []  # sent to the agent before the next prompt
        self.swallowing = False  # whether what the agent says is a replay that the editor must not see again
        self.swallowed = 0
        self.heard: ReplayedWords | None = None
        """The content of that replay, while the agent may lack a part of the conversation."""
        self.heard_at = 0.0
        self.replaying = asyncio.Lock()
        self.muted: list[bytes] | None = None  # lines for the editor that wait until the replay is through
        self.broken: HoldfastError | None = None
        self.said: Said = (0, 0)  # how much of answers and of thoughts has been taken down here
        self._given: Said = (0, 0)
        self._held: list[Draft] = []
        self._barrier = False
        self._queue: asyncio.Queue[Work | None] = asyncio.Queue()
        self._worker: asyncio.Task[None] | None = None
        self._note_interruption()

    @property
    def agent_id(self) -> str | None:
        """The agent's own id; None while the agent does not have the session."""
        return self._agent_id

    @agent_id.setter
    def agent_id(self, id: str | None) -> None:
        self._agent_id = id
        self._agent_mark = b"\0" if id is None else msgspec.json.encode(id)

    @property
    def has_past(self) -> bool:
        """Return whether anything was said in the session."""
        return bool(self.session.live_state.message_count)

    # -- the agent has it ------------------------------------------------------------------------
    def look_back(self, ending: Ending | None = None) -> None:
        """Learn which agent has the session, from its log unless somebody has just read that."""
        if self.is_looked_at:
            return
        ending = ending or Ending.of(self._hf, self.id)
        self.known_id = ending.known_id(self.notes.agent_name)
        self.doubtful, self.is_looked_at = ending.was_left_open, True

    def description(self, command: Sequence[str], agent: Any) -> dict[str, Any]:
        """Return the folder, command and servers of the session; never the values of secrets."""
        about: dict[str, Any] = {"command": list(command), "agent": agent}
        if more := self.params.get("additionalDirectories"):
            about["additionalDirectories"] = list(more)
        if servers := self.params.get("mcpServers"):
            about["mcpServers"] = mask_servers(list(servers))
        return {"cwd": os.path.normpath(self.params["cwd"]), "acp": about}

    def listen_to_replay(self) -> None:
        """Treat messages of the agent from now on as its replay of the conversation."""
        self.swallowing, self.heard = True, ReplayedWords()
        self.heard_at = time.monotonic()

    def hear_replay(self, update: dict[str, Any]) -> None:
        """Take a piece of the replay, which is not passed to the editor."""
        self.swallowed += 1
        self.heard_at = time.monotonic()
        if self.heard is not None:
            self.heard.take(update)

    def attached(self, agent: str, taken: Attached) -> None:
        """Note that the agent has the session; some agents replay it even if not asked to."""
        self.swallowing, self.doubtful = taken.how != "new", False
        if taken.how != "load":
            self.heard = None  # there is no replay that would have to be whole
        self.agent_id = self.known_id = taken.agent_id
        self.answer = {k: v for k, v in taken.answer.items() if k != "sessionId"}
        link = {"kind": "acp", "id": taken.agent_id, "agent": agent, "how": taken.how}
        self.note(("link", link))

    async def end_replay(self, waits: Waits) -> ReplayedWords | None:
        """Wait until a replay is through; what it said, if it has to be whole."""
        patience = time.monotonic() + waits.quiet_max_s
        # Until the agent has been silent for a while; not for ever, if it never is.
        while self.swallowing and (now := time.monotonic()) < patience:
            rest = self.heard_at + waits.quiet_s - now
            if rest <= 0:
                break
            await asyncio.sleep(rest)
        self.swallowing = False
        heard, self.heard = self.heard, None
        return heard

    # -- recording -------------------------------------------------------------------------------
    def addressed(self, line: bytes) -> bytes | None:
        """Return a line of the agent as a line for the editor; None if its id is not where it mostly is.

        Only for lines that are known to hold an update and nothing else.
        """
        at = line.find(self._agent_mark, 0, _HEAD_BYTES)
        if at < 0 or not line[:at].rstrip().endswith(b'"sessionId":'):
            return None
        return b"%b%b%b\n" % (line[:at], self._own_mark, line[at + len(self._agent_mark) :])

    def hold(self, taken: Taken) -> None:
        """Keep what is to be recorded with the rest of the batch."""
        for type, data in taken.events:
            if type == "delta":
                self._count(data["content"], data.get("kind"))
        self._held += taken.events
        self._barrier = self._barrier or taken.barrier

    def say(self, text: str, kind: str, message_id: str | None) -> None:
        """Keep a piece of a message: pieces that came together are recorded as one."""
        before = self._held[-1] if self._held else None
        self._count(text, kind)
        self._held += self.notes.words(text, kind, message_id, before=before)

    def _count(self, text: str, kind: str | None) -> None:
        answers, thoughts = self.said
        size = len(text)
        self.said = (answers, thoughts + size) if kind == "thinking" else (answers + size, thoughts)

    def note(self, *drafts: Draft) -> None:
        """Keep single events for the batch."""
        self._held += drafts

    def commit(self) -> bool:
        """Record what is held, with one write; whether it has to be on the medium to go on. Raises StoreError only."""
        held, self._held = self._held, []
        barrier, self._barrier = self._barrier, False
        if held:
            self._given, counted_from = self.said, self.session.seq + 1
            try:
                recorded = self.session.extend(held)
            # One event that a session refuses must not cost the rest of what came with it.
            except (InvalidData, TooLarge):
                recorded = [self._commit_one(type, data) for type, data in held]
            self.notes.counted(counted_from, recorded)
        return barrier

    def _commit_one(self, type: str, data: dict[str, Any]) -> Event:
        try:
            return self.session.append(type, clean(data))
        except (InvalidData, TooLarge) as error:
            return self.session.append("frame", {"direction": "holdfast", "left_out": str(error)})

    def on_record(self) -> Said | None:
        """Return how much of the messages is recorded; None if everything committed is.

        Redaction keeps the last word from the log while a secret may begin with it.
        """
        held = self.session.held_back()
        if not held:
            return None
        answers, thoughts = self._given
        return answers - held.get("text", 0), thoughts - held.get("thinking", 0)

    async def settle(self) -> None:
        """Record what is held, and wait for the medium where a barrier is. Raises StoreError."""
        if self.commit():
            await self.session.abarrier()

    # -- order -----------------------------------------------------------------------------------
    def enqueue(self, work: Work) -> None:
        """Do something towards the agent after everything that was enqueued before."""
        # One worker for each session: frames about it keep their order, and sessions do not wait for each other.
        self._queue.put_nowait(work)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.ensure_future(self._work())

    async def caught_up(self, patience_s: float) -> None:
        """Return once all that was enqueued is done, or after a while."""
        done = asyncio.Event()

        async def tell() -> None:
            done.set()

        self.enqueue(tell)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), patience_s)

    async def _work(self) -> None:
        while (work := await self._queue.get()) is not None:
            await work()

    async def close(self) -> None:
        """Give the session back; what is still enqueued finds it closed, and says so."""
        # Ends the worker, after what was enqueued before.
        self._queue.put_nowait(None)
        try:
            self.commit()
        finally:
            await self.session.aclose()

    # -- what the agent has to be told -----------------------------------------------------------
    def _note_interruption(self) -> None:
        state = self.session.live_state
        if needs_interruption(state) is None:
            return
        pending = state.pending_calls
        first = min((call.seq for call in pending.values()), default=state.seq + 1)
        # Backwards: of a long session only the turn that broke off is read.
        wanted = {call.seq for call in pending.values()}
        newest = self._hf.events(self.id, first, reverse=True)
        events = {event.seq: event for event in newest if event.seq in wanted}
        calls = [
            undone(_call_in(events[call.seq], id), call.stage, self._cwd)
            for id, call in pending.items()
            if call.seq in events
        ]
        self.told.append(interruption_note(calls, self._seen()))

    @property
    def _cwd(self) -> Any:
        """Return the folder of the agent, and of its commands by default."""
        return self.session.live_state.metadata.get("cwd") or self.params.get("cwd")

    def _seen(self) -> str:
        """Return the part of an answer that the user saw and that no message covers yet."""
        first = self.session.live_state.streaming.get("")
        if first is None:
            return ""
        newest = self._hf.events(self.id, first, types={"delta"}, reverse=True)
        pieces = [piece.data for piece in newest][::-1]
        return "".join(piece.get("content", "") for piece in pieces if "kind" not in piece)

    def cut_off(self, reason: str) -> list[OpenCall]:
        """Record that the agent died during a turn, and return the open calls."""
        calls = self.notes.open_calls
        recorded = [call for call in calls if call.is_recorded]
        told = [undone(call.data(), call.stage, self._cwd) for call in recorded]
        self.told.append(interruption_note(told, self._seen()))
        self.hold(self.notes.interrupted())
        begun = [call.id for call in recorded if call.stage == "begun"]
        not_run = [call.id for call in recorded if call.stage != "begun"]
        ended: dict[str, Any] = {"reason": reason, "calls": begun}
        self.note(
            ("agent_error", {"agent": self.notes.agent_name, "error": reason}),
            ("interrupted", ended | ({"not_run": not_run} if not_run else {})),
            ("turn_end", {"reason": "interrupted"}),
        )
        self._barrier = True
        self.prompts.clear()
        return calls


def _call_in(event: Event, id: str) -> dict[str, Any]:
    """Return the data of a call in an event: its own, or one that a message requests."""
    content = event.data.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("id") == id:
            return {"tool": block.get("name"), "params": block.get("input")}
    return event.data
