"""Comparing two logs: what they share, and what became of each."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.model import Event
from holdfast.replay import SessionEvents, compare, read_history
from holdfast.replay import _compare as compare_module
from holdfast.replay._turns import Copy, files_in, split_turns, text_of, tokens_of
from holdfast.testing import strategies

pytestmark = pytest.mark.req("S2-68")


def log(*events, start=0):
    """Events numbered from ``start``; each a type and its data, and perhaps a run."""
    return [
        Event.make(one[0], one[1], seq=seq, timestamp=1000 + seq, run=(*one, None)[2])
        for seq, one in enumerate(events, start)
    ]


COMMON = (
    ("session_start", {"format": 1, "log": "L"}),
    ("variable_set", {"name": "x", "value": 1}),
    ("user", {"content": "Hello"}),
    ("assistant", {"content": "Hi"}),
)


def branch(name, *own):
    """A log that has the common events, and its own after a fork."""
    forked = ("forked", {"session": "p", "seq": 3, "log": name, "reason": "fork"})
    return SessionEvents(name, log(*COMMON, forked, *own))


def said(question, answer="ok", **data):
    """A turn."""
    return [("user", {"content": question}), ("assistant", {"content": answer, **data})]


def test_the_common_ancestor_is_where_the_logs_part():
    """The last equal event is the ancestor, and the session that recorded it is named."""
    found = compare(branch("a", *said("one")), branch("b", *said("two")))
    assert found.ancestor == compare_module.Ancestor(session_id="p", seq=3, turns=1)
    assert not found.same


def test_strangers_have_no_ancestor():
    """Logs that begin differently have nothing in common, and all of their turns are shown."""
    a, b = SessionEvents("a", log(*said("x"))), SessionEvents("b", log(*said("y")))
    found = compare(a, b)
    assert found.ancestor is None
    assert (found.a.turns, found.b.turns) == (1, 1)


def test_nothing_is_comparable_too():
    """Empty logs are the same."""
    found = compare(SessionEvents("a", []), SessionEvents("b", []))
    assert found.same
    assert found.ancestor is None


def test_a_session_is_the_same_as_itself_and_as_its_copy():
    """Without own events there is nothing to show."""
    one = branch("a", *said("x"))
    found = compare(one, SessionEvents("copy", one.events))
    assert found.same
    assert found.ancestor.seq == one.events[-1].seq


def test_turns_that_ask_the_same_stand_side_by_side():
    """Turns are aligned by their question; others stand alone or beside what is in their place."""
    a = branch("a", *said("one", "1"), *said("two", "2"), *said("four", "4"))
    b = branch("b", *said("two", "II"), *said("three", "III"), *said("four", "IV"), *said("five"))
    rows = [(pair.a and pair.a.user, pair.b and pair.b.user, pair.same_question) for pair in compare(a, b).turns]
    assert rows == [
        ("one", None, False),
        ("two", "two", True),
        (None, "three", False),
        ("four", "four", True),
        (None, "five", False),
    ]


def test_very_many_turns_are_put_in_their_order(monkeypatch):
    """Beyond a bound nobody looks for the best alignment."""
    monkeypatch.setattr(compare_module, "_PAIRS_MAX", 1)
    a, b = branch("a", *said("one"), *said("two")), branch("b", *said("two"), *said("one"))
    rows = [(pair.a.user, pair.b.user, pair.same_question) for pair in compare(a, b).turns]
    assert rows == [("one", "two", False), ("two", "one", False)]


def test_tools_and_files_are_counted_for_each_side():
    """Calls, failures and the files named in parameters, of what each did since they parted."""
    own_a = [
        ("tool_call", {"id": "1", "tool": "Read", "params": {"file_path": "a.txt"}}),
        ("tool_result", {"toolCallId": "1", "result": "no", "is_error": True}),
        ("tool_call", {"id": "2", "tool": "Edit", "params": {"path": "a.txt"}}),
        ("tool_call", {"id": "3", "tool": "Edit", "params": {"path": "a.txt"}}),
        ("tool_result", {"toolCallId": "gone", "is_error": True}),
    ]
    own_b = [("tool_call", {"id": "1", "tool": "Read", "params": {"files": ["b", "", 1, "b"]}})]
    found = compare(branch("a", *own_a), branch("b", *own_b))
    assert [(use.tool, use.a, use.a_failed, use.b) for use in found.tools] == [("Edit", 2, 0, 0), ("Read", 1, 1, 1)]
    assert [(use.path, use.a, use.b) for use in found.files] == [("a.txt", ["Read", "Edit"], []), ("b", [], ["Read"])]


def test_state_is_compared_with_what_both_had():
    """For variables, memory and todos it is told who changed what, and where both did."""
    own_a = [
        ("variable_set", {"name": "x", "value": 2}),
        ("memory_set", {"key": "m", "value": "a"}),
        ("todo_update", {"todos": [{"content": "t"}, {"content": "t"}]}),
    ]
    own_b = [("variable_delete", {"name": "x"}), ("variable_set", {"name": "y", "value": [1]})]
    found = {(one.kind, one.name): one for one in compare(branch("a", *own_a), branch("b", *own_b)).changes}
    x = found["variable", "x"]
    assert (x.base, x.a, x.b, x.a_did, x.b_did, x.conflict) == (1, 2, None, "set", "removed", True)
    y = found["variable", "y"]
    assert (y.a_did, y.b_did, y.b, y.conflict) == ("kept", "set", [1], False)
    assert found["memory", "m"].a == "a"
    assert {name for kind, name in found if kind == "todo"} == {"t", "t (2)"}


def test_cost_is_as_recorded_or_as_someone_says():
    """Without a function that knows prices only what was recorded counts."""
    a = branch("a", *said("x", usage={"output_tokens": 10, "cost": 0.5}))
    b = branch("b", *said("x", usage={"output_tokens": 20}, model="m"))
    found = compare(a, b)
    assert (found.a.cost, found.b.cost) == (0.5, None)
    assert (found.a.tokens, found.b.tokens_in_all) == (10, 20)
    found = compare(a, b, cost=lambda events: float(len(events)))
    assert (found.a.cost, found.b.cost) == (2.0, 2.0)


def test_tokens_are_found_wherever_logs_have_them():
    """Usage of messages, of calls, in metadata and in events of its own counts."""
    events = log(
        ("assistant", {"content": "", "metadata": {"usage": {"output_tokens": 1}, "model": "m"}}),
        ("assistant", {"content": "", "metadata": "none"}),
        ("usage", {"input_tokens": 5}),
        ("tool_call", {"id": "c", "tool": "T", "usage": "many"}),
        ("user", {"content": ""}),
    )
    assert {model: one.total_tokens for model, one in tokens_of(events).items()} == {"m": 1, "": 5}


def test_a_turn_is_what_follows_a_question():
    """turn_start begins one; so do a user's words outside; delegated words do not."""
    events = log(
        ("assistant", {"content": "goes on"}),
        ("turn_start", {}),
        ("user", {"content": "a"}),
        ("user", {"content": "b"}),
        ("variable_set", {"name": "x"}),
        ("turn_start", {}, "child"),
        ("turn_end", {}, "child"),
        ("turn_end", {}),
        ("user", {"content": "c"}),
        ("user", {"content": "task"}, "child"),
        ("assistant", {"content": "from the child"}, "child"),
        ("assistant", {"content": "answer"}),
    )
    turns = split_turns(events)
    assert [(turn.first, turn.last) for turn in turns] == [(0, 0), (1, 7), (8, 11)]
    assert (turns[2].view().user, turns[2].view().answer) == ("c", "answer")
    assert split_turns(log(("user", {"content": "a"}, "r"), ("user", {"content": "b"}, "r")))[1]


