"""Events in, a valid conversation out, at any moment and at the same cost at any length."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.errors import UsageError
from holdfast.model import Event
from holdfast.replay._dialects import Message
from holdfast.replay._issues import Issue
from holdfast.replay._runs import EVERY, Router
from holdfast.replay._scribe import Scribe, explain_orphans
from holdfast.replay._thread import Thread

INCOMPLETE = ("mark", "drop", "keep")


def check_incomplete(incomplete: str) -> str:
    """The word itself. Raises UsageError if there is no such way to treat incomplete calls."""
    if incomplete not in INCOMPLETE:
        raise UsageError(f"incomplete={incomplete!r}: one of {', '.join(INCOMPLETE)}")
    return incomplete


class Conversation:
    """The conversation of one run of a log, kept up to date event by event.

    ``run`` is None for the top-level one, else an id that :func:`runs` gives. ``incomplete`` says
    what becomes of a call without a result: "mark" (a stand-in result says that it was
    interrupted), "drop" or "keep" (for callers that run it again; then the list need not be valid).

    Feeding an event and asking for the messages after it take the same time at any length. Events
    must be fed in the order of the log. Nothing about an event's content ever raises.
    """

    def __init__(self, *, run: str | None = None, incomplete: str = "mark") -> None:
        self._run = run
        self._router = Router()
        self._scribe = Scribe(check_incomplete(incomplete))
        self._count = 0

    def feed(self, event: Event) -> None:
        """Take in the next event of the log, of whatever run and type."""
        number = self._count
        self._count += 1
        try:
            for run, what in self._router.route(event):
                if run == self._run or run is EVERY:
                    self._scribe.take(what, number)
        except Exception as error:  # noqa: BLE001 - whatever a foreign log holds, recovery goes on
            self._scribe.lament(number, error)

    def messages(self, provider: str = "neutral") -> list[Message]:
        """The conversation so far, valid for the provider.

        The list is the caller's; later feeds do not change it. The messages in it are shared and
        must not be changed in place. Raises UsageError for an unknown provider.
        """
        return self._scribe.messages(provider)

    @property
    def system(self) -> str | None:
        """The system prompt, which is never among the messages; None if there was none."""
        return self._scribe.system

    @property
    def issues(self) -> list[Issue]:
        """What was changed, and what of this run is not among the messages, as of now."""
        issues = self._scribe.thread.report()
        if self._run is None:
            for results in self._router.limbo.values():
                explain_orphans(results, issues)
        return issues

    @property
    def sources(self) -> list[list[int]]:
        """For each message in neutral form, the events that its blocks come from.

        They are counted as they were fed, from 0; -1 is for what was put in to make it valid.
        """
        drafts = self._scribe.thread.drafts()
        return [list(drafts.seqs(index)) for index in range(len(drafts))]

    @property
    def thread(self) -> Thread:
        """The assembled pieces, for this room only."""
        return self._scribe.thread

    @property
    def usage(self) -> dict[int, dict[str, Any]]:
        """The providers' own token counts by event, for this room only."""
        return self._scribe.usage


@dataclass(frozen=True, slots=True)
class RunConversation:
    """One run of a log: its id (None for the top-level one), its agent and what was said in it."""

    id: str | None
    agent: str | None
    conversation: Conversation


def runs(events: Iterable[Event], *, incomplete: str = "mark") -> list[RunConversation]:
    """Every run of a log with its conversation, the top-level one first; for reading only."""
    top = Conversation(incomplete=incomplete)
    found: dict[str | None, Conversation] = {None: top}
    agents: dict[str | None, str | None] = {}
    for number, event in enumerate(events):
        try:
            deliveries = top._router.route(event)  # noqa: SLF001 - of the same class
        except Exception as error:  # noqa: BLE001 - as in Conversation.feed
            top._scribe.lament(number, error)  # noqa: SLF001 - the same
            continue
        for run, what in deliveries:
            if run is not EVERY and run not in found:
                found[run] = Conversation(run=run, incomplete=incomplete)
            for one in list(found) if run is EVERY else (run,):
                found[one]._scribe.take_safely(what, number)  # noqa: SLF001 - the same
                agents.setdefault(one, _agent_of(what))
    known = top._router.runs.all  # noqa: SLF001 - the same
    agents |= {run.key: run.agent for run in known if run.agent}
    return [RunConversation(run, agents.get(run), found[run]) for run in found]


def _agent_of(event: Any) -> str | None:
    data = event.data if isinstance(event, Event) else None
    agent = data.get("agent") if isinstance(data, dict) else None
    return agent if isinstance(agent, str) else None
