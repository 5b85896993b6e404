"""A session as people read it: what the entries hold, and in which order they come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Event
from holdfast.replay import Media, Transcript, as_json, as_text, grouped, read_transcript


def log(*events, run=None):
    """Events with numbers, as a log gives them; the third member of one is its run."""
    return [
        Event.make(kind, data, seq=number, timestamp=1000 + number, run=own[0] if own else run)
        for number, (kind, data, *own) in enumerate(events)
    ]


def told(*events):
    """Kind, name and text of each entry."""
    found = read_transcript(log(*events))
    return [(entry.kind, entry.name, entry.text) for entry in found]


def texts(*events):
    return [entry.text for entry in read_transcript(log(*events))]


def test_what_nobody_said_is_not_shown():
    """A word to the model that it is to go on is no message of a person."""
    assert texts(("user", {"content": "go on", "synthetic": True}), ("user", {"content": "hi"})) == ["hi"]


# -- what is said and done -----------------------------------------------------------------------


def test_what_is_said_and_done():
    """Messages, calls and results in the order of the log; a result names its tool."""
    assert told(
        ("session_start", {}),
        ("user", {"content": "hi"}),
        ("thinking", {"content": "hm"}),
        ("tool_call", {"id": "1", "tool": "Read", "params": {"path": "a", "n": 2}}),
        ("tool_result", {"toolCallId": "1", "result": {"content": "text"}}),
        ("tool_call", {"tool": "Write", "params": None}),
        ("tool_result", {"toolCallId": "2", "result": {"code": 1}, "is_error": True}),
        ("assistant", {"content": "ho", "agent": "helper"}),
    ) == [
        ("user", "", "hi"),
        ("thinking", "", "hm"),
        ("call", "Read", ""),
        ("result", "Read", "text"),
        ("call", "Write", ""),
        ("failure", "", '{"code":1}'),
        ("assistant", "", "ho"),
    ]


def test_the_parts_of_a_message_are_entries_with_places():
    """Words, thoughts, calls and results inside of a message are told apart by (seq, part)."""
    entries = list(
        read_transcript(
            log(
                (
                    "assistant",
                    {
                        "content": [
                            {"type": "thinking", "thinking": "hm"},
                            {"type": "text", "text": "one"},
                            "two",
                            {"type": "tool_use", "id": "c", "name": "Read", "input": {"n": 1}},
                            {"type": "text", "text": "three"},
                        ]
                    },
                ),
                (
                    "user",
                    {
                        "content": [
                            {"type": "tool_result", "tool_use_id": "c", "content": "seen"},
                            {"type": "text", "text": "go on"},
                        ]
                    },
                ),
            )
        )
    )
    assert [(one.seq, one.part, one.kind, one.text) for one in entries] == [
        (0, 0, "thinking", "hm"),
        (0, 1, "assistant", "one\ntwo"),
        (0, 2, "call", ""),
        (0, 3, "assistant", "three"),
        (1, 0, "result", "seen"),
        (1, 1, "user", "go on"),
    ]
    assert entries[4].name == "Read"
    assert entries[2].value == {"n": 1}


def test_a_message_without_words_is_there():
    """An empty answer is an answer."""
    assert told(("assistant", {"content": None}), ("user", {"content": []})) == [
        ("assistant", "", ""),
        ("user", "", ""),
    ]


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"type": "reasoning", "summary": [{"type": "summary_text", "text": "so"}]}, "so"),
        ({"type": "reasoning", "content": [{"type": "reasoning_text", "text": "so"}]}, "so"),
        ({"type": "reasoning"}, "[thinking that only its provider can read]"),
    ],
)
def test_reasoning_is_thinking(block, text):
    """Thoughts of any provider are thoughts."""
    assert told(("assistant", {"content": [block]})) == [("thinking", "", text)]


# -- one call has one identity -------------------------------------------------------------------

CALL = {"type": "tool_use", "id": "c", "name": "Read", "input": {"path": "a"}}


def test_a_call_recorded_twice_is_one():
    """A block of a message and the event of the same call, in either order, are one call."""
    block, event = (
        ("assistant", {"content": [CALL]}),
        ("tool_call", {"id": "c", "tool": "Read", "params": {"path": "a"}}),
    )
    result = ("tool_result", {"toolCallId": "c", "result": "x"})
    once = [("call", "Read", ""), ("result", "Read", "x")]
    assert told(block, event, result) == once
    assert told(event, block, result) == once


def test_a_call_in_another_run_or_after_its_result_is_another():
    """The same id names one call only in one run, and until it is answered."""
    call = ("tool_call", {"id": "c", "tool": "Read", "params": {}})
    other = ("tool_call", {"id": "c", "tool": "Write", "params": {}}, "r2")
    result = ("tool_result", {"toolCallId": "c", "result": "x"})
    late = ("tool_result", {"toolCallId": "c", "result": "y"}, "r2")
    names = [(kind, name) for kind, name, _ in told(call, other, result, call, late)]
    assert names == [("call", "Read"), ("call", "Write"), ("result", "Read"), ("call", "Read"), ("result", "Write")]


def test_arguments_that_come_later_are_shown():
    """What an announcement lacked is told when it comes; the call stays one."""
    entries = list(
        read_transcript(
            log(
                ("tool_call", {"id": "c", "tool": "Run", "params": {}}),
                ("tool_call", {"id": "c", "tool": "Run", "params": {"command": "ls"}}),
                ("tool_call", {"id": "c", "tool": "Run"}),
            )
        )
    )
    assert [(one.value, one.again) for one in entries] == [({}, False), ({"command": "ls"}, True)]


def test_a_second_result_names_its_tool():
    """A result that comes late or twice is shown with the tool."""
    result = ("tool_result", {"toolCallId": "c", "result": "x"})
    call = ("tool_call", {"id": "c", "tool": "Read"})
    assert told(call, result, result)[1:] == [("result", "Read", "x")] * 2


# -- streams -------------------------------------------------------------------------------------


def test_streamed_text_is_shown_once():
    """Pieces that a final message covers are not shown; those that were cut off are."""
    covered = [
        ("delta", {"content": "he"}),
        ("delta", {"content": "llo"}),
        ("assistant", {"content": "hello", "covers_from": 0}),
    ]
    assert texts(*covered) == ["hello"]
    cut = [("delta", {"content": "he"}), ("delta", {"content": "l"}), ("interrupted", {})]
    entries = list(read_transcript(log(*cut)))
    assert [(one.text, one.name, one.state) for one in entries] == [("hel", "", "cut"), ("", "interrupted", "whole")]
    (still,) = read_transcript(log(*cut[:2]))
    assert (still.text, still.state) == ("hel", "open")


def test_what_a_final_message_does_not_cover_stays():
    """A message covers its run from ``covers_from`` on; what was streamed before was cut off."""
    entries = list(
        read_transcript(
            log(
                ("delta", {"content": "alpha"}),
                ("delta", {"content": "omega "}),
                ("assistant", {"content": "omega ends", "covers_from": 1}),
            )
        )
    )
    assert [(one.seq, one.text, one.state) for one in entries] == [(0, "alpha", "cut"), (2, "omega ends", "whole")]


def test_a_final_message_that_covers_nothing_hides_nothing():
    """Without ``covers_from`` nothing of what was streamed is in the message."""
    assert texts(("delta", {"content": "a"}), ("assistant", {"content": "b"})) == ["a", "b"]


def test_a_message_covers_what_it_has_words_of():
    """Complete thoughts leave the words alone, and an answer without thoughts leaves these."""
    thought = ("delta", {"content": "t", "kind": "thinking"})
    word = ("delta", {"content": "w"})
    final = ("thinking", {"content": "t!", "covers_from": 0})
    assert texts(thought, word, final) == ["w", "t!"]
    assert texts(word, thought, ("assistant", {"content": "w!", "covers_from": 0})) == ["t", "w!"]
    both = [{"type": "thinking", "thinking": "t!"}, {"type": "text", "text": "w!"}]
    assert texts(word, thought, ("assistant", {"content": both, "covers_from": 0})) == ["t!", "w!"]
    summed = [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "t!"}]}]
    assert texts(thought, ("assistant", {"content": summed, "covers_from": 0})) == ["t!"]
    late = [thought, word, ("assistant", {"content": "w!", "covers_from": 1})]
    assert texts(*late) == ["t", "w!"]
    assert texts(*late, final) == ["w!", "t!"]


NOT_SAID = ["", [], None, 7, [{"type": "tool_use", "id": "c", "name": "Look", "input": {}}]]
OPAQUE = [{"type": "reasoning", "encrypted_content": "x"}, {"type": "redacted_thinking"}]


@pytest.mark.parametrize("content", [*NOT_SAID, OPAQUE], ids=repr)
def test_a_message_without_words_covers_nothing(content):
    """What was streamed stays, whatever such a message says of it: words and thoughts."""
    streamed = [("delta", {"content": "word"}), ("delta", {"content": "idea", "kind": "thinking"})]
    for type in ("assistant", "thinking"):
        found = texts(*streamed, (type, {"content": content, "covers_from": 0}))
        assert [one for one in found if one in ("word", "idea")] == ["word", "idea"]


@pytest.mark.parametrize("said", ["kept", {"$blob": "0" * 64, "bytes": 9}])
@pytest.mark.parametrize("kind", ["refusal", "text"])
def test_a_message_in_blocks_covers_what_they_say(said, kind):
    """Refusals and texts count, also where they are kept beside the log."""
    final = ("assistant", {"content": [{"type": kind, kind: said}], "covers_from": 0})
    assert "word" not in texts(("delta", {"content": "word"}), final)


def test_streams_of_parallel_runs_and_agents_do_not_mix():
    """Each run's pieces belong to it, and within a run each agent's."""
    assert texts(
        ("delta", {"content": "a"}, "1"),
        ("delta", {"content": "b"}, "2"),
        ("assistant", {"content": "a!", "covers_from": 0}, "1"),
    ) == ["b", "a!"]
    assert texts(
        ("delta", {"content": "a", "agent": "x"}),
        ("delta", {"content": "b", "agent": "y"}),
        ("assistant", {"content": "a!", "agent": "x", "covers_from": 0}),
        ("agent_complete", {"agent": "y"}),
    ) == ["b", "a!"]


def test_words_stand_where_they_were_said():
    """An answer that was cut off stands before what came after it, and a call between its parts."""
    assert texts(
        ("user", {"content": "one"}),
        ("delta", {"content": "he"}),
        ("turn_end", {"turn": 0, "reason": "completed"}),
        ("user", {"content": "two"}),
    ) == ["one", "he", "two"]
    entries = list(
        read_transcript(
            log(
                ("delta", {"content": "let me "}),
                ("delta", {"content": "look"}),
                ("tool_call", {"id": "c", "tool": "Read"}),
                ("delta", {"content": "found"}),
            )
        )
    )
    assert [(one.seq, one.text or one.name) for one in entries] == [(0, "let me look"), (2, "Read"), (3, "found")]


def test_a_stream_without_words_is_nothing():
    """Pieces that hold no text make no entry."""
    assert texts(("delta", {"content": ""}), ("delta", {"content": None}), ("user", {})) == [""]


def test_a_follower_sees_what_is_being_said():
    """What is open can be asked for after each event, and nothing is ended by it."""
    reader = Transcript()
    question, first, second, final, end = log(
        ("user", {"content": "q"}),
        ("delta", {"content": "a"}),
        ("delta", {"content": "b"}),
        ("assistant", {"content": "ab", "covers_from": 1}),
        ("turn_end", {}),
    )
    assert [one.text for one in reader.feed(question)] == ["q"]
    assert (reader.open_from, reader.is_streaming) == (1, False)
    assert reader.feed(first) == []
    assert [one.text for one in reader.rest()] == ["a"]
    assert reader.feed(second) == []
    assert [(one.seq, one.text, one.state) for one in reader.rest()] == [(1, "ab", "open")]
    assert (reader.open_from, reader.is_streaming) == (1, True)
    assert reader.rest()[0].last == 2
    assert [one.text for one in reader.feed(final)] == ["ab"]
    assert reader.feed(end) == []
    assert (reader.rest(), reader.open_from) == ([], 5)


@pytest.mark.parametrize(
    ("decision", "note"),
    [
        ("ask", ("Run (event 0) not run so far", "nobody answered whether it may run")),
        ("deny", ("Run (event 0) not run", "it was refused")),
    ],
)
def test_what_did_not_run_is_told_before_its_turn_ends(decision, note):
    """Also while the answer may still come, behind the last event."""
    call = ("tool_call", {"id": "1", "tool": "Run", "params": {}})
    asked = ("permission", {"call": "1", "tool": "Run", "decision": decision})
    assert told(call, asked)[1:] == [("note", *note)]


def test_a_call_is_open_until_its_result_or_the_end_of_its_turn():
    """What may still change begins with the first call that has no result."""
    for end in (("tool_result", {"toolCallId": "c"}), ("turn_end", {}), ("interrupted", {})):
        reader = Transcript()
        call, user, last = log(("tool_call", {"id": "c", "tool": "Read"}), ("user", {}), end)
        reader.feed(call)
        reader.feed(user)
        assert reader.open_from == 0
        reader.feed(last)
        assert reader.open_from == 3


# -- notes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (("compaction", {"summary": "short", "covers": [0, 4]}), "0, 4 summarised short"),
        (("compaction", {"summary": "short", "covers": 7}), "events 7 summarised"),
        (("retracted", {"seqs": [1, 2]}), "events 1, 2"),
        (("retracted", {"seqs": [1], "replacement": "other words"}), "other words"),
        (("interrupted", {"reason": "killed"}), "killed"),
        (("delegation", {"parent": "a", "child": "b", "task": "look"}), "a asks b look"),
        (("agent_start", {"agent": "a", "task": "look"}), "a begins look"),
        (("agent_error", {"error": "boom", "agent": "x"}), "boom"),
        (("agent_error", {"error": {"code": "model_failed", "message": "no answer"}, "agent": "x"}), "error no answer"),
        (("agent_error", {"error": {"code": "lost", "message": " "}, "agent": "x"}), '"code"'),
        (("agent_error", {"error": {"code": "lost"}, "agent": "x"}), '"lost"'),
        (("repaired", {"lost": 3}), "event 3 was lost"),
        (("repaired", {"generation": 1}), "repaired"),
        (("redacted", {}), "redacted"),
        (("suspended", {"reason": "asks"}), "asks"),
        (("resumed", {"reason": "answered"}), "resumed answered"),
        (("delegation_complete", {"child": "b", "result": "found"}), "b is done found"),
        (("turn_end", {"reason": "failed"}), "the turn ended: failed"),
        (("turn_end", {"reason": "stopped", "limit": "cost"}), "the turn ended: stopped at its limit of cost"),
        (("forked", {"session": "trip", "seq": 4}), "forked from trip at event 4"),
        (("forked", {}), "forked from another session"),
        (("merged", {"session": "trip"}), "merged with trip"),
        (("imported", {"tool": "codex", "problems": ["no model"]}), "codex no model"),
        (("imported", {"format": "codex"}), "imported from codex"),
        (("imported", {}), "imported from another program"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_notes(event, words):
    """What happened beside the talk is told in a note."""
    ((kind, name, text),) = told(event)
    assert kind == "note"
    assert words in f"{name} {text}"


@pytest.mark.parametrize("reason", ["completed", "suspended", "interrupted", "imported", "merged"])
def test_a_turn_that_ended_as_it_should_needs_no_note(reason):
    """Only an end that people should know of is told."""
    assert told(("turn_end", {"reason": reason})) == []


def test_a_failed_turn_is_told_once():
    """Its error says it; a turn that failed without one is told by its end."""
    error = ("agent_error", {"agent": "a", "error": "boom"}, "r")
    assert [name for _, name, _ in told(error, ("turn_end", {"reason": "failed"}, "r"))] == ["error"]
    other = told(error, ("turn_end", {"reason": "failed"}, "r2"))
    assert [name for _, name, _ in other] == ["error", "the turn ended: failed"]


@pytest.mark.parametrize("run", [{"child_run": "d"}, {}], ids=["run", "name"])
def test_what_a_delegate_was_told_and_answered_is_shown_once(run):
    """Its task is with the delegation, its result among its words; what differs is told again."""
    child = ("d",) if run else ()
    asks = ("delegation", {"parent": "a", "child": "b", "task": "look", **run})
    begins = ("agent_start", {"agent": "b", "task": "look"}, *child)
    says = ("assistant", {"content": "found", "agent": "b"}, *child)
    other = ("assistant", {"content": "elsewhere", "agent": "c"}, "r9")
    done = ("delegation_complete", {"child": "b", "result": "found", **run})
    assert texts(asks, begins, says, other, done) == ["look", "found", "elsewhere", ""]
    more = ("delegation_complete", {"child": "b", "result": "more", **run})
    assert texts(asks, begins, says, other, more)[-1] == "more"


# -- gaps and what cannot be read ----------------------------------------------------------------


def test_a_gap_is_told_in_its_place():
    """Events that could not be read leave a note, also inside of a stream."""
    one, *_, last = log(*[("user", {"content": str(n)}) for n in range(5)])
    found = [entry.name or entry.text for entry in read_transcript([one, last])]
    assert found == ["0", "events 1 to 3 cannot be read", "4"]
    pieces = log(*[("delta", {"content": str(n)}) for n in range(3)])
    found = [entry.name or entry.text for entry in read_transcript([pieces[0], pieces[2]])]
    assert found == ["0", "event 1 cannot be read", "2"]


def test_what_was_not_asked_for_is_not_missing():
    """The end of a log begins where it begins; a hole in it is still told."""
    events = log(*[("user", {"content": str(number)}) for number in range(6)])
    assert [e.text for e in read_transcript(events[3:], 3)] == ["3", "4", "5"]
    hole, *rest = read_transcript(events[4:], 3)
    assert (hole.kind, hole.name) == ("note", "event 3 cannot be read")
    assert [e.text for e in rest] == ["4", "5"]


def test_data_that_is_not_valid_is_shown_as_it_is():
    """A foreign log may hold anything; its words are not left out."""
    (entry,) = read_transcript([Event("user", 0, 5, b'["hello"]')])
    assert (entry.kind, entry.text) == ("note", '["hello"]')


# -- messages ------------------------------------------------------------------------------------


def test_an_answer_is_one_message():
    """Thinking, words and calls of one run are together; what is of another kind is by itself."""
    entries = read_transcript(
        log(
            ("user", {"content": "q"}),
            ("thinking", {"content": "t"}),
            ("assistant", {"content": "a"}),
            ("tool_call", {"id": "1", "tool": "x"}),
            ("tool_call", {"id": "2", "tool": "y"}),
            ("tool_result", {"toolCallId": "1", "result": "r"}),
            ("tool_result", {"toolCallId": "2", "result": "s"}),
            ("assistant", {"content": "b"}),
            ("assistant", {"content": "c"}),
            ("tool_call", {"id": "3", "tool": "z"}, "other"),
            ("resumed", {}),
            ("suspended", {}),
            ("delta", {"content": "d"}),
        )
    )
    messages = [[one.text or one.name for one in group] for group in grouped(entries)]
    assert messages == [
        ["q"],
        ["t", "a", "x", "y"],
        ["r"],
        ["s"],
        ["b"],
        ["c"],
        ["z"],
        ["resumed"],
        ["the session waits for an answer"],
        ["d"],
    ]
    assert list(grouped([])) == []


def test_the_parts_of_one_event_are_one_message():
    """Several results in one message stay together; a stream that was cut off is by itself."""
    results = [{"type": "tool_result", "tool_use_id": id, "content": id} for id in "ab"]
    entries = read_transcript(
        log(
            ("delta", {"content": "cut"}),
            ("turn_end", {}),
            ("tool_call", {"id": "a", "tool": "x"}),
            ("user", {"content": results}),
        )
    )
    assert [len(group) for group in grouped(entries)] == [1, 1, 2]


# -- values --------------------------------------------------------------------------------------

REFERENCE = {"$blob": "0" * 64, "bytes": 2_000_000, "media": "text/plain"}
SEALED = "[thinking that only its provider can read]"
KEPT = "[2,000,000 bytes of text/plain, kept beside the log: holdfast show --full has them]"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\r\nb", "a\nb"),
        ([{"type": "text", "text": "x"}, "y"], "x\ny"),
        ([{"type": "refusal", "refusal": "no"}], "no"),
        ([{"type": "redacted_thinking", "data": "x"}], "[thinking that only its provider can read]"),
        ([{"type": "image", "source": {"media_type": "image/png"}}], "[image image/png]"),
        ([{"type": "document"}], "[document]"),
        ([{"type": "document", "title": "T", "source": {"type": "text", "data": "d"}}], "T\nd"),
        ([{"type": "document", "source": {"type": "content", "content": ["d"]}}], "d"),
        ([{"type": "image_url", "image_url": {"url": "https://a.b/c"}}], "[image https://a.b/c]"),
        ([{"type": "input_image", "image_url": "https://a.b/c"}], "[image https://a.b/c]"),
        ([{"type": "input_image", "file_id": "f-1"}], "[image f-1]"),
        ([{"type": "file", "file": {"filename": "a.pdf", "file_data": "data:a/b;base64,eA=="}}], "[file a/b a.pdf]"),
        ([{"type": "other", "a": 1}], '{"type":"other","a":1}'),
        ({"type": "text", "text": "x"}, "x"),
        ({"content": "x"}, "x"),
        ({"content": "x", "more": 1}, '{"content":"x","more":1}'),
        ([1, "x"], '[1,"x"]'),
        ([], "[]"),
        (None, "null"),
        (REFERENCE, KEPT),
        ({"$blob": "0" * 64, "bytes": "?"}, "[0 bytes of data, kept beside the log: holdfast show --full has them]"),
        ({"a": [REFERENCE, 1]}, f'{{"a":["{KEPT}",1]}}'),
    ],
)
def test_content_as_text(value, text):
    """Strings as they are, blocks by their text, anything else as JSON."""
    assert as_text(value) == text


def test_media_keep_their_bytes():
    """A picture in a message can be shown: type and data are with the entry."""
    url = "data:image/png;base64,eA=="
    block = {"type": "image_url", "image_url": {"url": url}}
    (entry,) = read_transcript(log(("user", {"content": ["see", block]})))
    assert entry.text == "see\n[image image/png]"
    source = {"type": "base64", "media_type": "image/png", "data": "eA=="}
    assert entry.pieces == ("see", Media("image", "image/png", "", source))


def test_any_value_is_json():
    """What the encoder does not take is written as well as it can be."""
    assert as_json({"a": [1]}, indent=2) == '{\n  "a": [\n    1\n  ]\n}'
    assert as_json({"a": "\ud800"}) == '{"a": "\\ud800"}'


# -- anything ------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | TEXT | st.just("tool_use"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            TEXT | st.sampled_from(["type", "text", "source", "content", "id", "input"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)
KINDS = [
    *("user", "assistant", "system", "thinking", "tool_call", "tool_result", "delta", "retracted"),
    *("compaction", "interrupted", "delegation", "delegation_complete", "agent_error", "repaired"),
    *("redacted", "suspended", "other", "agent_start", "turn_end", "forked", "merged", "imported"),
]
NAMES = [
    *("content", "tool", "id", "params", "toolCallId", "result", "agent", "kind", "covers"),
    *("seqs", "reason", "lost", "replacement", "task", "error", "summary", "covers_from", "child"),
]
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.dictionaries(st.sampled_from(NAMES), JSON | st.integers(0, 8)),
        st.sampled_from([None, "r1", "r2"]),
    ),
    max_size=10,
)


@given(EVENTS)
def test_any_data_can_be_read_in_order(events):
    """Whatever the events hold, entries come out in the order of their places, each place once."""
    entries = list(read_transcript(log(*events)))
    places = [(entry.seq, entry.part) for entry in entries]
    assert places == sorted(set(places))
    assert all(isinstance(entry.text, str) and isinstance(entry.name, str) for entry in entries)
    assert [one for group in grouped(entries) for one in group] == entries


@given(EVENTS)
def test_following_shows_what_reading_shows(events):
    """After each event, what came and what is open is what a reader of the log so far gets."""
    reader, came = Transcript(), []
    for count, event in enumerate(log(*events), 1):
        came += reader.feed(event)
        assert came + reader.rest() == list(read_transcript(log(*events)[:count]))
        assert all(one.seq >= reader.open_from for one in reader.rest() if one.state == "open")
