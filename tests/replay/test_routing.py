"""Which run an event belongs to: by its own word, or by names and order in plain logs."""

from __future__ import annotations

import pytest

from holdfast.model import Event
from holdfast.replay import Conversation, runs


def log(*steps):
    """Events of (type, data) or (type, data, run) steps."""
    return [
        Event.make(step[0], step[1], seq=seq, run=step[2] if len(step) > 2 else None) for seq, step in enumerate(steps)
    ]


def user(content, **more):
    return "user", {"content": content, **more}


def says(agent, content):
    return "assistant", {"content": content, "agent": agent}


def calls(agent, identity):
    return "tool_call", {"id": identity, "tool": "task", "params": {}, "agent": agent}


def result(identity, value="done"):
    return "tool_result", {"toolCallId": identity, "result": value}


def start(agent, depth=None, **more):
    more |= {} if depth is None else {"depth": depth}
    return "agent_start", {"agent": agent, **more}


def iterates(agent, number):
    return "agent_iteration", {"agent": agent, "iteration": number}


def ends(agent):
    return "agent_complete", {"agent": agent, "duration": 1}


def delegates(parent, child, task):
    return "delegation", {"parent": parent, "child": child, "task": task}


def texts(conversation):
    """All words of a conversation, in order."""
    found = []
    for message in conversation.messages():
        content = message["content"]
        blocks = [{"text": content}] if isinstance(content, str) else content
        found += [block["text"] for block in blocks if "text" in block]
    return [words for words in found if words != "(the conversation begins here)"]


def split(*steps):
    """The words of each run by its id."""
    return {run.id: texts(run.conversation) for run in runs(log(*steps))}


@pytest.mark.req("S3-43")
def test_a_recorded_delegation_is_told_apart():
    """A plain log in the shape that recorders write: the child's talk is in a run of its own."""
    events = log(
        says("system", "loading"),
        start("boss", 0),
        user("do it"),
        iterates("boss", 1),
        says("boss", "I ask"),
        start("helper", 1),
        calls("boss", "c1"),
        delegates("boss", "helper", "your task"),
        iterates("helper", 1),
        user("your task"),
        ends("helper"),
        result("c1", "the answer"),
        says("helper", "an answer"),
        iterates("boss", 2),
        says("boss", "done"),
        ends("boss"),
    )
    top, child = runs(events)
    assert (top.id, top.agent, child.id, child.agent) == (None, "boss", "helper#1", "helper")
    assert texts(top.conversation) == ["do it", "I ask", "done"]
    assert texts(child.conversation) == ["your task", "an answer"]
    assert top.conversation.messages()[2]["content"][0]["content"] == "the answer"
    only_child = Conversation(run="helper#1")
    for event in events:
        only_child.feed(event)
    assert only_child.messages() == child.conversation.messages()
    assert only_child.issues == []


@pytest.mark.req("S3-74")
def test_the_top_level_agent_goes_on_when_it_starts_again():
    """A second execution of the same agent continues the conversation, earlier answers included."""
    found = split(
        start("boss", 0), user("one"), says("boss", "1"), ends("boss"),
        start("boss", 0), user("two"), says("boss", "2"), ends("boss"),
    )  # fmt: skip
    assert found == {None: ["one", "1", "two", "2"]}


def test_without_depth_an_agent_goes_on_after_it_ended():
    """If depths are not recorded, a start after the end is the same conversation."""
    found = split(start("boss"), user("a"), says("boss", "b"), ends("boss"), start("boss"), user("c"))
    assert found == {None: ["a", "b", "c"]}


def test_an_agent_may_delegate_to_its_own_kind():
    """A child of the same name, started while the parent runs, is another run."""
    found = split(
        start("boss"), user("a"), iterates("boss", 1), calls("boss", "c"),
        delegates("boss", "boss", "sub"), start("boss"), user("sub"), iterates("boss", 1),
        calls("boss", "d"), result("d"), iterates("boss", 2), says("boss", "inner"), ends("boss"),
        result("c"), iterates("boss", 2), says("boss", "outer"), ends("boss"),
    )  # fmt: skip
    assert found == {None: ["a", "outer"], "boss#1": ["sub", "inner"]}


