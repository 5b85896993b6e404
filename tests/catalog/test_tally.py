"""The tally: what is counted of a session."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.catalog import Tally
from holdfast.catalog._tally import TELLING
from holdfast.catalog._topics import auto_tags
from holdfast.catalog._usage import OTHERS
from holdfast.errors import InvalidData
from holdfast.model import Event
from holdfast.replay import fold

HOUR = 3_600_000
START = 1_770_000_000_000 // HOUR * HOUR

counts = st.integers(min_value=0, max_value=10**9)
figures = st.fixed_dictionaries(
    {},
    optional={
        "input_tokens": counts,
        "completion_tokens": counts,
        "total_tokens": counts,
        "cache_read_tokens": counts,
        "cache_creation_input_tokens": counts,
        "requests": counts,
        "cost": st.floats(min_value=0, max_value=100),
        "nonsense": st.sampled_from(["x", "", "7"]),
    },
)
models = st.sampled_from(["sonnet", "gpt", "", None, 7])
texts = st.sampled_from(["run pytest", "the quick brown fox", "旅行 nach Paris", "", "café übersetzen", "kubectl logs"])
ids = st.sampled_from(["a", "b"])
bodies = st.one_of(
    st.tuples(st.just("user"), st.fixed_dictionaries({"content": texts})),
    st.tuples(st.just("assistant"), st.fixed_dictionaries({"content": texts, "usage": figures, "model": models})),
    st.tuples(
        st.just("assistant"),
        st.fixed_dictionaries({"metadata": st.fixed_dictionaries({"usage": figures, "model": models})}),
    ),
    st.tuples(st.just("system"), st.just({"content": "Be brief."})),
    st.tuples(
        st.just("tool_call"), st.fixed_dictionaries({"id": ids, "tool": texts, "params": st.just({"path": "a.py"})})
    ),
    st.tuples(st.just("tool_call"), st.just({"tool": "no id", "usage": {"input_tokens": 5}})),
    st.tuples(
        st.just("tool_result"), st.fixed_dictionaries({"toolCallId": ids, "result": texts, "is_error": st.booleans()})
    ),
    st.tuples(
        st.just("assistant"),
        st.builds(lambda own, tool: {"content": [{"type": "tool_use", "id": own, "name": tool}]}, ids, texts),
    ),
    st.tuples(st.just("user"), st.builds(lambda own: {"content": [{"type": "tool_result", "tool_use_id": own}]}, ids)),
    st.tuples(st.sampled_from(["turn_start", "turn_end", "closed"]), st.just({})),
    st.tuples(st.just("usage"), figures),
    st.tuples(st.just("title"), st.fixed_dictionaries({"title": texts})),
)


@st.composite
def logs(draw):
    """Events of a session at odd times."""
    found = []
    for seq, (type, data) in enumerate(draw(st.lists(bodies, max_size=25))):
        at = draw(st.sampled_from([0, START, START + seq * 1000, START + 90 * HOUR, 5]))
        found.append(Event.make(type, data, seq=seq, timestamp=at))
    return found


def said(*events, at=START):
    """Events of a type with data, one second after the other."""
    return [Event.make(type, data, seq=seq, timestamp=at + seq * 1000) for seq, (type, data) in enumerate(events)]


@pytest.mark.req("S2-64")
@given(logs())
def test_figures_agree_with_the_state(events):
    """Tokens, requests, cost and messages are those that the session's state has."""
    usage, tally = fold(events).usage, Tally().feed(events)
    spent = tally.spent()
    assert sum(one.total for one in spent.values()) == usage.total_tokens
    assert sum(one.input for one in spent.values()) == usage.input_tokens
    assert sum(one.requests for one in spent.values()) == usage.requests
    assert sum(one.cost for one in spent.values()) == pytest.approx(usage.cost or 0.0)
    assert set(spent) == set(usage.by_model)
    assert tally.messages == fold(events).message_count


@given(logs())
def test_usage_alone_is_the_same_usage(events):
    """Counted without the words, the usage is that of the whole tally, also with events that are malformed."""
    assert Tally().feed_usage(events).spent() == Tally().feed(events).spent()


