"""Merging two sessions: which turns, whose values, and a question where both changed the same."""

from __future__ import annotations

from concurrent.futures import Future, wait
from typing import TYPE_CHECKING

from textual.worker import get_current_worker

from holdfast.apps.shown.words import counted
from holdfast.apps.tui._dialogs import Buttons, Choose, Pick
from holdfast.apps.tui._handing import hand_over
from holdfast.apps.tui._main_parts import SLOW_S
from holdfast.apps.tui._undoing import Done, Undoing
from holdfast.errors import UsageError
from holdfast.replay import as_text

if TYPE_CHECKING:
    from holdfast.replay import Clash, Comparison, TurnView

__all__ = ["Merging"]

_POLICIES = (
    ("ask", "ask me about each"),
    ("ours", "keep the first one's"),
    ("theirs", "take the second one's"),
    ("both", "keep both"),
)
_SIDES = (("1", "The first", "ours"), ("2", "The second", "theirs"), ("b", "Both", "both"))
_QUESTION_CHARS = 60
_VALUE_CHARS = 400
_LOOK_S = 0.2


class Merging(Undoing):
    """The part of the main screen that merges. Everything here but the dialogs is in a thread."""

    def merge(self, first: str, second: str, question: str) -> Done:
        """Ask what to take, make the new session and show it; what is told of it. Blocking."""
        found = self.app.library.compare(first, second)
        offered = _turns_of(found)
        answer = self._wait_for(Choose(question, offered)) if offered else ""
        policy = None if answer is None else self._policy(found)
        if answer is None or policy is None:
            return Done("")
        chosen = [int(number) for number in answer.split()]
        made = self.app.library.merge(
            first,
            second,
            turns="all" if len(chosen) == len(offered) else chosen,
            policy=policy,
            ask=self._decide if policy == "ask" else None,
        )
        report = self.app.library.merge_report(made)
        conflicts = len(report.conflicts) if report is not None else 0
        brought = report.merged_turns if report is not None else 0
        told = f"merged into {made}: {counted(brought, 'turn')}, {counted(conflicts, 'conflict')}"
        hand_over(self, self._unmark)
        return self.made(made, told)

    def _unmark(self) -> None:
        """What was marked to be merged is merged."""
        self.sessions.marked = []
        self.sessions.refresh()

    def _policy(self, found: Comparison) -> str | None:
        """Whose values count; nobody is asked where nothing else than turns differs."""
        if not found.changes:
            return "ours"
        return self._wait_for(Pick("Where both changed the same value:", _POLICIES))

    def _decide(self, clash: Clash) -> str:
        values = {"before": clash.base, "the first": clash.ours, "the second": clash.theirs}
        shown = {name: "none" if it is None else as_text(it) for name, it in values.items()}
        told = [f"{name}: {value[:_VALUE_CHARS]}" for name, value in shown.items()]
        question = f"Both changed the {clash.kind} {clash.name}. Which counts?"
        answer = self._wait_for(Buttons(question, _SIDES, "\n".join(told)))
        if answer is None:
            raise UsageError("nothing was merged", remedy="m asks again.")
        return answer

    def _wait_for(self, dialog: Choose | Pick | Buttons) -> str | None:
        answer: Future[str | None] = Future()
        worker = get_current_worker()
        hand_over(self, self._ask, dialog, answer)
        while not wait([answer], _LOOK_S).done:
            if worker.is_cancelled:  # the app is being left
                return None
        return answer.result()

    def _ask(self, dialog: Choose | Pick | Buttons, answer: Future[str | None]) -> None:
        """Show a dialog; as long as it waits for the user, nothing is said to be at work."""

        def answered(given: str | None) -> None:
            self.under_way += 1
            self.set_timer(SLOW_S, self.tell_status)
            answer.set_result(given)

        self.under_way -= 1
        self.tell_status()
        self.app.push_screen(dialog, answered)


def _asked(view: TurnView) -> str:
    return " ".join(view.user[:_QUESTION_CHARS].split()) or "(goes on)"


def _turns_of(found: Comparison) -> list[tuple[str, str]]:
    """The turns of the second one, by the numbers that ``merge`` takes."""
    views = [pair.b for pair in found.turns if pair.b is not None]
    return [(str(view.number), f"{view.number}  {_asked(view)}") for view in views]
