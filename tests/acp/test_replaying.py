"""A recorded session is told again to an editor, whole and in order."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Holdfast
from holdfast.apps.acp.recording.recorder import Notes
from holdfast.apps.acp.replay.log import read_some
from holdfast.apps.acp.replay.replay import _TAKERS, replay, replay_some
from holdfast.apps.acp.replay.words import UNDONE
from holdfast.model import Event
from holdfast.replay import Conversation
from holdfast.storage import MemoryStore
from holdfast.testing.strategies import encode_log

schema = pytest.importorskip("acp.schema")

CHUNK_BYTES_MAX = 64 * 1024


def update(**members):
    params = {"sessionId": "theirs", "update": members}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def chunk(text, kind="agent_message_chunk", **members):
    return update(sessionUpdate=kind, content={"type": "text", "text": text}, **members)


def call(id="c", **members):
    return update(sessionUpdate="tool_call", toolCallId=id, title="T", **members)


def progress(id="c", **members):
    return update(sessionUpdate="tool_call_update", toolCallId=id, **members)


def prompt(*blocks):
    given = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
    params = {"sessionId": "theirs", "prompt": given}
    return {"jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": params}


def events_of(*drafts):
    """Events as a log has them; a third member of a draft is its run."""
    return [
        Event.make(type, data, seq=seq, run=run[0] if run else None) for seq, (type, data, *run) in enumerate(drafts)
    ]


def recorded(*frames):
    """The events of frames: a prompt is the editor's, a stop reason ends the turn."""
    log = []
    notes = Notes(next_seq=lambda: len(log))
    for frame in frames:
        if isinstance(frame, str):
            answer = {"jsonrpc": "2.0", "id": 1, "result": {"stopReason": frame}}
            taken = notes.answer(prompt("x"), answer, "agent")
        else:
            is_prompt = frame["method"] == "session/prompt"
            taken = notes.client(frame) if is_prompt else notes.agent(frame)
        log += taken.events
    return events_of(*log)


def told(events, **options):
    """The updates of a replay; every line is a notification of our session."""
    lines = list(replay(events, "ours", **options))
    frames = [json.loads(line) for line in lines]
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)
    assert all(frame["method"] == "session/update" for frame in frames)
    assert all(frame["params"]["sessionId"] == "ours" for frame in frames)
    assert from_log(events, **options) == frames
    return [frame["params"]["update"] for frame in frames]


def from_log(events, **options):
    """The frames of a replay that reads the same events from a log, the quick way."""
    first = events[0].seq if events else 0
    log = encode_log([*(Event.make("closed", seq=seq) for seq in range(first)), *events])
    store, key = MemoryStore(), "sessions/none"
    store.log(key).append(log, 0, first + len(events), 0)
    some = list(read_some(store.log(key), first, first + len(events), store.documents(key)))
    assert [event for few in some for event in few.events] == events
    return [json.loads(line) for line in b"".join(replay_some(some, "ours", **options)).splitlines()]


def words(updates, kind="agent_message_chunk"):
    return "".join(one["content"].get("text", "") for one in updates if one["sessionUpdate"] == kind)


def is_of_the_protocol(update):
    schema.SessionNotification.model_validate({"sessionId": "ours", "update": update})
    return True


# -- what came over the wire ---------------------------------------------------------------------


@pytest.mark.req("C14")
def test_a_turn_is_told_in_order():
    """Prompt, thoughts, words, tool and more words, as the editor saw them."""
    started = call(status="in_progress", kind="read", rawInput={"path": "a"})
    ended = progress(status="completed", rawOutput={"n": 1})
    events = recorded(
        prompt("hi"),
        chunk("h", "agent_thought_chunk"),
        chunk("m", "agent_thought_chunk"),
        chunk("Hel", messageId="m1"),
        chunk("lo", messageId="m1"),
        started,
        progress(title="Reading"),
        ended,
        chunk("done"),
        "end_turn",
    )
    assert told(events) == [
        chunk("hi", "user_message_chunk")["params"]["update"],
        chunk("hm", "agent_thought_chunk")["params"]["update"],
        chunk("Hello", messageId="m1")["params"]["update"],
        started["params"]["update"],
        progress(title="Reading")["params"]["update"],
        ended["params"]["update"],
        chunk("done")["params"]["update"],
    ]


