"""How an agent gets a session back: its own resume, its own load, or a new one that is told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from holdfast.apps.wire.frames import AUTH_REQUIRED, INTERNAL, RpcError

__all__ = ["CONVERSATION", "Attached", "Driver", "Waits", "attach", "be_quiet"]

CONVERSATION = frozenset(
    {"user_message_chunk", "agent_message_chunk", "agent_thought_chunk", "tool_call"}
    | {"tool_call_update", "plan"}
)
"""The kinds of updates that a replay consists of; others tell how things are now."""


class Waits(NamedTuple):
    """How long an agent may take, in seconds."""

    resume_s: float = 30.0
    load_s: float = 120.0
    quiet_s: float = 0.3
    """A replay is over when nothing more of it came for so long: some answer before they replay."""
    quiet_max_s: float = 10.0


class Attached(NamedTuple):
    """The agent has the session: under which id, how it got it, and what it answered."""

    agent_id: str
    how: str
    """resume, load or new"""
    answer: dict[str, Any]
    failures: tuple[str, ...] = ()
    """What did not work, for people."""


class Driver(Protocol):
    """The agent as far as it is needed here."""

    @property
    def can(self) -> dict[str, Any]:
        """What it says that it can do."""

    def advertises(self, name: str) -> bool:
        """Whether it says that it can resume, list, fork … sessions."""

    async def request(self, method: str, params: Any, *, timeout_s: float | None = None) -> Any:
        """Ask it. Raises RpcError and TimeoutError."""


async def attach(
    agent: Driver,
    params: dict[str, Any],
    *,
    known_id: str | None,
    replayed: Callable[[], int],
    expects_replay: bool,
    doubtful: bool = False,
    waits: Waits = Waits(),  # noqa: B008 - immutable
) -> Attached:
    """Give the agent a session; ``known_id`` is how it called it, None for one that is new to it.

    ``replayed`` counts the updates of its replay so far: an agent that has loaded a conversation
    and replays nothing of it has lost it. ``doubtful``: it may have been killed before it had
    written everything, so its load is tried first, whose replay shows what it has. Raises RpcError
    if not even a new session can be had, or if it wants a login first.
    """
    failures: list[str] = []
    for how in _ways(agent, doubtful=doubtful) if known_id is not None else ():
        before = replayed()
        wait_s = waits.resume_s if how == "resume" else waits.load_s
        try:
            answer = await agent.request(
                f"session/{how}", {**params, "sessionId": known_id}, timeout_s=wait_s
            )
            if how == "load" and expects_replay:
                await _first_of_replay(replayed, before, waits)
                if replayed() == before:
                    failures.append("load: the agent has nothing of it any more")
                    continue
        except RpcError as error:
            if error.code == AUTH_REQUIRED:
                raise
            failures.append(f"{how}: {error.message}")
            continue
        except TimeoutError:
            failures.append(f"{how}: no answer within {wait_s:.0f} s")
            continue
        assert known_id is not None
        return Attached(known_id, how, _object(answer), tuple(failures))
    try:
        answer = _object(await agent.request("session/new", params, timeout_s=waits.load_s))
    except TimeoutError as error:
        raise RpcError(
            INTERNAL, f"the agent did not answer in time: no session within {waits.load_s:g} s"
        ) from error
    agent_id = answer.get("sessionId")
    if not isinstance(agent_id, str) or not agent_id:
        raise RpcError(INTERNAL, "the agent made a session without an id")
    return Attached(agent_id, "new", answer, tuple(failures))


def _ways(agent: Driver, *, doubtful: bool) -> list[str]:
    ways = ["resume"] if agent.advertises("resume") else []
    if agent.can.get("loadSession"):
        ways.insert(0 if doubtful else len(ways), "load")
    return ways


async def _first_of_replay(replayed: Callable[[], int], before: int, waits: Waits) -> None:
    patience = time.monotonic() + waits.quiet_s * 4
    while replayed() == before and time.monotonic() < patience:  # noqa: ASYNC110 - rare and short
        await asyncio.sleep(waits.quiet_s / 10)


async def be_quiet(heard_at: Callable[[], float], waits: Waits = Waits()) -> None:  # noqa: B008 - immutable
    """Return once an agent has been silent for a while; not for ever, if it never is."""
    patience = time.monotonic() + waits.quiet_max_s
    while (now := time.monotonic()) < patience:
        rest = heard_at() + waits.quiet_s - now
        if rest <= 0:
            return
        await asyncio.sleep(rest)


def _object(answer: Any) -> dict[str, Any]:
    return answer if isinstance(answer, dict) else {}
