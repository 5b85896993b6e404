"""What of a session's events can be searched."""

from __future__ import annotations

import pytest

from holdfast.catalog._search_texts import TEXT_CHARS_MAX, Listener, said_in
from holdfast.model import Event


def log(*events):
    """Events in the order of a log."""
    return [Event.make(type, data, seq=seq, timestamp=1000 + seq) for seq, (type, data) in enumerate(events)]


def heard(*events):
    """(seq, role, name, text) of all that counts in the end."""
    listener = Listener()
    rows = listener.hear(log(*events)).heard + listener.shown_streams()
    return [(row.seq, row.said.role, row.said.name, row.said.text) for row in rows]


def test_who_said_what():
    """Users, assistants, systems, thoughts, calls, results and summaries are heard."""
    assert heard(
        ("system", {"content": "Be brief."}),
        ("user", {"content": "hello"}),
        ("thinking", {"content": "hm"}),
        ("assistant", {"content": [{"type": "text", "text": "hi"}]}),
        ("tool_call", {"id": "c1", "tool": "Read", "params": {"path": "a.py", "limit": 5}}),
        ("tool_result", {"toolCallId": "c1", "result": {"content": "text of a"}}),
        ("compaction", {"summary": "greetings", "covers": [0, 3]}),
        ("variable_set", {"name": "secret", "value": "unheard"}),
    ) == [
        (0, "system", None, "Be brief."),
        (1, "user", None, "hello"),
        (2, "thinking", None, "hm"),
        (3, "assistant", None, "hi"),
        (4, "tool_call", "Read", "Read\npath: a.py\nlimit: 5"),
        (5, "tool_result", "Read", "text of a"),
        (6, "summary", None, "greetings"),
    ]


def test_strings_are_not_escaped():
    """Parameters are searched as they are meant, not as JSON writes them."""
    [said] = said_in("tool_call", {"tool": "Bash", "params": {"command": 'echo "a"\nls'}})
    assert said.text == 'Bash\ncommand: echo "a"\nls'


def test_bytes_and_proofs_are_not_words():
    """Images, signatures and long base64 are passed over; what is beside them is not."""
    image = {"type": "image", "source": {"data": "aGVsbG8=", "media_type": "image/png"}}
    blocks = [image, {"type": "thinking", "thinking": "so", "signature": "xyz"}]
    assert [said.text for said in said_in("assistant", {"content": blocks})] == ["so"]
    assert said_in("tool_result", {"result": "QUJD" * 400}) == []
    [note] = said_in("tool_result", {"result": {"note": "a", "data": "QUJD" * 400}})
    assert note.text == "note: a"


def test_values_of_any_shape():
    """Numbers count, true and null do not, and nesting is bounded."""
    deep = {"a": "end"}
    for _ in range(50):
        deep = {"a": deep}
    [numbers] = said_in("tool_result", {"result": [1, True, None, {"k": 2.5}]})
    assert numbers.text == "1\nk: 2.5"
    assert said_in("tool_result", {"result": deep}) == []
    assert said_in("title", {"title": None}) == []
    assert said_in("tag", {"tag": 5}) == []


@pytest.mark.parametrize("kind", [["list"], {"a": 1}, 7, None])
def test_a_block_whose_type_is_no_text(kind):
    """Whatever a tool gave back, its words are heard and nothing is raised."""
    [said] = said_in("tool_result", {"toolCallId": "1", "result": {"type": kind, "of": "words"}})
    assert "words" in said.text


def test_a_text_is_heard_up_to_a_bound():
    """Of a very long text the beginning counts."""
    [said] = said_in("user", {"content": "a " * TEXT_CHARS_MAX})
    assert len(said.text) == TEXT_CHARS_MAX


def test_covered_deltas_count_once():
    """Streamed text is heard as the final event has it."""
    rows = heard(
        ("delta", {"content": "hel"}),
        ("delta", {"content": "lo"}),
        ("delta", {"content": "why", "kind": "thinking"}),
        ("thinking", {"content": "why not", "covers_from": 2}),
        ("assistant", {"content": "hello", "covers_from": 0}),
    )
    assert [(row[0], row[3]) for row in rows] == [(3, "why not"), (4, "hello")]


@pytest.mark.parametrize("end", ["interrupted", "turn_end", "agent_error", None])
def test_uncovered_deltas_are_heard_as_they_came(end):
    """What a user saw before a stream broke off is found, in one piece."""
    rows = heard(
        ("delta", {"content": "hel"}),
        ("delta", {"content": "lo"}),
        *([(end, {"agent": "a"} if end == "agent_error" else {})] if end else []),
    )
    assert rows == [(0, "assistant", None, "hello")]