def test_a_prompt_is_told_as_it_was_given():
    """Blocks that a conversation has no form for come back as they were."""
    link = {"type": "resource_link", "uri": "file:///a", "name": "a"}
    updates = told(recorded(prompt("see", link)))
    assert [one["content"] for one in updates] == [{"type": "text", "text": "see"}, link]


def test_messages_stay_apart():
    """Words of two messages, or of two kinds, are never run together."""
    events = recorded(chunk("a", messageId="1"), chunk("b", messageId="2"), chunk("c"), prompt("x"), chunk("d"))
    assert [one["content"]["text"] for one in told(events)] == ["a", "b", "c", "x", "d"]


def test_words_between_which_only_figures_came_are_one():
    """An editor is not shown a new message because of what it is told at the end anyway."""
    usage = update(sessionUpdate="usage_update", used=1, size=2)
    assert told(recorded(chunk("a"), usage, chunk("b"))) == [chunk("ab")["params"]["update"], usage["params"]["update"]]


def test_long_words_come_in_chunks():
    """No line is much longer than a chunk, and no character is lost, whatever its width."""
    pieces = ["é" * 20_000, "x" * 50_000, "\U0001f41f" * 40_000, "y"]
    updates = told(recorded(*[chunk(piece) for piece in pieces]))
    assert words(updates) == "".join(pieces)
    assert max(len(one["content"]["text"].encode()) for one in updates) <= CHUNK_BYTES_MAX


def test_an_unusual_chunk_is_told_as_it_came():
    """Annotations of a chunk, and other members of its frame, come back."""
    noted = update(
        sessionUpdate="agent_message_chunk", content={"type": "text", "text": "b", "annotations": {"priority": 1}}
    )
    odd = chunk("c")
    odd["params"]["_meta"] = {"k": "v"}
    lines = [json.loads(line) for line in replay(recorded(chunk("a"), noted, odd), "ours")]
    assert [line["params"]["update"] for line in lines] == [one["params"]["update"] for one in (chunk("a"), noted, odd)]
    assert lines[2]["params"]["_meta"] == {"k": "v"}


def test_only_the_newest_of_what_stands_is_told():
    """Commands, mode, options, usage and title come once, at the end, as they are now."""
    frames = [update(sessionUpdate="available_commands_update", availableCommands=[n]) for n in (1, 2)]
    modes = [update(sessionUpdate="current_mode_update", currentModeId=m) for m in ("a", "b")]
    title = update(sessionUpdate="session_info_update", title="Fish")
    date = update(sessionUpdate="session_info_update", updatedAt="2026-01-01T00:00:00Z")
    updates = told(recorded(frames[0], modes[0], title, frames[1], date, modes[1], chunk("a")))
    assert updates == [
        chunk("a")["params"]["update"],
        frames[1]["params"]["update"],
        modes[1]["params"]["update"],
        title["params"]["update"] | date["params"]["update"],
    ]


def test_an_echo_of_the_prompt_is_not_told_twice():
    """Some agents send the user's words back; other words in the user's name are told."""
    echo, other = chunk("hi", "user_message_chunk"), chunk("(expanded)", "user_message_chunk")
    assert words(told(recorded(prompt("say hi"), echo, other)), "user_message_chunk") == ("say hi(expanded)")
    picture = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    shown = update(sessionUpdate="user_message_chunk", content=picture)
    assert len(told(recorded(prompt("x", picture), shown))) == 2
    assert told(recorded(prompt("x"), shown))[1] == shown["params"]["update"]