def test_a_child_of_its_own_kind_may_start_before_the_call_is_recorded():
    """A start that is written before the parent's call does not take the call along."""
    steps = (
        start("boss", 0), user("a"), iterates("boss", 1), says("boss", "I ask"),
        start("boss", 1), calls("boss", "c1"),
        delegates("boss", "boss", "sub"), user("sub"), iterates("boss", 1), calls("boss", "c2"),
        calls("boss", "c3"), result("c3"), result("c2"), iterates("boss", 2),
        says("boss", "inner"), result("c1", "answer"), ends("boss"),
    )  # fmt: skip
    top, child = runs(log(*steps))
    assert "answer" in str(top.conversation.messages())
    assert len(child.conversation.messages()[1]["content"]) == 2
    assert top.conversation.issues == child.conversation.issues == []


def test_another_top_level_agent_is_another_run():
    """The first agent started is the top-level one; a different one beside it is kept apart."""
    found = split(start("a", 0), user("x"), says("a", "y"), ends("a"), start("b", 0), says("b", "z"))
    assert found == {None: ["x", "y"], "b#1": ["z"]}


def test_agents_that_never_started_are_told_apart_by_name():
    """Without starts, the first agent that speaks is the top-level one."""
    found = split(user("q"), says("main", "a"), says("other", "b"), ("assistant", {"content": "c"}))
    assert found == {None: ["q", "a", "c"], "other#1": ["b"]}


def test_a_prompt_goes_to_the_agent_that_was_given_it():
    """A prompt is matched with the task of a delegation, also before the agent has started."""
    found = split(
        start("boss", 0), user("go"), calls("boss", "c1"), calls("boss", "c2"),
        delegates("boss", "a", "task a"), delegates("boss", "b", "task b"),
        user("task b"), user("task a"), start("a", 1), start("b", 1),
        says("a", "1"), says("b", "2"), ends("a"), ends("b"),
    )  # fmt: skip
    assert found == {None: ["go"], "b#1": ["task b", "2"], "a#1": ["task a", "1"]}


def test_a_prompt_recorded_before_its_delegation_is_moved():
    """A child's prompt that was written first is taken out of the parent's conversation."""
    found = split(
        start("boss", 0), user("go"), calls("boss", "c"), user("sub"),
        delegates("boss", "kid", "sub"), start("kid", 1), says("kid", "x"),
    )  # fmt: skip
    assert found == {None: ["go"], "kid#1": ["sub", "x"]}


def test_a_users_own_words_in_between_stay():
    """Words that no delegation repeats stay with the agent they were said to."""
    steps = (start("boss", 0), user("go"), calls("boss", "c"), user("hurry"))
    assert split(*steps, delegates("boss", "kid", "sub"))[None] == ["go", "hurry"]
    assert split(*steps, iterates("boss", 2), delegates("boss", "kid", "hurry"))[None] == ["go", "hurry"]
    assert split(*steps, ("delegation", {"child": 5}))[None] == ["go", "hurry"]


def test_a_prompt_without_a_match_goes_to_whoever_runs_innermost():
    """An unmatched prompt is the newest child's first, and the person's when nobody else runs."""
    found = split(
        start("boss", 0), user("go"), start("kid", 1), user("wrapped task"), user("retry"),
        says("kid", "x"), ends("kid"), says("boss", "y"), user("thanks"),
    )  # fmt: skip
    assert found == {None: ["go", "y", "thanks"], "kid#1": ["wrapped task", "retry", "x"]}


def test_a_user_event_may_name_its_agent():
    """Words to a named agent go to that agent, if it is known."""
    found = split(
        start("boss", 0), user("a"), start("kid", 1), user("b"), user("c", agent="boss"),
        user("d", agent="nobody"),
    )  # fmt: skip
    assert found == {None: ["a", "c"], "kid#1": ["b", "d"]}


def test_children_are_over_when_their_parent_goes_on():
    """A child that never ended (a crash) does not catch later words of the person."""
    found = split(
        start("boss", 0), user("a"), calls("boss", "c"), start("kid", 1), user("b"),
        start("grandkid", 2), user("c"), iterates("boss", 2), user("d"),
        start("kid", 1), start("boss", 0), user("e"),
    )  # fmt: skip
    assert found[None] == ["a", "d", "e"]