@given(logs())
def test_tags_come_from_the_events_that_tell(events):
    """No other event changes them, so that the index derives them only after one of these."""
    tally = Tally()
    for event in events:
        before = auto_tags(tally)
        assert auto_tags(tally.feed([event])) == before or event.type in TELLING


@given(logs(), st.lists(st.integers(min_value=0, max_value=25), max_size=4))
def test_pieces_do_not_matter(events, cuts):
    """Fed piece by piece, kept as bytes in between, it is the same to the byte."""
    whole = Tally().feed(events).to_bytes()
    kept = Tally().to_bytes()
    edges = [0, *sorted(cut for cut in cuts if cut < len(events)), len(events)]
    for first, last in pairwise(edges):
        kept = Tally.from_bytes(kept).feed(events[first:last]).to_bytes()
    assert kept == whole


@pytest.mark.parametrize("data", [b"", b"\xc1", b"{}", b"\x81\xa5shape\x63"])
def test_bytes_of_something_else(data):
    """Bytes that are no tally of this version are refused, so that the index reads the log anew."""
    with pytest.raises(InvalidData):
        Tally.from_bytes(data)


def test_a_long_and_wild_session_stays_small():
    """Years of hours, models, tools, files and words take a bounded number of bytes."""
    events = []
    for seq in range(0, 9000, 3):
        at = START + seq * 7 * HOUR
        call = {"id": f"c{seq}", "tool": f"tool{seq}", "params": {"path": f"dir/file{seq}.py"}}
        events += [
            Event.make("user", {"content": f"word{'abcdefghij'[seq % 10] * (seq % 7)} {seq}"}),
            Event.make("tool_call", call, seq=seq, timestamp=at),
            Event.make(
                "assistant",
                {"content": "x", "model": f"m{seq}", "usage": {"input_tokens": 1}},
                seq=seq + 1,
                timestamp=at,
            ),
        ]
    tally = Tally().feed(events)
    assert len(tally.to_bytes()) < 100_000
    assert sum(one.total for one in tally.spent().values()) == 3000
    assert sum(use.calls for use in tally.tools().values()) == 3000
    assert tally.messages == 6000
    assert OTHERS in tally.spent()
    assert tally.coarse_until > 0


def test_old_hours_become_days_first():
    """While there is room for them, days that were added up stay days."""
    events = [
        Event.make("assistant", {"content": "", "usage": {"input_tokens": 1}}, timestamp=at)
        for at in range(START, START + 700 * HOUR, HOUR)
    ]
    tally = Tally().feed(events)
    assert sum(one.total for one in tally.spent().values()) == 700
    coarse = [hour for hour in tally.hours if hour < tally.coarse_until]
    assert len(coarse) > 10
    assert {hour % 24 for hour in coarse[:-1]} == {12}


def test_latency_and_failure_of_tools():
    """The time from call to result, and whether it failed in either of the two ways."""
    events = said(
        ("tool_call", {"id": "a", "tool": "Bash", "params": {"command": "ls"}}),
        ("tool_call", {"id": "b", "tool": "Bash", "params": None}),
        ("tool_result", {"toolCallId": "a", "result": "ok"}),
        ("tool_result", {"toolCallId": "b", "result": {"error": True, "content": "no"}}),
        ("tool_call", {"id": "c", "tool": "Bash", "params": {}}),
        ("tool_result", {"toolCallId": "c", "result": "no", "is_error": True}),
        ("tool_result", {"toolCallId": "never called", "result": "?"}),
    )
    use = Tally().feed(events).tools()["Bash"]
    assert (use.calls, use.finished, use.failures) == (3, 3, 2)
    assert (use.timed, use.total_ms, use.max_ms) == (3, 5000, 2000)
    assert sum(use.buckets) == 3


@pytest.mark.parametrize("stop", ["turn_end", "closed", "interrupted"])
def test_waiting_for_a_person_is_no_latency(stop):
    """A call that a turn left open counts when its result comes, without a time."""
    events = said(
        ("tool_call", {"id": "a", "tool": "Ask"}), (stop, {}), ("tool_result", {"toolCallId": "a", "result": "yes"})
    )
    use = Tally().feed(events).tools()["Ask"]
    assert (use.finished, use.timed, use.total_ms) == (1, 0, 0)