def test_frames_of_others_are_not_told():
    """What the editor asked, what Holdfast said, and requests of the agent are no replay."""
    frames = [
        {"direction": "client", "frame": chunk("a")},
        {"direction": "holdfast", "frame": chunk("b")},
        {"direction": "agent", "frame": {"id": 1, "method": "fs/read_text_file", "params": {}}},
        {"direction": "agent", "frame": "odd"},
        {"direction": "agent"},
        {"direction": "agent", "frame": update(sessionUpdate=4)},
        {"direction": "agent", "frame": {"method": "session/update", "params": []}},
        {"direction": 4, "frame": []},
    ]
    assert told(events_of(*[("frame", frame) for frame in frames])) == []


def test_frames_are_found_by_their_bytes_only_where_they_are_whole():
    """A frame inside a frame, more members and escaped keys do not mislead the quick way."""
    inner = {"direction": "agent", "raw": progress("inner", status="completed")}
    wrapped = {"direction": "agent", "frame": progress("inner")}
    more = progress(status="in_progress")
    more["params"]["zzz"] = {"a": {"b": {}}}
    frames = [
        call(status="in_progress"),
        progress(rawOutput=inner),
        progress(rawOutput=wrapped),
        more,
        progress(rawOutput={"$blob": "x", "$$blob": 1}),
        progress(status=["odd"]),
        progress(status="completed", rawOutput=inner),
    ]
    assert told(recorded(*frames)) == [frame["params"]["update"] for frame in frames]


# -- interruptions -------------------------------------------------------------------------------


def failed(id="c"):
    shown = {"type": "content", "content": {"type": "text", "text": UNDONE["begun"]}}
    about = {"toolCallId": id, "status": "failed", "content": [shown]}
    return {"sessionUpdate": "tool_call_update", **about}


def test_open_calls_end_as_failed_where_the_turn_broke_off():
    """Before the next prompt, or at the end; those that ended are left alone."""
    events = recorded(
        prompt("1"),
        call("a", status="in_progress"),
        call("b", status="in_progress"),
        progress("b", status="completed"),
        chunk("half"),
        prompt("2"),
        call("c", status="pending"),
    )
    updates = told(events)
    assert updates[4:6] == [chunk("half")["params"]["update"], failed("a")]
    assert updates[6]["content"]["text"] == "2"
    assert updates[-1] == failed("c")
    assert len(updates) == 9


def test_open_calls_of_a_live_session_stay_open():
    """An editor that joins a running turn sees what is under way."""
    events = recorded(prompt("1"), call(status="in_progress"))
    assert told(events, close_open=False)[-1]["status"] == "in_progress"


# -- recorded in another way ---------------------------------------------------------------------


def test_our_own_events_are_put_into_the_protocols_words():
    """Words, thoughts, tools and todos of a session that no ACP agent recorded."""
    events = events_of(
        ("user", {"role": "user", "content": "hi"}),
        ("thinking", {"content": "hm"}),
        ("assistant", {"role": "assistant", "content": "I look."}),
        ("tool_call", {"id": "t1", "tool": "read_file", "params": {"path": "a.py"}}),
        ("tool_result", {"toolCallId": "t1", "result": "text"}),
        ("tool_call", {"id": "t2", "tool": "run_shell", "params": {"command": "make\n all"}}),
        ("tool_result", {"toolCallId": "t2", "result": {"exit": 1}, "is_error": True}),
        ("todo_update", {"todos": [{"content": "a", "status": "completed"}, {"status": []}, 3]}),
        ("title", {"title": "Own"}),
        ("title", {"title": "made up", "auto": True}),
    )
    updates = told(events)
    assert all(is_of_the_protocol(one) for one in updates)
    assert updates[3] == {
        "sessionUpdate": "tool_call",
        "toolCallId": "t1",
        "title": "read_file a.py",
        "kind": "read",
        "status": "in_progress",
        "rawInput": {"path": "a.py"},
    }
    assert updates[4]["status"] == "completed"
    assert updates[4]["content"][0]["content"]["text"] == "text"
    assert updates[5]["title"] == "run_shell make all"
    assert updates[5]["kind"] == "execute"
    assert updates[6]["status"] == "failed"
    assert updates[6]["content"][0]["content"]["text"] == '{"exit":1}'
    assert [entry["status"] for entry in updates[7]["entries"]] == ["completed", "pending"]
    assert updates[8] == {"sessionUpdate": "session_info_update", "title": "Own"}