def test_an_agent_that_failed_is_over():
    """An error ends a run as a completion does."""
    found = split(
        start("boss", 0), user("a"), start("kid", 1), user("b"), ("agent_error", {"agent": "kid"}),
        user("c"), ends("nobody"), iterates("nobody", 1),
    )  # fmt: skip
    assert found == {None: ["a", "c"], "kid#1": ["b"]}


def test_late_words_go_to_the_run_that_still_owes_them():
    """The last words of one run may be written after the next run of that name has started."""
    found = split(
        start("boss", 0), user("a"), iterates("boss", 1),
        delegates("boss", "kid", "t1"), start("kid", 1), user("t1"), iterates("kid", 1),
        ends("kid"),
        delegates("boss", "kid", "t2"), start("kid", 1), says("kid", "r1"),
        user("t2"), iterates("kid", 1), says("kid", "r2"), ends("kid"),
        says("kid", "after all"),
    )  # fmt: skip
    assert found["kid#1"] == ["t1", "r1"]
    assert found["kid#2"] == ["t2", "r2", "after all"]


def test_without_prompts_and_iterations_the_newest_run_speaks():
    """Even a log that records only starts and words is split by start."""
    found = split(
        start("boss", 0), start("kid", 1), says("kid", "1"), ends("kid"), start("kid", 1),
        says("kid", "2"),
    )  # fmt: skip
    assert found == {None: [], "kid#1": ["1"], "kid#2": ["2"]}


def test_children_find_their_parent_by_name_or_depth():
    """A start may name its parent; else the innermost run above its depth is it."""
    found = split(
        start("boss", 0), user("a"), start("kid", 1, parent="boss"), user("b"),
        start("toy", 2, parent="kid"), user("c"), start("pet", 1), user("d"),
        start("ghost", parent="nobody"), user("e"), start(None, 3), user("f"),
    )  # fmt: skip
    assert found[None] == ["a"]
    assert found["agent#1"] == ["f"]


def test_delegations_before_any_start_name_the_top_level():
    """If the first thing recorded is a delegation, its parent is the top-level agent."""
    found = split(delegates("boss", "kid", "t"), start("kid", 1), user("t"), says("boss", "x"))
    assert found == {None: ["x"], "kid#1": ["t"]}


def test_very_many_starts_stay_quick():
    """Thousands of activities that never end do not make each event slower."""
    steps = [start("boss", 0), user("a")]
    for number in range(3000):
        steps += [delegates("boss", "kid", f"t{number}"), start("kid", 1), user(f"t{number}")]
        steps += [delegates("boss", "lost", "never started")]
    found = runs(log(*steps))
    assert len(found) == 3001
    assert texts(found[0].conversation) == ["a"]


# --- events that name their run


def test_runs_are_told_apart_by_their_ids():
    """Events of other runs never reach the top-level conversation, nor each other."""
    found = split(
        user("a"), ("user", {"content": "b"}, "r1"), ("assistant", {"content": "c"}, "r2"),
        says("x", "d"), ("assistant", {"content": "e"}, "r1"),
    )  # fmt: skip
    assert found == {None: ["a", "d"], "r1": ["b", "e"], "r2": ["c"]}


def test_the_first_run_is_the_top_level_one():
    """A log whose first words name a run has that run as its top level."""
    found = split(
        ("agent_start", {"agent": "boss"}, "r1"), ("user", {"content": "a"}, "r1"),
        ("delegation", {"parent": "boss", "child": "kid"}, "r1"),
        ("agent_start", {"agent": "kid", "parent": "boss"}, "r2"), ("user", {"content": "b"}, "r2"),
        ("agent_complete", {"agent": "kid"}, "r2"), ("agent_complete", {"agent": "boss"}, "r1"),
        ("agent_start", {"agent": "boss"}, "r3"), ("user", {"content": "c"}, "r3"),
        ("agent_start", {"agent": "other", "depth": 0}, "r4"), ("user", {"content": "d"}, "r4"),
        ("agent_start", {"agent": "boss", "depth": 1}, "r5"), ("user", {"content": "e"}, "r5"),
    )  # fmt: skip
    assert found == {None: ["a", "c", "d"], "r2": ["b"], "r5": ["e"]}