def test_the_time_in_which_somebody_was_asked_is_no_latency():
    """A call runs from the decision about it on; those that were asked about together, from the last one."""
    events = said(
        ("tool_call", {"id": "a", "tool": "Read"}),
        ("tool_call", {"id": "b", "tool": "Edit"}),
        ("tool_call", {"id": "c", "tool": "Look"}),
        ("permission", {"tool": "Read", "call": "a", "decision": "allow"}),
        ("permission", {"tool": "Edit", "call": "b", "decision": "deny"}),
        ("permission", {"tool": "Edit", "call": "gone", "decision": "allow"}),
        ("tool_result", {"toolCallId": "a", "result": "yes"}),
        ("tool_result", {"toolCallId": "b", "result": "no", "is_error": True}),
        ("tool_result", {"toolCallId": "c", "result": "yes"}),
    )
    tools = Tally().feed(events).tools()
    assert [tools[name].total_ms for name in ("Read", "Edit", "Look")] == [2000, 3000, 6000]


def test_calls_that_never_end_are_forgotten():
    """So many calls may wait; the oldest go first."""
    events = [Event.make("tool_call", {"id": f"{n}", "tool": "T"}) for n in range(1000)]
    tally = Tally().feed(events)
    late = [Event.make("tool_result", {"toolCallId": f"{n}", "result": ""}) for n in range(1000)]
    assert Tally.from_bytes(tally.to_bytes()).feed(late).tools()["T"].finished == 256
    assert tally.tools()["T"].calls == 1000


def test_files_that_tools_touch():
    """From the members that name files, else whatever looks like a path."""
    events = said(
        ("tool_call", {"id": "1", "tool": "Read", "params": {"file_path": "/a b/c.py"}}),
        ("tool_call", {"id": "2", "tool": "Many", "params": {"paths": ["x.rs", "x.rs", 3]}}),
        ("tool_call", {"id": "3", "tool": "Bash", "params": {"command": "cat 'src/y.go' 1.5"}}),
    )
    assert Tally().feed(events).files == {"/a b/c.py": 1, "x.rs": 2, "src/y.go": 1}


def test_input_that_a_cache_had():
    """Some providers count cached input within the input, others beside it."""
    within = {"input_tokens": 100, "cache_read_tokens": 80, "cache_write_tokens": 5}
    beside = {"input_tokens": 100, "cache_read_input_tokens": 80}
    for usage, fresh in ((within, 15), (beside, 100), ({"input_tokens": 7}, 7)):
        events = said(("assistant", {"content": "", "model": "m", "usage": usage}))
        assert Tally().feed(events).spent()["m"].fresh == fresh


def test_times():
    """First and last time, and the time in which something went on."""
    events = [
        Event.make("user", {"content": "a"}, timestamp=at)
        for at in (START, START + 60_000, START + HOUR, START + HOUR + 1000, START - 5000, 0)
    ]
    tally = Tally().feed(events)
    assert (tally.first, tally.last) == (START, START + HOUR + 1000)
    assert tally.active_ms == 61_000


def test_times_that_no_calendar_has():
    """A timestamp may be anything."""
    tally = Tally().feed([Event.make("user", {"content": "a"}, timestamp=2**62)])
    assert tally.messages == 1
    assert Tally.from_bytes(tally.to_bytes()) == tally


def test_absurd_figures():
    """A number beyond reason counts as the largest, and the tally can still be kept."""
    events = said(("usage", {"input_tokens": 10**40}), ("usage", {"input_tokens": 10**40}))
    tally = Tally().feed(events)
    assert Tally.from_bytes(tally.to_bytes()).spent()[""].input == 2 * 10**12