def test_an_automatic_title_is_told_if_there_is_no_other():
    """The user's own title wins; when it is taken back, the other is there again."""
    auto, own, none = {"title": "a", "auto": True}, {"title": "b"}, {"title": None}
    assert told(events_of(("title", own), ("title", auto)))[0]["title"] == "b"
    assert told(events_of(("title", auto)))[0]["title"] == "a"
    assert told(events_of(("title", auto), ("title", own), ("title", none)))[0]["title"] == "a"


def test_blocks_of_other_tools_are_told():
    """Imported conversations hold calls, results, thoughts and pictures as blocks."""
    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    events = events_of(
        ("user", {"content": [{"type": "image", "source": source}, "plain", 4, {"type": "text"}]}),
        (
            "assistant",
            {
                "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "text", "text": "look"},
                    {"type": "tool_use", "id": "t", "name": "Grep", "input": {}},
                ]
            },
        ),
        ("user", {"content": [{"type": "tool_result", "tool_use_id": "t", "content": "found"}]}),
    )
    updates = told(events, close_open=False)
    assert all(is_of_the_protocol(one) for one in updates)
    assert [one["sessionUpdate"] for one in updates] == [
        *["user_message_chunk"] * 4,
        "agent_thought_chunk",
        "agent_message_chunk",
        "tool_call",
        "tool_call_update",
    ]
    assert updates[6]["kind"] == "search"


def test_the_result_that_a_prompt_of_another_tool_carries_ends_its_call():
    """Results that stand among a user's blocks come before the call is given up."""
    events = events_of(
        ("assistant", {"content": [{"type": "tool_use", "id": "t", "name": "x", "input": {}}]}),
        ("user", {"content": [{"type": "tool_result", "tool_use_id": "t", "content": "found"}]}),
    )
    assert [one["status"] for one in told(events)] == ["in_progress", "completed"]


def test_a_result_without_a_call_brings_its_own():
    """An editor knows no call of that id; in the middle of a log it does."""
    [result] = events_of(("tool_result", {"toolCallId": "t", "result": [{"a": 1}, "x", 5]}))
    [update] = told([result])
    assert update["sessionUpdate"] == "tool_call"
    assert is_of_the_protocol(update)
    later = Event.make("tool_result", result.data, seq=9)
    assert told([later])[0]["sessionUpdate"] == "tool_call_update"


def test_a_diff_is_told_as_one():
    """What a tool changed in a file is shown as a change."""
    diff = {"path": "/a", "oldText": "x", "newText": "y"}
    updates = told(
        events_of(
            ("tool_call", {"id": "t", "tool": "", "params": None}),
            ("tool_result", {"toolCallId": "t", "result": [diff, {"type": "text", "text": "ok"}]}),
        )
    )
    assert updates[0]["title"] == "tool"
    assert updates[1]["content"] == [
        {"type": "diff", **diff},
        {"type": "content", "content": {"type": "text", "text": "ok"}},
    ]
    assert all(is_of_the_protocol(one) for one in updates)


def test_a_message_is_told_once():
    """Its pieces, or the whole if there were none; what began before the start was told before."""
    pieces = [("delta", {"content": "ab"}), ("delta", {"content": "c", "kind": "thinking"})]
    final = [("assistant", {"content": "ab", "covers_from": 0}), ("thinking", {"content": "c", "covers_from": 0})]
    events = events_of(*pieces, *final)
    assert words(told(events)) == "ab"
    assert words(told(events), "agent_thought_chunk") == "c"
    whole = events_of(("turn_start", {}), *final)
    assert words(told(whole)) == "ab"
    assert told(events[2:]) == []


