"""Planning a merge: which turns, as which events, and whose state wins."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import UsageError
from holdfast.model import Event
from holdfast.replay import PROVIDERS, MergeBlobs, MergeWishes, SessionEvents, fold, plan_merge, recover, validate
from holdfast.testing import strategies

pytestmark = [pytest.mark.req("S2-69"), pytest.mark.req("B-40")]

COMMON = [
    ("session_start", {"format": 1, "log": "L"}),
    ("variable_set", {"name": "x", "value": 1}),
    ("memory_set", {"key": "m", "value": "old", "description": "d"}),
    ("todo_update", {"todos": [{"content": "t", "status": "pending"}]}),
    ("user", {"content": "Hello"}),
    ("tool_call", {"id": "c0", "tool": "Read"}),
    ("tool_result", {"toolCallId": "c0", "result": "r"}),
    ("assistant", {"content": "Hi"}),
]


def log(events, start=0):
    """Events numbered from ``start``; each a type and its data, and perhaps a run and a key."""
    found = []
    for seq, one in enumerate(events, start):
        type, data, run, key = (*one, None, None)[:4]
        found.append(Event.make(type, data, seq=seq, timestamp=1000 + seq, run=run, key=key))
    return found


def branch(name, *own, common=None):
    """A log with the common events, and its own after a fork."""
    shared = COMMON if common is None else common
    forked = ("forked", {"session": "p", "seq": len(shared) - 1, "log": name, "reason": "fork"})
    return SessionEvents(name, log([*shared, forked, *own]))


def merged(a, b, *, blobs=None, name="m", **wishes):
    """The merged session: its events as the store would have them, and the report."""
    forked = Event.make("forked", {"session": a.session_id, "log": name, "reason": "merge"}, run="R")
    first = len(a.events) + 1
    plan = plan_merge(a, b, MergeWishes(**wishes), first_seq=first, run="R", blobs=blobs)
    last = Event.make("merged", msgspec.to_builtins(plan.report), run="R")
    return SessionEvents(name, [*a.events, *_numbered([forked, *plan.events, last], len(a.events))]), plan.report


def _numbered(events, start):
    return [Event(one.type, seq, one.timestamp, one.raw, one.run, one.key) for seq, one in enumerate(events, start)]


def said(question, answer):
    """A turn."""
    return [("user", {"content": question}), ("assistant", {"content": answer})]


def words(told):
    """All texts of the recovered conversation."""
    found = recover(told.events, "neutral").messages
    return [
        text
        for message in found
        for text in (
            [message["content"]]
            if isinstance(message["content"], str)
            else [block.get("text") for block in message["content"]]
        )
    ]


def test_turns_since_the_ancestor_come_after_ours():
    """The merged session has what both said, ours first, and is at rest."""
    a, b = branch("a", *said("one", "1")), branch("b", *said("two", "2"), *said("three", "3"))
    found, report = merged(a, b)
    spoken = [text for text in words(found) if text]
    assert spoken == ["Hello", "Hi", "one", "1", "two", "2", "three", "3"]
    assert (report.session, report.base, report.merged_turns, report.turns) == ("b", 7, 2, "all")
    assert fold(found.events).status == "idle"


def test_chosen_turns_and_no_others():
    """Numbers choose turns; one that is not there is refused, with those that are."""
    a, b = branch("a"), branch("b", *said("two", "2"), *said("three", "3"))
    found, report = merged(a, b, turns=[2, 2])
    assert [text for text in words(found) if text] == ["Hello", "Hi", "three", "3"]
    assert report.turns == "chosen"
    with pytest.raises(UsageError, match="no new turn 3; there are: 1, 2"):
        merged(a, b, turns=[3])
    with pytest.raises(UsageError, match="there are: none"):
        merged(a, a, turns=[1])


def test_a_summary_stands_for_the_turns():
    """Without a model each turn is told in a few lines; a function may say it better."""
    call = ("tool_call", {"id": "c1", "tool": "Edit"})
    b = branch("b", *said("two\n words", "2" * 400)[:1], call, *said("", "")[1:], *said("", ""))
    found, report = merged(branch("a"), b, turns="summary")
    text = [text for text in words(found) if text][-1]
    assert text.startswith("[Merged from session b: a summary of 2 turns]\n1. asked: two words\n")
    assert "   tools: Edit" in text
    assert (report.turns, report.copies) == ("summary", [])
    long, _ = merged(branch("a"), branch("b", *said("q", "w" * 400)), turns="summary")
    assert words(long)[-1].endswith("w…")
    told, _ = merged(branch("a"), b, turns="summary", summary=lambda turns: f"{len(turns)} things")
    assert words(told)[-1].endswith("\n2 things")
    for nothing in ("  ", None):
        with pytest.raises(UsageError, match="a summary is a text"):
            merged(branch("a"), b, turns="summary", summary=lambda _, nothing=nothing: nothing)
    assert merged(branch("a"), branch("b"), turns="summary")[1].merged_turns == 0
    silent, _ = merged(branch("a"), branch("b", *said("", "")), turns="summary")
    assert words(silent)[-1].endswith("1. (nothing that can be put into words)")


def test_what_only_one_side_changed_is_taken():
    """Set, replaced or removed by one side: that is what the merged session has."""
    a = branch("a", ("variable_set", {"name": "y", "value": "a"}))
    b = branch(
        "b",
        ("variable_set", {"name": "x", "value": 2}),
        ("memory_delete", {"key": "m"}),
        ("memory_set", {"key": "n", "value": [1], "priority": "high"}),
        ("todo_update", {"todos": [{"content": "t", "status": "completed"}, {"content": "u"}]}),
    )
    found, report = merged(a, b)
    state = fold(found.events)
    assert state.variables == {"x": 2, "y": "a"}
    assert list(state.memory) == ["n"]
    assert (state.memory["n"].value, state.memory["n"].priority) == ([1], "high")
    assert [todo.get("status") for todo in state.todos] == ["completed", None]
    assert report.conflicts == []
    assert set(report.taken) == {"variable x", "memory m", "memory n", "todo t", "todo u"}


CHANGED_A = [
    ("variable_set", {"name": "x", "value": "a"}),
    ("memory_delete", {"key": "m"}),
    ("todo_update", {"todos": [{"content": "t", "status": "completed"}]}),
]
CHANGED_B = [
    ("variable_set", {"name": "x", "value": "b"}),
    ("memory_set", {"key": "m", "value": "new"}),
    ("todo_update", {"todos": [{"content": "t", "status": "in_progress"}]}),
]


@pytest.mark.parametrize(
    ("policy", "variables", "memory", "statuses"),
    [
        ("ours", {"x": "a"}, [], ["completed"]),
        ("theirs", {"x": "b"}, ["m"], ["in_progress"]),
        ("both", {"x": "a", "x@b": "b"}, ["m"], ["completed", "in_progress"]),
    ],
)
def test_what_both_changed_is_decided_by_the_policy(policy, variables, memory, statuses):
    """Each policy keeps what it says, and every conflict is listed with what was taken."""
    found, report = merged(branch("a", *CHANGED_A), branch("b", *CHANGED_B), policy=policy)
    state = fold(found.events)
    assert (state.variables, list(state.memory)) == (variables, memory)
    assert [todo["status"] for todo in state.todos] == statuses
    assert [(one.kind, one.name, one.taken) for one in report.conflicts] == [
        ("variable", "x", policy),
        ("memory", "m", policy),
        ("todo", "t", policy),
    ]
    assert (report.conflicts[0].base, report.conflicts[0].ours) == (1, "a")


def test_both_keeps_what_one_side_removed():
    """Where one side removed what the other changed, both means that it stays, as changed."""
    gone = [("variable_delete", {"name": "x"}), ("memory_delete", {"key": "m"}), ("todo_update", {"todos": []})]
    found, _ = merged(branch("a", *CHANGED_B), branch("b", *gone), policy="both")
    state = fold(found.events)
    assert (state.variables, list(state.memory), len(state.todos)) == ({"x": "b"}, ["m"], 1)
    found, _ = merged(branch("a", *CHANGED_B), branch("b", *gone), policy="theirs")
    state = fold(found.events)
    assert (state.variables, list(state.memory), state.todos) == ({}, [], [])
    found, _ = merged(branch("a", *gone), branch("b", *CHANGED_B), policy="both")
    assert fold(found.events).variables == {"x": "b"}
    assert len(fold(found.events).todos) == 1


def test_a_name_that_is_taken_is_not_overwritten():
    """With both, what came from the other side gets a name of its own."""
    taken = [("variable_set", {"name": "x@b", "value": 0})]
    found, _ = merged(branch("a", *CHANGED_A, *taken), branch("b", *CHANGED_B), policy="both")
    assert fold(found.events).variables == {"x": "a", "x@b": 0, "x@b-2": "b"}


def test_someone_may_be_asked():
    """The one who is asked decides each conflict; nobody to ask, or no answer, is an error."""
    a, b = branch("a", *CHANGED_A), branch("b", *CHANGED_B)
    answers = {"variable": "theirs", "memory": "ours", "todo": "both"}
    found, _ = merged(a, b, policy="ask", ask=lambda clash: answers[clash.kind])
    assert fold(found.events).variables == {"x": "b"}
    with pytest.raises(UsageError, match="variable x\nmemory m\ntodo t") as caught:
        merged(a, b, policy="ask")
    assert len(caught.value.conflicts) == 3
    with pytest.raises(UsageError, match="decides nothing"):
        merged(a, b, policy="ask", ask=lambda _: "perhaps")
    assert merged(branch("a"), branch("b"), policy="ask")[1].conflicts == []


@pytest.mark.parametrize(
    "wishes", [{"policy": "mine"}, {"turns": "some"}, {"turns": None}, {"turns": ["1"]}, {"turns": 1}]
)
def test_unknown_wishes_are_refused(wishes):
    """A policy or a choice of turns that there is not."""
    with pytest.raises(UsageError):
        merged(branch("a"), branch("b"), **wishes)


def test_call_ids_that_are_taken_get_new_names():
    """Both sides may have numbered their calls alike; each result stays with its call."""
    calls = [
        ("user", {"content": "q"}),
        ("tool_call", {"id": "c1", "tool": "Read", "params": {"n": 1}}),
        ("tool_result", {"toolCallId": "c1", "result": "one"}),
        ("assistant", {"content": [{"type": "tool_use", "id": "c2", "name": "R", "input": {}}, "x"]}),
        ("user", {"content": [{"type": "tool_result", "tool_use_id": "c2", "content": "two"}]}),
        ("assistant", {"content": [{"type": "text", "text": "done"}, {"type": "tool_use", "id": 5}]}),
        ("tool_result", {"toolCallId": 7, "result": "lost"}),
    ]
    found, _ = merged(branch("a", *calls), branch("b", *calls))
    ids = [event.data.get("id") for event in found.events if event.type == "tool_call"]
    assert ids == ["c0", "c1", "c1-2"]
    for provider in PROVIDERS:
        assert validate(recover(found.events, provider).messages, provider).valid
    text = str(recover(found.events, "neutral").messages)
    assert (text.count("'one'"), text.count("'two'")) == (2, 2)


def test_numbers_of_events_follow_the_copies():
    """What covers, retracts or sums up events does so with those of the merged session."""
    b = branch(
        "b",
        ("user", {"content": "q"}),
        ("delta", {"content": "st"}),
        ("assistant", {"content": "streamed", "covers_from": 10}),
        ("user", {"content": "wrong"}),
        ("retracted", {"seqs": [12, 4, "x"]}),
        ("retracted", {"seqs": 3}),
        ("compaction", {"summary": "s", "covers": [0, 11]}),
        ("compaction", {"summary": "s", "covers": [0, 3]}),
        ("compaction", {"summary": "s", "covers": "all"}),
    )
    a = branch("a", *said("ours", "is kept"))
    found, _ = merged(a, b)
    own = found.events[len(a.events) + 1 :]
    first = own[0].seq
    assert own[2].data["covers_from"] == first + 1
    assert own[4].data["seqs"] == [first + 3]
    assert own[5].data["seqs"] == []
    assert [event.data["covers"] for event in own if event.type == "compaction"] == [[first, first + 2]]
    assert "is kept" in words(found)


def test_runs_of_the_other_log_stay_apart():
    """Its top-level agent speaks in ours; what its delegates said stays below."""
    own = [
        ("agent_start", {"agent": "lead", "depth": 0}, "r1"),
        ("user", {"content": "lead, do it"}, "r1"),
        ("agent_start", {"agent": "help", "depth": 1}, "r2"),
        ("user", {"content": "subtask"}, "r2"),
        ("assistant", {"content": "sub answer"}, "r2"),
        ("x.note", {}, "r2"),
        ("x.note", {}, "r9"),
        ("assistant", {"content": "lead answer"}, "r1"),
    ]
    found, _ = merged(branch("a"), branch("b", *own))
    said_by_all = [text for text in words(found) if text]
    assert said_by_all[-2:] == ["lead, do it", "lead answer"]
    assert "sub answer" not in said_by_all
    plain = [
        ("agent_start", {"agent": "lead"}),
        ("user", {"content": "go"}),
        ("delegation", {"parent": "lead", "child": "help", "task": "sub"}),
        ("agent_start", {"agent": "help"}),
        ("user", {"content": "sub"}),
        ("assistant", {"content": "sub answer", "agent": "help"}),
        ("agent_complete", {"agent": "help"}),
        ("assistant", {"content": "lead answer", "agent": "lead"}),
    ]
    early = [*plain[:2], plain[4], *plain[2:4], *plain[5:]]
    for order in (plain, early):
        found, _ = merged(SessionEvents("a", []), SessionEvents("b", log(order)))
        assert [text for text in words(found) if text] == ["go", "lead answer"]


def test_work_that_was_going_on_has_ended():
    """An open turn, a call without a result: in the merged session nothing is going on."""
    own = [
        ("turn_start", {"turn": 1}),
        ("user", {"content": "q"}),
        ("turn_start", {}, "child"),
        ("tool_call", {"id": "c", "tool": "T"}),
    ]
    found, _ = merged(branch("a"), branch("b", *own))
    state = fold(found.events)
    assert (state.mid_turn, state.status) == (False, "idle")
    for provider in PROVIDERS:
        assert validate(recover(found.events, provider, "mark").messages, provider).valid


def test_the_same_is_not_merged_twice():
    """Merging again, with oneself, with an ancestor or with a merge of it brings nothing new."""
    a, b = (branch("a", *said("one", "1")), branch("b", *said("two", "2"), ("variable_set", {"name": "x", "value": 3})))
    first, _ = merged(a, b)
    for left, right in ((first, b), (b, b), (a, SessionEvents("p", a.events[:8])), (first, a)):
        assert merged(left, right)[1].merged_turns == 0
    _, report = merged(b, first, name="m2")
    assert report.merged_turns == 1
    more = SessionEvents("b", [*b.events, *log(said("later", "3"), len(b.events))])
    again, report = merged(first, more, name="m3")
    assert (report.merged_turns, report.conflicts) == (1, [])
    assert merged(again, more, name="m4")[1].merged_turns == 0
    assert merged(again, first, name="m5")[1].merged_turns == 0


def test_a_log_copied_as_a_file_brings_what_it_did_since():
    """Two logs of one name, one of them copied by hand, are told apart by what they say."""
    a = SessionEvents("p", log([*COMMON, *said("q1", "a1"), ("variable_set", {"name": "x", "value": 2})]))
    b = SessionEvents("copy", log([*COMMON, *said("q2", "a2"), ("variable_set", {"name": "y", "value": 3})]))
    m, report = merged(a, b)
    assert report.merged_turns == 1
    assert words(m)[-4:] == ["q1", "a1", "q2", "a2"]
    assert merged(m, b)[1].merged_turns == 0
    back, report = merged(a, m)  # what stands in a already is known, also by way of the merge
    assert report.merged_turns == 1
    assert words(back) == words(m)
    third = SessionEvents("third", log([*COMMON, *said("q3", "a3"), ("variable_set", {"name": "y"})]))
    m, report = merged(m, third)
    assert (report.merged_turns, [one.name for one in report.conflicts]) == (1, ["y"])


def test_a_merge_of_merges_knows_where_each_turn_began():
    """A turn that came by way of another merge is recognised."""
    a, b, c = branch("a"), branch("b", *said("two", "2")), branch("c", *said("three", "3"))
    ab, _ = merged(a, b, name="ab")
    cab, report = merged(c, ab, name="cab")
    assert report.merged_turns == 1
    assert merged(cab, b, name="z")[1].merged_turns == 0


def test_a_decided_conflict_does_not_come_again():
    """The state at the last merge is what both had in common since."""
    a, b = branch("a", *CHANGED_A), branch("b", *CHANGED_B)
    first, report = merged(a, b)
    assert len(report.conflicts) == 3
    assert merged(first, b)[1].conflicts == []
    _, back = merged(b, first, name="back")
    assert back.conflicts == []


def test_strangers_bring_everything():
    """Without a common ancestor all turns of the other session are new."""
    a, b = SessionEvents("a", log(said("one", "1"))), SessionEvents("b", log(said("two", "2")))
    found, report = merged(a, b)
    assert (report.base, report.merged_turns) == (-1, 1)
    assert words(found) == ["one", "1", "two", "2"]
    assert merged(a, SessionEvents("e", []))[1].seq == -1


def test_keys_and_blobs_come_along():
    """An idempotency key that is free stays; payloads kept beside the log are filled in."""
    raw = Event.make("user", {"content": "x"}).raw.replace(
        b'"x"', b'{"$blob":"%b","bytes":3,"media":"text/plain"}' % (b"0" * 64)
    )
    b = branch("b", ("assistant", {"content": "k"}, None, "key"), ("assistant", {"content": "l"}, None, "old"))
    events = [*b.events, Event("user", len(b.events), 0, raw)]
    a = branch("a", ("assistant", {"content": "k"}, None, "old"))
    found, _ = merged(a, SessionEvents("b", events), blobs=MergeBlobs(None, lambda ref: "BIG"))
    own = found.events[len(a.events) + 1 :]
    assert [event.key for event in own if event.key] == ["key"]
    assert "BIG" in words(found)


def test_a_foreign_log_is_made_recordable():
    """Text that no line may hold is cleaned; an event without a proper type stays behind."""
    odd = [
        Event("user", 0, 0, b'{"content":"a\\u0000b"}'),
        Event("no type!", 1, 0, b"{}"),
        Event("assistant", 2, 0, b"[]"),
    ]
    found, report = merged(SessionEvents("a", []), SessionEvents("b", odd))
    assert report.merged_turns == 1
    assert [event.type for event in found.events] == ["forked", "user", "assistant", "merged"]


@settings(max_examples=50)
@given(strategies.logs(3), strategies.logs(3), st.data())
def test_every_turn_of_both_is_kept(a, b, data):
    """Whatever two sessions said: the merged one has the words of both, valid everywhere."""
    cut = data.draw(st.integers(0, len(a)))
    shared = a[:cut]
    forked = Event.make("forked", {"session": "a", "log": "LB"})
    other = [*shared, *_numbered([forked, *b], cut)]
    left, right = SessionEvents("a", a), SessionEvents("b", other)
    found, report = merged(left, right, policy=data.draw(st.sampled_from(["ours", "theirs", "both"])))
    types = ("user", "assistant", "tool_call", "tool_result")
    both = [event for event in [*a, *other[cut:]] if event.type in types]
    kept = [event for event in found.events if event.type in types]
    for type in types:
        assert sum(event.type == type for event in kept) == sum(event.type == type for event in both), report
    assert fold(found.events).status == "idle"
    for provider in PROVIDERS:
        assert validate(recover(found.events, provider).messages, provider).valid