def test_results_go_where_their_call_is():
    """A result is paired within its run if it can be, else wherever the call of that id is."""
    events = log(
        user("a"),
        ("tool_call", {"id": "c", "tool": "T", "params": {}}, "r1"),
        ("tool_call", {"id": "c", "tool": "T", "params": {}}, "r2"),
        ("tool_result", {"toolCallId": "c", "result": "one"}, "r1"),
        ("tool_result", {"toolCallId": "c", "result": "two"}, "r2"),
        calls("main", "top"),
        ("tool_result", {"toolCallId": "top", "result": "three"}, "r1"),
        ("tool_result", {"toolCallId": "nobody", "result": "four"}, "r1"),
        result(["odd"], "five"),
    )
    found = {run.id: str(run.conversation.messages()) for run in runs(events)}
    assert "one" in found["r1"]
    assert "two" in found["r2"]
    assert "three" in found[None]
    issues = {run.id: str([i.content for i in run.conversation.issues]) for run in runs(events)}
    assert "four" in issues["r1"]
    assert "five" in issues[None]


def test_runs_may_use_the_same_ids():
    """Of calls with one id in parent and child, the innermost is answered first."""
    events = log(
        start("boss", 0), user("go"), calls("boss", "call_0"), start("kid", 1), user("sub"),
        calls("kid", "call_0"), result("call_0", "inner"), says("kid", "x"), ends("kid"),
        result("call_0", "outer"),
    )  # fmt: skip
    top, child = runs(events)
    assert "outer" in str(top.conversation.messages())
    assert "inner" in str(child.conversation.messages())
    assert top.conversation.issues == child.conversation.issues == []


def test_retraction_reaches_every_run():
    """What is taken back is taken back in whichever run it was said."""
    found = split(
        user("a"), ("user", {"content": "b"}, "r1"), ("retracted", {"seqs": [1]}, "r9"),
    )  # fmt: skip
    assert found == {None: ["a"], "r1": []}


def test_an_orphan_can_be_retracted():
    """A result without a call, in a run of its own, is no longer reported once it is taken back."""
    events = log(user("a"), ("tool_result", {"toolCallId": "x", "result": "y"}, "r1"))
    assert [i.type for i in runs(events)[1].conversation.issues] == ["orphaned_tool_result"]
    events += [Event.make("retracted", {"seqs": [1]}, seq=2)]
    assert [i.type for i in runs(events)[1].conversation.issues] == ["retracted"]


def test_runs_survive_what_cannot_be_read():
    """Unreadable events are reported with the top-level run or the run they belong to."""
    events = [*log(user("a")), None, Event("user", 2, 0, b"[]")]
    broken = Event("retracted", 3, 0, b"{}")
    broken.__dict__["data"] = []
    found = runs([*events, broken])
    assert [issue.type for issue in found[0].conversation.issues] == ["unreadable_event"] * 3


def test_a_run_without_an_agent_has_no_name():
    """Runs tell their agent if any of their events does."""
    found = runs(log(user("a"), ("user", {"content": "b"}, "r1"), ("assistant", {"agent": 5}, "r2")))
    assert [run.agent for run in found] == [None, None, None]


def test_a_result_goes_to_the_newest_of_many_runs_that_used_its_id():
    """Each of three runs calls with the same id; their results come back from the innermost on."""
    steps = [("tool_call", {"id": "1", "tool": "t", "params": {"n": n}}, run) for n, run in enumerate("abbcb")]
    events = log(("user", {"content": "go"}, "a"), *steps, *(result("1", n) for n in "4321"))
    told = {one.id: one.conversation.messages() for one in runs(events, incomplete="drop")}
    given = {
        run: [
            block["content"]
            for message in messages
            for block in message["content"]
            if isinstance(block, dict) and block["type"] == "tool_result"
        ]
        for run, messages in told.items()
    }
    assert given == {None: ["1"], "b": ["4", "2"], "c": ["3"]}