def test_a_final_event_covers_only_what_it_names():
    """What was streamed before the first covered piece stays."""
    rows = heard(
        ("delta", {"content": "old"}),
        ("delta", {"content": "new"}),
        ("assistant", {"content": "new", "covers_from": 1}),
        ("delta", {"content": 5}),
    )
    assert [(row[0], row[3]) for row in rows] == [(0, "old"), (2, "new")]


def test_streams_of_runs_are_kept_apart():
    """Two agents that speak at once do not mix."""
    listener = Listener()
    events = [
        Event.make("delta", {"content": text}, seq=seq, run=run)
        for seq, (run, text) in enumerate([("a", "on"), ("b", "tw"), ("a", "e"), ("b", "o")])
    ]
    events.append(Event.make("turn_end", {}, seq=4, run="a"))
    changes = listener.hear(events)
    assert [row.said.text for row in changes.heard] == ["one"]
    assert [row.said.text for row in listener.shown_streams()] == ["two"]


def test_retracted_words_are_gone():
    """What was retracted is not heard; what stands in its place is."""
    rows = heard(
        ("user", {"content": "wrong"}),
        ("delta", {"content": "streamed"}),
        ("retracted", {"seqs": [0, 1], "replacement": {"role": "user", "content": "right"}}),
        ("retracted", {"seqs": "no list", "replacement": None}),
    )
    assert rows == [(2, "user", None, "right")]


def test_titles_and_tags_as_they_are_now():
    """The last title and the tags that were not taken away count."""
    rows = heard(
        ("title", {"title": "old"}),
        ("tag", {"tag": "kept"}),
        ("tag", {"tag": "gone"}),
        ("untag", {"tag": "gone"}),
        ("title", {"title": "new"}),
        ("tag", {"tag": None}),
    )
    assert rows == [(1, "tag", "kept", "kept"), (4, "title", None, "new")]


def test_what_cannot_be_read_is_passed_over():
    """A foreign event whose data is no object harms nothing."""
    assert Listener().hear([Event("user", 0, 0, b"[1]")]).heard == []


def test_open_calls_are_bounded():
    """A log full of calls without results does not grow the listener without end."""
    listener = Listener()
    listener.hear(log(*[("tool_call", {"id": f"c{n}", "tool": "T"}) for n in range(300)]))
    results = [("tool_result", {"toolCallId": f"c{n}", "result": "ok"}) for n in range(300)]
    named = [row.said.name for row in listener.hear(log(*results)).heard]
    assert named == [None] * 44 + ["T"] * 256


def test_calls_and_results_in_messages():
    """What a message asks of tools is heard as calls, what it brings as results, by tool."""
    asked = [
        {"type": "text", "text": "let me look"},
        {"type": "tool_use", "id": "1", "name": "Read", "input": {"path": "a.py"}},
        {"type": "tool_use", "id": "2", "name": "Read", "input": {"path": "b.py"}},
        {"type": "tool_use", "id": "3", "name": "Bash", "input": {"command": "ls"}},
    ]
    brought = [
        {"type": "tool_result", "tool_use_id": "1", "content": "text of a"},
        {"type": "tool_result", "tool_use_id": "2", "content": "text of b"},
        {"type": "text", "text": "go on"},
    ]
    assert heard(
        ("assistant", {"content": asked}),
        ("user", {"content": brought}),
        ("tool_result", {"toolCallId": "3", "result": "a.py b.py"}),
    ) == [
        (0, "assistant", None, "let me look"),
        (0, "tool_call", "Read", "Read\npath: a.py\nRead\npath: b.py"),
        (0, "tool_call", "Bash", "Bash\ncommand: ls"),
        (1, "user", None, "go on"),
        (1, "tool_result", "Read", "text of a\ntext of b"),
        (2, "tool_result", "Bash", "a.py b.py"),
    ]


def test_both_halves_of_a_call_are_heard_once():
    """What a message asked for and an event began is one thing said; other arguments are more."""
    use = {"type": "tool_use", "id": "1", "name": "Read", "input": {"path": "a.py"}}
    said = ("assistant", {"content": [use]})
    call = ("tool_call", {"id": "1", "tool": "Read", "params": {"path": "a.py"}})
    other = ("tool_call", {"id": "1", "tool": "Read", "params": {"path": "b.py"}})
    assert [row[0] for row in heard(said, call)] == [0]
    assert [row[0] for row in heard(call, said)] == [0]
    assert [row[0] for row in heard(said, other)] == [0, 1]