def test_raw_of_other_tools_is_no_frame():
    """An import keeps the source's line under the same name."""
    events = events_of(
        ("user", {"content": "hi", "raw": {"type": "user", "method": "session/prompt"}}),
        ("assistant", {"content": "yo", "raw": {"type": "assistant", "params": {}}}),
        ("delta", {"content": "!", "raw": "line"}),
        ("tool_call", {"id": "t", "tool": "x", "raw": [1]}),
    )
    updates = told(events)
    assert words(updates, "user_message_chunk") == "hi"
    assert words(updates) == "yo!"
    assert updates[3]["toolCallId"] == "t"


def test_child_runs_are_left_out():
    """What agents did for other agents is not the editor's conversation; that it is, it says."""
    events = events_of(
        ("agent_start", {"agent": "top", "depth": 0}, "r0"),
        ("user", {"content": "hi"}, "r0"),
        ("delegation", {"parent": "top", "child": "kid", "task": "do"}, "r0"),
        ("agent_start", {"agent": "kid", "parent": "top", "depth": 1}, "r1"),
        ("user", {"content": "do"}, "r1"),
        ("delta", {"content": "secret"}, "r1"),
        ("assistant", {"content": "secret"}, "r1"),
        ("tool_call", {"id": "k", "tool": "x"}, "r1"),
        ("tool_result", {"toolCallId": "k", "result": "secret"}, "r1"),
        ("assistant", {"content": "yo"}, "r0"),
    )
    updates = told(events)
    assert words(updates, "user_message_chunk") == "hi"
    assert words(updates) == "yo"
    said = "kid works on this: do\n(what it says and does: holdfast show ours)"
    assert words(updates, "agent_thought_chunk") == said
    assert len(updates) == 3


def test_child_runs_of_plain_logs_are_left_out():
    """Where events name no run, the agents' names and tasks tell them apart."""
    events = events_of(
        ("agent_start", {"agent": "top"}),
        ("user", {"content": "hi"}),
        ("delegation", {"parent": "top", "child": "kid", "task": "do"}),
        ("agent_start", {"agent": "kid", "parent": "top"}),
        ("user", {"content": "do"}),
        ("delta", {"content": "secret", "agent": "kid"}),
        ("thinking", {"content": "secret", "agent": "kid"}),
        ("assistant", {"content": "secret", "agent": "kid"}),
        ("tool_call", {"id": "k", "tool": "x", "agent": "kid"}),
        ("tool_result", {"toolCallId": "k", "result": "secret"}),
        ("user", {"content": "more", "agent": "kid"}),
        ("assistant", {"content": "audit", "agent": "system"}),
        ("agent_start", {"agent": "top", "parent": "top"}),
        ("assistant", {"content": "yo", "agent": "top"}),
        ("user", {"content": "do"}),
    )
    updates = told(events)
    assert words(updates, "user_message_chunk") == "hido"
    assert words(updates) == "yo"
    assert words(updates, "agent_thought_chunk").startswith("kid works on this: do\n")
    assert len(updates) == 4


# -- marks ---------------------------------------------------------------------------------------


def test_marks_say_up_to_where_all_has_been_told():
    """They never go back, and only the last line of an event has its number."""
    odd = chunk("z")
    odd["params"]["_meta"] = {"k": "v"}
    events = recorded(
        update(sessionUpdate="usage_update", used=1, size=2),
        prompt("a", "b"),
        chunk("x"),
        chunk("y" * 70_000),
        odd,
        call(status="in_progress"),
        "end_turn",
    )
    lines = [json.loads(line)["params"] for line in replay(events, "ours", marks=True)]
    seqs = [line["_meta"]["holdfast"]["seq"] for line in lines]
    assert seqs == sorted(seqs)
    assert seqs[0] == seqs[1] - 1
    assert seqs[-1] == events[-1].seq
    assert lines[-4]["_meta"]["k"] == "v"
    for cut in (seqs[1], seqs[-5], seqs[-4]):
        before = [line["update"] for line, seq in zip(lines, seqs, strict=True) if seq <= cut]
        after = told([event for event in events if event.seq > cut])
        assert words(before) + words(after) == "x" + "y" * 70_000 + "z"


