"""A call that was only asked for is told as not run, wherever a session is read."""

from __future__ import annotations

import pytest

from holdfast import Event

ENDS = [None, ("interrupted", {}), ("turn_end", {"reason": "interrupted"})]
REASONS = {
    ("ask",): "nobody answered whether it may run",
    ("ask", "deny"): "it was refused",
    ("ask", "cancelled"): "it was refused",
}


def log(decisions, *more, run=None):
    """A call, what its user was asked and has answered, and what came then."""
    events = [
        ("session_start", {"format": 1, "log": "0" * 32}, None),
        ("user", {"content": "go"}, run),
        ("tool_call", {"id": "c", "tool": "Deploy", "params": {"to": "prod"}}, run),
        *(("permission", {"call": "c", "decision": one}, None) for one in decisions),
        *((type, data, run) for type, data in more),
    ]
    return [
        Event.make(type, data, seq=seq, timestamp=seq + 1000, run=of) for seq, (type, data, of) in enumerate(events)
    ]


def told(shelf, surface, events):
    """What the surface says, its line breaks as spaces."""
    return " ".join(shelf.read(surface, shelf.put(events)).split())


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end and end[0])
@pytest.mark.parametrize("decisions", REASONS, ids="-".join)
def test_a_call_that_was_only_asked_for_is_told_as_not_run(shelf, surface, decisions, end):
    """Unanswered or refused, killed or ended: that it did not run is said, and why."""
    found = told(shelf, surface, log(decisions, *([end] if end else [])))
    if surface == "json":  # programs read the decision
        assert all(f'"decision":"{one}"' in found for one in decisions)
        return
    assert "not run" in found
    assert REASONS[decisions] in found


ANSWER = ("tool_result", {"toolCallId": "c", "result": "done"})
RAN = [
    ((), []),
    (("ask", "allow"), []),
    (("ask",), [ANSWER]),
    (("ask", "deny"), [("tool_result", {"toolCallId": "c", "result": "no", "is_error": True})]),
]


@pytest.mark.parametrize(("decisions", "more"), RAN)
def test_nothing_is_said_of_a_call_that_may_have_run(shelf, surface, decisions, more):
    """One that was let run, or has its result, is not told as not run."""
    assert "not run" not in told(shelf, surface, log(decisions, *more, ("turn_end", {})))


def test_the_call_of_another_run_is_meant_by_its_id(shelf):
    """Questions are recorded beside the run whose call they name."""
    found = told(shelf, "text", log(["ask", "deny"], ("turn_end", {}), run="r-1"))
    assert "Deploy (event 2) not run: it was refused" in found


def test_a_question_that_is_still_open_is_told_as_such(shelf):
    """While an answer may come, the call did not run so far; once its turn is over, it did not."""
    assert "Deploy (event 2) not run so far" in told(shelf, "text", log(["ask"]))
    assert "not run so far" not in told(shelf, "text", log(["ask"], ("interrupted", {})))


def test_a_call_that_a_later_process_runs_is_not_told_as_never_run(shelf):
    """Killed before anyone answered, asked about once more and run: the two do not contradict each other."""
    again = [("permission", {"call": "c", "decision": "allow"}), ANSWER]
    found = told(shelf, "text", log(["ask"], ("interrupted", {}), *again))
    assert "Deploy (event 2) not run before the interruption" in found