def test_what_leads_up_to_a_turn_is_part_of_it():
    """A system message or the start of an agent is no turn by itself."""
    turns = split_turns(
        log(
            ("system", {"content": "Be brief."}),
            ("agent_start", {"agent": "x"}, "r"),
            ("turn_start", {}, "r"),
            ("user", {"content": "a"}, "r"),
            ("turn_end", {}, "r"),
            ("user", {"content": "b"}),
        )
    )
    assert [turn.view().user for turn in turns] == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "text"), [("a", "a"), ([{"text": "a"}, {"text": 1}, "x", {"text": "b"}], "a\nb"), (None, "")]
)
def test_words_are_found_in_any_content(content, text):
    """A text, blocks, or nothing."""
    assert text_of(content) == text


def test_files_are_only_looked_for_in_maps():
    """Parameters that are no map name no file."""
    assert files_in("path") == []
    assert files_in({"Path": "a", "paths": "no list", "other": "b"}) == ["a"]


def test_history_names_each_part_of_the_line():
    """Each fork gives the log a new name; a log without one is named by its session."""
    events = log(
        ("user", {"content": "plain"}),
        ("forked", {"session": "p", "seq": 0, "log": "L1"}),
        ("forked", {"session": "q", "seq": 1}),
        ("merged", {"log": "M", "seq": 4, "copies": [["M", 1, 2, 4, 5], ["bad"], 3]}),
        ("merged", {"session": "x"}),
    )
    found = read_history("r", events)
    assert [tuple(one) for one in found.segments] == [("p", "@p", 0), ("q", "L1", 1), ("r", "@r", 4)]
    assert [*found.places(Copy("M", 2, 9, 0, 0))] == [(4, 5)]
    assert [*found.places(Copy("M", 3, 9, 0, 0))] == []
    assert [*found.places(Copy("L1", 1, 7, 0, 0))] == [(1, 1)]
    assert len(found.merges) == 1
    assert found.segment_of(99) is None
    turn = split_turns(log(("user", {"content": "x"}), start=99))[0]
    assert found.origins(turn) == []