# -- anything ------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=9)
frames = st.one_of(
    st.builds(chunk, texts),
    st.builds(lambda text: chunk(text, "agent_thought_chunk"), texts),
    st.builds(lambda text, name: chunk(text, messageId=name), texts, st.sampled_from(["1", "2"])),
    st.builds(lambda text: chunk(text, odd=1), texts),
    st.builds(
        lambda kind, name, status, text: update(
            sessionUpdate=kind,
            toolCallId=name,
            title=text,
            status=status,
            content=[{"type": "content", "content": {"type": "text", "text": text}}],
        ),
        st.sampled_from(["tool_call", "tool_call_update"]),
        st.sampled_from(["1", "2"]),
        st.sampled_from(["pending", "in_progress", "completed", "failed"]),
        texts,
    ),
    st.builds(prompt, texts),
    st.sampled_from(["end_turn", "cancelled"]),
)


def said(frames, kind):
    """The words of the agent's chunks of one kind."""
    updates = [frame["params"].get("update", {}) for frame in frames if isinstance(frame, dict)]
    return words([one for one in updates if one.get("sessionUpdate") == kind], kind)


@given(st.lists(frames, max_size=14))
def test_every_word_is_told_wherever_the_log_ends(given):
    """A log cut after any event tells all that came until then, and the calls all end."""
    events = recorded(*given)
    for kind in ("agent_message_chunk", "agent_thought_chunk"):
        assert words(told(events), kind) == said(given, kind)
    for end in range(len(events) + 1):
        updates = told(events[:end])
        deltas = [event.data for event in events[:end] if event.type == "delta"]
        assert words(updates) == "".join(d["content"] for d in deltas if "kind" not in d)
        last = {one["toolCallId"]: one.get("status") for one in updates if "toolCallId" in one}
        assert set(last.values()) <= {"completed", "failed"}


@given(st.lists(frames, max_size=14))
@settings(max_examples=50)
def test_a_stored_session_is_told_as_its_conversation_reads(given):
    """What the editor is told and what the model is told are the same words."""
    with Holdfast("memory:") as hf, hf.session() as session:
        for event in recorded(*given):
            session.append(event.type, _moved(event, session.seq + 1))
        events = list(session.events())
    conversation = Conversation(incomplete="mark")
    for event in events:
        conversation.feed(event)
    model = "".join(_assistant_words(message) for message in conversation.messages())
    assert "".join(words(told(events)).split()) == "".join(model.split())


def _moved(event, seq):
    data = dict(event.data)
    if "covers_from" in data:
        data["covers_from"] += seq - event.seq
    return data


def _assistant_words(message):
    if message["role"] != "assistant":
        return ""
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return "".join(block["text"] for block in blocks if block["type"] == "text")


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
MEMBERS = """
    content raw frame direction id tool params toolCallId result todos title auto
    agent parent child task depth covers_from kind messageId
""".split()  # noqa: SIM905 - a list of words is easier to read
foreign = st.lists(
    st.tuples(
        st.sampled_from([*_TAKERS, "agent_start", "delegation"]),
        st.dictionaries(
            st.sampled_from(MEMBERS),
            anything
            | st.sampled_from(["agent", "a", 0])
            | st.builds(lambda value: update(sessionUpdate="plan", entries=value), anything)
            | st.builds(lambda value: {"method": "session/prompt", "params": value}, anything)
            | st.builds(lambda value: [{"type": "text", "text": value}, value], anything),
            max_size=6,
        ),
    ),
    max_size=8,
)


@given(foreign, st.booleans())
def test_whatever_a_log_holds_it_is_told(given, marks):
    """Nothing raises, and every line is a frame of our session."""
    told(events_of(*given), marks=marks)