def test_malformed_events_count_for_nothing():
    """What is no object, or lacks what it needs, is passed over."""
    raw = [("user", b"[1]"), ("tool_call", b'{"id": 3}'), ("usage", b'"x"'), ("assistant", b"nope")]
    events = [Event(type, seq, START, data) for seq, (type, data) in enumerate(raw)]
    tally = Tally().feed([*events, *said(("user", {"content": "pytest"}))])
    assert tally.asked == {"pytest": 1}


def test_turns():
    """Turns as recorded; of a log without them, what the user said."""
    asked = ("user", {"content": "x"})
    assert Tally().feed(said(asked, asked)).turns == 2
    assert Tally().feed(said(("turn_start", {}), asked, asked)).turns == 1


def test_who_and_with_what():
    """The agent, and the model that was named last."""
    events = said(
        ("session_start", {"agent_id": "planner"}),
        ("session_start", {"agent_id": "other"}),
        ("assistant", {"content": "", "model": "one", "usage": {}}),
        ("assistant", {"content": [{"text": "docker"}, 3], "model": "two"}),
        ("assistant", {"content": None}),
    )
    tally = Tally().feed(events)
    assert (tally.agent, tally.model, tally.told) == ("planner", "two", {"docker": 1})


def test_long_texts_are_counted_in_lots():
    """Many texts in one feeding are counted as if each came alone."""
    text = "kubectl and docker " * 100
    events = [Event.make("assistant", {"content": text}) for _ in range(80)]
    assert Tally().feed(events).told == {"docker": 8000, "kubectl": 8000}


def test_a_title_speaks_like_the_user():
    """Words of a title that a person gave count; those of an automatic one were said already."""
    events = said(("title", {"title": "docker"}), ("title", {"title": "pytest", "auto": True}))
    assert Tally().feed(events).asked == {"docker": 1}


def as_recorded(id, how, *, failed):
    """One call of a tool, its result in a message or alone, as a loop may record it."""
    tool, params = f"tool-{id}", {"path": f"{id}.py", "note": "docker"}
    use = {"type": "tool_use", "id": id, "name": tool, "input": params}
    result = {"type": "tool_result", "tool_use_id": id, "content": "gone", "is_error": failed}
    said = ("assistant", {"content": [use]})
    begun = ("tool_call", {"id": id, "tool": tool, "params": params})
    ended = ("tool_result", {"toolCallId": id, "result": "gone", "is_error": failed})
    return {
        "announced": [said, ended],
        "all in messages": [said, ("user", {"content": [result]})],
        "begun": [begun, ended],
        "both": [said, begun, ended],
        "begun again": [said, begun, begun, ended],
        "told afterwards": [begun, ended, said],
    }[how]


ways = st.sampled_from(["announced", "all in messages", "begun", "both", "begun again", "told afterwards"])


@given(st.lists(st.tuples(st.sampled_from(["x", "y", None]), ways, st.booleans()), max_size=8))
def test_a_call_counts_once_however_it_was_recorded(history):
    """Calls, ends, failures, files, words and tokens are those of the same log with plain calls."""

    def figures(plain):
        tally = Tally()
        for number, (run, how, failed) in enumerate(history):
            steps = as_recorded(f"c{number}", "begun" if plain else how, failed=failed)
            tally.feed(Event.make(*step, run=run, timestamp=START) for step in steps)
        tools = {name: (use.calls, use.finished, use.failures) for name, use in tally.tools().items()}
        return tools, tally.files, tally.told, tally.estimate

    assert figures(plain=False) == figures(plain=True)
    assert figures(plain=False)[0] == {
        f"tool-c{number}": (1, 1, int(failed)) for number, (_, _, failed) in enumerate(history)
    }


def test_a_call_takes_time_from_its_beginning():
    """The time that a call waited in its message before it was begun is not the tool's."""
    steps = as_recorded("a", "both", failed=False)
    use = Tally().feed(said(*steps)).tools()["tool-a"]
    assert (use.timed, use.total_ms) == (1, 1000)


def test_results_in_a_message_are_not_what_the_user_asks():
    """A message that brings only results begins no turn."""
    asked = ("user", {"content": "x"})
    steps = [asked, *as_recorded("a", "all in messages", failed=False)]
    assert Tally().feed(said(*steps)).turns == 1