def test_a_list_written_again_is_the_same():
    """Todos get new ids whenever the list is written; that alone is no change."""
    todos = [{"content": "t", "status": "pending", "id": "1"}]
    again = [{"content": "t", "status": "pending", "id": "2"}]
    begin = ("todo_update", {"todos": todos})
    a = SessionEvents("a", log(begin, ("todo_update", {"todos": again})))
    b = SessionEvents("b", log(begin, ("todo_update", {"todos": [again[0] | {"status": "completed"}]})))
    [change] = compare(a, b).changes
    assert (change.a_did, change.b_did, change.conflict) == ("kept", "set", False)


def test_data_that_is_no_map_is_passed_over():
    """A foreign log may hold anything."""
    broken = [Event("tool_call", 0, 0, b"[1]"), Event("tool_result", 1, 0, b'"x"')]
    found = compare(SessionEvents("a", broken), SessionEvents("b", []))
    assert [use.tool for use in found.tools] == ["None"]


@given(strategies.logs(3), strategies.logs(3))
def test_any_two_logs_compare_and_are_written_as_json(a, b):
    """Whatever two sessions hold, the comparison is data, and symmetric in what it counts."""
    one, other = (
        compare(SessionEvents("a", a), SessionEvents("b", b)),
        compare(SessionEvents("b", b), SessionEvents("a", a)),
    )
    assert msgspec.json.encode(one)
    assert (one.a.turns, one.b.turns) == (other.b.turns, other.a.turns)
    assert {(c.kind, c.name) for c in one.changes} == {(c.kind, c.name) for c in other.changes}


@given(strategies.logs(3), st.data())
def test_a_prefix_is_the_ancestor(events, data):
    """What one log has and the other goes on from is in common to the last event."""
    cut = data.draw(st.integers(1, len(events)))
    found = compare(SessionEvents("a", events), SessionEvents("b", events[:cut]))
    assert found.ancestor.seq == cut - 1
    assert found.b.turns == 0
