"""What passes between an editor and an agent becomes events; every frame is kept."""

from __future__ import annotations

import pytest

from holdfast.apps.acp.recording.recorder import Notes
from holdfast.apps.acp.recording.values import mask_servers
from holdfast.model import Limits


class Desk:
    """Notes whose events are put down one after the other, as a session numbers them."""

    def __init__(self, **options):
        self.log = []
        self.notes = Notes("scribe", next_seq=lambda: len(self.log), **options)

    def put(self, taken):
        self.log += taken.events
        return taken

    def agent(self, *frames):
        for frame in frames:
            self.put(self.notes.agent(frame))

    def prompt(self, *blocks, **params):
        return self.put(self.notes.client(prompt(*blocks, **params)))

    def end(self, **answer):
        return self.put(self.notes.answer(prompt("hi"), response(**answer), "agent"))

    @property
    def types(self):
        return [type for type, _ in self.log]

    def only(self, type):
        [data] = [data for found, data in self.log if found == type]
        return data


def update(**members):
    params = {"sessionId": "theirs", "update": members}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def chunk(text, kind="agent_message_chunk", **members):
    return update(sessionUpdate=kind, content={"type": "text", "text": text}, **members)


def thought(text, **members):
    return chunk(text, "agent_thought_chunk", **members)


def call(id="c", **members):
    return update(sessionUpdate="tool_call", toolCallId=id, **members)


def progress(id="c", **members):
    return update(sessionUpdate="tool_call_update", toolCallId=id, **members)


def prompt(*blocks, **params):
    given = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "session/prompt",
        "params": {"sessionId": "theirs", "prompt": given, **params},
    }


def response(**members):
    return {"jsonrpc": "2.0", "id": 1, **members}


def text_part(text):
    return {"type": "content", "content": {"type": "text", "text": text}}


def as_frame(frame):
    return "frame", {"direction": "agent", "frame": frame}


def permission_request(**call):
    options = [
        {"optionId": "y", "name": "Yes", "kind": "allow_once"},
        {"optionId": "n", "name": "No", "kind": "reject_once"},
    ]
    params = {"sessionId": "theirs", "toolCall": {"toolCallId": "c", **call}, "options": options}
    return {"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": params}


def selected(option):
    return response(result={"outcome": {"outcome": "selected", "optionId": option}})


# -- turns ---------------------------------------------------------------------------------------


def test_a_plain_prompt_is_a_turn_and_its_text():
    """A prompt of one text is recorded without its frame, and waits for the medium."""
    desk = Desk()
    taken = desk.prompt("Grüße")
    said = {"role": "user", "content": "Grüße", "direction": "client"}
    assert taken.barrier
    assert taken.events == [("turn_start", {}), ("user", said)]


def test_a_prompt_of_several_texts_keeps_its_frame():
    """Where the blocks began and ended is in the frame."""
    desk = Desk()
    desk.prompt("one", "two")
    user = desk.only("user")
    assert user["content"] == "one\ntwo"
    assert user["raw"] == prompt("one", "two")
    assert user["direction"] == "client"


def test_a_prompt_with_media_is_blocks():
    """Pictures stay pictures; what a conversation has no block for is named in text."""
    desk = Desk()
    desk.prompt(
        "see",
        {"type": "image", "data": "aGk=", "mimeType": "image/webp"},
        {"type": "image", "uri": "https://example.org/a.png"},
        {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "file:///a.py", "name": "a.py"},
        {"type": "resource", "resource": {"uri": "file:///b.py", "text": "print()"}},
        {"type": "hologram"},
        17,
    )
    source = {"type": "base64", "media_type": "image/webp", "data": "aGk="}
    assert desk.only("user")["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image", "source": source},
        {"type": "text", "text": "[image: https://example.org/a.png]"},
        {"type": "text", "text": "[audio: audio/wav]"},
        {"type": "text", "text": "[resource_link: file:///a.py]"},
        {"type": "text", "text": "[resource: file:///b.py]\nprint()"},
        {"type": "text", "text": "[hologram]"},
    ]


def test_a_prompt_with_more_members_keeps_its_frame():
    """What an editor adds to a prompt is not lost."""
    desk = Desk()
    desk.prompt("hi", _meta={"editor": 1})
    assert desk.only("user")["raw"]["params"]["_meta"] == {"editor": 1}


def test_a_prompt_longer_than_a_message_is_whole_in_its_frame():
    """The message is shortened and says so; the session takes it."""
    desk = Desk(limits=Limits(message_bytes_max=800))
    desk.prompt("x" * 500, "y" * 500)
    user = desk.only("user")
    assert len(user["content"]) < 400
    assert "shortened" in user["content"]
    assert user["raw"] == prompt("x" * 500, "y" * 500)


@pytest.mark.parametrize(
    ("result", "data"),
    [
        ({"stopReason": "end_turn"}, {"reason": "completed"}),
        ({"stopReason": "max_tokens"}, {"reason": "max_tokens"}),
        ({"stopReason": "cancelled"}, {"reason": "cancelled"}),
    ],
)
def test_the_answer_to_a_prompt_ends_the_turn(result, data):
    """A turn ends with the reason that the agent gives."""
    desk = Desk()
    taken = desk.end(result=result)
    assert taken.barrier
    assert taken.events == [("turn_end", data)]


def test_an_answer_that_says_more_is_kept():
    """What an agent adds to its answer, and an answer that is none, stay whole."""
    for result in ({"stopReason": "end_turn", "_meta": {"a": 1}}, None, {"stopReason": 3}):
        desk = Desk()
        desk.end(result=result)
        end = desk.only("turn_end")
        assert end["raw"] == response(result=result)
        assert end["reason"] == ("completed" if result and "_meta" in result else "unknown")


def test_usage_is_counted_with_the_last_words():
    """What a turn used goes with its answer; the names are those of events."""
    desk = Desk()
    desk.agent(chunk("hi"))
    usage = {"inputTokens": 3, "outputTokens": 4, "thoughtTokens": True, "cachedReadTokens": -1}
    desk.end(result={"stopReason": "end_turn", "usage": usage})
    assert desk.only("assistant")["usage"] == {"input_tokens": 3, "output_tokens": 4}


def test_usage_without_words_is_an_event_of_its_own():
    """A turn that ends with a thought or a tool has its usage counted all the same."""
    for frames in ([], [thought("hm")]):
        desk = Desk()
        desk.agent(*frames)
        desk.end(result={"stopReason": "end_turn", "usage": {"totalTokens": 9}})
        assert desk.only("usage") == {"total_tokens": 9}


@pytest.mark.parametrize(
    ("error", "told"), [({"code": -1, "message": "out of luck"}, "out of luck"), ([1], "[1]"), ({"code": 2}, None)]
)
def test_a_failed_prompt_ends_the_turn_as_failed(error, told):
    """What went wrong is recorded, with the frame, after the words that came before."""
    desk = Desk()
    desk.agent(chunk("well"))
    taken = desk.end(error=error)
    assert taken.barrier
    assert desk.types == ["delta", "assistant", "agent_error", "turn_end"]
    failure = desk.only("agent_error")
    assert failure["agent"] == "scribe"
    assert failure["error"] == (told or '{"code":2}')
    assert failure["raw"]["error"] == error
    assert desk.only("turn_end") == {"reason": "failed"}


# -- words ---------------------------------------------------------------------------------------


def test_streamed_words_are_covered_by_their_message():
    """Deltas as they came, then one message, when something else comes."""
    desk = Desk()
    desk.prompt("hi")
    desk.agent(thought("h"), thought("m"), chunk("Hel", messageId="m"), chunk("lo", messageId="m"))
    desk.end(result={"stopReason": "end_turn"})
    assert desk.log[2:] == [
        ("delta", {"content": "h", "kind": "thinking"}),
        ("delta", {"content": "m", "kind": "thinking"}),
        ("thinking", {"content": "hm", "covers_from": 2}),
        ("delta", {"content": "Hel", "messageId": "m"}),
        ("delta", {"content": "lo", "messageId": "m"}),
        ("assistant", {"role": "assistant", "content": "Hello", "covers_from": 5, "messageId": "m"}),
        ("turn_end", {"reason": "completed"}),
    ]


@pytest.mark.parametrize(
    "next_frame", [thought("x"), chunk("x", messageId="other"), call(title="t"), permission_request()]
)
def test_what_ends_a_message(next_frame):
    """Another kind, another message, a tool or a question: the message comes before it."""
    desk = Desk()
    desk.agent(chunk("a"), chunk("b"), next_frame)
    assert desk.types[:3] == ["delta", "delta", "assistant"]
    assert desk.types.count("assistant") == 1


def test_what_does_not_end_a_message():
    """Usage, plans, titles, commands and a tool's further output come between words."""
    desk = Desk()
    desk.agent(call(status="in_progress"))
    between = (
        progress(content=[text_part("more")]),
        update(sessionUpdate="usage_update", used=1, size=2),
        update(sessionUpdate="plan", entries=[]),
        update(sessionUpdate="session_info_update", title="t"),
    )
    for frame in between:
        desk.agent(chunk("a"), frame)
    desk.end(result={"stopReason": "end_turn"})
    assert desk.only("assistant")["content"] == "aaaa"


def test_a_prompt_ends_what_was_still_being_said():
    """Words that come after the end of a turn belong before the next prompt."""
    desk = Desk()
    desk.agent(chunk("late"))
    desk.prompt("next")
    assert desk.types == ["delta", "assistant", "turn_start", "user"]


@pytest.mark.parametrize(
    "frame",
    [
        chunk("x", messageId=5),
        chunk("x", messageId=None),
        chunk("x", more=1),
        update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": "x", "n": None}),
        chunk("x") | {"id": 4},
        chunk("x") | {"jsonrpc": "1.0"},
        {**chunk("x"), "params": {**chunk("x")["params"], "_meta": {}}},
        {**chunk("x"), "params": {"update": chunk("x")["params"]["update"], "session": 1}},
    ],
)
def test_an_unusual_chunk_keeps_its_frame(frame):
    """A frame that cannot be written again from its text is kept whole."""
    desk = Desk()
    desk.agent(frame)
    assert desk.log == [("delta", {"content": "x", "direction": "agent", "raw": frame})]


def test_an_empty_chunk_is_only_a_frame():
    """Some agents send empty text; it says nothing."""
    desk = Desk()
    desk.agent(chunk(""))
    assert desk.log == [("frame", {"direction": "agent", "frame": chunk("")})]


def test_a_picture_of_the_agent_is_a_message():
    """What an agent shows is its words; a thought in pictures, or of no known kind, is a frame."""
    picture = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    frame = update(sessionUpdate="agent_message_chunk", content=picture)
    desk = Desk()
    desk.agent(chunk("see"), frame)
    assert desk.types == ["delta", "assistant", "assistant"]
    assert desk.log[-1][1]["content"][0]["source"]["data"] == "aGk="
    assert desk.log[-1][1]["raw"] == frame
    for odd in (
        update(sessionUpdate="agent_thought_chunk", content=picture),
        update(sessionUpdate="agent_message_chunk", content={"type": "smell"}),
        update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": 4}),
        update(sessionUpdate="agent_message_chunk"),
    ):
        other = Desk()
        other.agent(odd)
        assert other.log == [as_frame(odd)]


def test_a_long_message_is_recorded_in_parts():
    """A message never outgrows what one event may hold."""
    desk = Desk(limits=Limits(message_bytes_max=800))
    desk.agent(*[chunk("é" * 60) for _ in range(10)])
    desk.end(result={"stopReason": "end_turn"})
    parts = [data["content"] for type, data in desk.log if type == "assistant"]
    assert len(parts) > 1
    assert "".join(parts) == "é" * 600
    assert max(len(part.encode()) for part in parts) <= 800


def test_a_chunk_that_is_longer_than_a_message_stays_streamed():
    """It is in the log once, and the conversation has it all the same."""
    desk = Desk(limits=Limits(message_bytes_max=800))
    desk.agent(chunk("x" * 900), thought("hm"))
    assert desk.types == ["delta", "delta"]


def test_what_a_dead_agent_was_saying_stays_as_it_came():
    """Nothing is made up about a message that was never finished, and the next is another."""
    desk = Desk()
    desk.agent(chunk("half a wo"), call(status="in_progress"))
    desk.agent(chunk("and a"))
    assert desk.put(desk.notes.interrupted()).events == []
    desk.agent(chunk("again"), progress(status="completed"))
    assert desk.types[3:] == ["delta", "delta", "assistant", "tool_call", "tool_result"]
    assert desk.log[5][1] == {"role": "assistant", "content": "again", "covers_from": 4}


# -- tools ---------------------------------------------------------------------------------------


def test_a_tool_call_is_recorded_once_it_is_known_what_it_does():
    """The first frame with input, or of a call under way, with what was said before."""
    desk = Desk()
    first, second = call(title="Read a", kind="read", status="pending", rawInput={}), progress()
    desk.agent(first, second)
    assert desk.types == ["frame", "frame"]
    start = progress(rawInput={"path": "a"})
    assert desk.put(desk.notes.agent(start)).barrier
    assert desk.only("tool_call") == {
        "id": "c",
        "tool": "read",
        "params": {"path": "a"},
        "title": "Read a",
        "direction": "agent",
        "raw": start,
    }
    more = progress(status="in_progress", content=[text_part("one")])
    assert desk.put(desk.notes.agent(more)) == ([as_frame(more)], False)
    end = progress(status="completed")
    assert desk.put(desk.notes.agent(end)).barrier
    assert desk.only("tool_result") == {"toolCallId": "c", "result": "one", "direction": "agent", "raw": end}


def test_a_call_that_arrives_completed_is_both():
    """The frame is kept once, with the call."""
    desk = Desk()
    frame = call(status="failed", rawInput={"a": 1}, content=[text_part("no")])
    desk.agent(frame)
    assert desk.only("tool_call")["raw"] == frame
    assert desk.only("tool_result") == {"toolCallId": "c", "result": "no", "is_error": True}


def test_a_second_completion_is_only_a_frame():
    """A result is recorded once; in another turn the id may be used again."""
    desk = Desk()
    done = call(status="completed")
    desk.agent(done, done)
    assert desk.types == ["tool_call", "tool_result", "frame"]
    desk.prompt("again")
    desk.agent(done)
    assert desk.types[-2:] == ["tool_call", "tool_result"]


@pytest.mark.parametrize("id", [None, "", 4, [], {}])
def test_a_call_without_an_id_is_only_a_frame(id):
    """What cannot be paired is kept, and is no call."""
    desk = Desk()
    desk.agent(call(id, status="completed"))
    assert desk.types == ["frame"]


@pytest.mark.parametrize(
    ("members", "name"),
    [
        ({"_meta": {"claudeCode": {"toolName": "Bash"}}, "kind": "execute"}, "Bash"),
        ({"_meta": {"toolName": "ls"}, "kind": "read"}, "ls"),
        ({"_meta": {"x": {"toolName": 3}}, "kind": "read", "title": "R"}, "read"),
        ({"kind": "other", "title": "Look"}, "Look"),
        ({"kind": 5, "title": ["x"]}, "tool"),
    ],
)
def test_the_name_of_a_tool(members, name):
    """What the agent calls it, else its kind, else its title."""
    desk = Desk()
    desk.agent(call(status="in_progress", **members))
    assert desk.only("tool_call")["tool"] == name


@pytest.mark.parametrize(
    ("members", "result"),
    [
        ({"content": [text_part("a"), text_part("b")]}, "a\nb"),
        (
            {"content": [{"type": "diff", "path": "a", "oldText": None, "newText": "n", "x": 1}]},
            {"path": "a", "oldText": None, "newText": "n"},
        ),
        (
            {"content": [text_part("a"), {"type": "diff", "path": "a", "newText": "n"}]},
            [{"type": "text", "text": "a"}, {"path": "a", "newText": "n"}],
        ),
        ({"rawOutput": {"exit": 0}}, {"exit": 0}),
        ({"content": [{"type": "terminal", "terminalId": "t1"}]}, "[terminal: t1]"),
        ({"content": [{"type": "terminal", "terminalId": "t1"}], "rawOutput": "x"}, "x"),
        ({"content": "text"}, ""),
        ({}, ""),
    ],
)
def test_the_result_of_a_tool(members, result):
    """Its texts, its changes to files, or its raw output."""
    desk = Desk()
    desk.agent(call(status="completed", **members))
    assert desk.only("tool_result")["result"] == result


# -- permissions, plans, titles and the rest -----------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "decision", "option"),
    [
        (selected("y"), "allow", "y"),
        (selected("n"), "deny", "n"),
        (selected("allow_always"), "allow", "allow_always"),
        (selected("never heard of"), "deny", "never heard of"),
        (selected(3), "cancelled", None),
        (response(result={"outcome": {"outcome": "cancelled"}}), "cancelled", None),
        (response(error={"code": 1}), "cancelled", None),
        (response(result=[]), "cancelled", None),
    ],
)
def test_a_permission(answer, decision, option):
    """The question is a call and a frame, the answer a decision; both wait for the medium."""
    desk = Desk()
    request = permission_request(kind="execute", rawInput={"command": "ls"})
    assert desk.put(desk.notes.agent(request)).barrier
    assert desk.types == ["tool_call", "frame", "permission"]
    assert desk.only("frame") == {"direction": "agent", "frame": request}
    assert desk.only("permission") == {"tool": "execute", "call": "c", "decision": "ask"}
    assert desk.put(desk.notes.answer(request, answer, "client")).barrier
    given = {"option": option} if option else {}
    assert desk.log[-1][1] == {
        "tool": "execute",
        "call": "c",
        "decision": decision,
        "scope": "once",
        **given,
        "direction": "client",
        "raw": answer,
    }


def test_what_a_permission_request_says_of_a_call_counts():
    """Some agents tell the input of a call only when they ask for leave."""
    desk = Desk()
    desk.agent(permission_request(rawInput={"command": "ls"}), progress(status="in_progress"))
    assert desk.only("tool_call")["params"] == {"command": "ls"}


def test_a_plan_is_a_list_of_todos():
    """Entries of a plan, with what is no entry left to the frame."""
    frame = update(
        sessionUpdate="plan",
        entries=[{"content": "a", "status": "in_progress", "priority": "high"}, {"content": 4, "status": "odd"}, "x"],
    )
    desk = Desk()
    desk.agent(frame)
    assert desk.only("todo_update") == {
        "todos": [
            {"content": "a", "status": "in_progress", "activeForm": "a"},
            {"content": "", "status": "pending", "activeForm": ""},
        ],
        "direction": "agent",
        "raw": frame,
    }


def test_a_title_of_the_agent_is_an_automatic_one():
    """The user's own title is never overwritten by it."""
    frame = update(sessionUpdate="session_info_update", title="About fish")
    desk = Desk()
    desk.agent(frame)
    assert desk.only("title") == {"title": "About fish", "auto": True, "direction": "agent", "raw": frame}


@pytest.mark.parametrize(
    "frame",
    [
        update(sessionUpdate="session_info_update", title=None),
        update(sessionUpdate="session_info_update", title=" "),
        update(sessionUpdate="session_info_update", title="x" * 100_000),
        update(sessionUpdate="plan", entries="none"),
        update(sessionUpdate="plan", entries=[{"content": "x" * 100_000}]),
        update(sessionUpdate="available_commands_update", availableCommands=[]),
        update(sessionUpdate="user_message_chunk", content={"type": "text", "text": "hi"}),
        update(sessionUpdate="invented_yesterday", x=1),
        update(sessionUpdate=["plan"]),
        update(),
        {"jsonrpc": "2.0", "method": "session/update"},
        {"jsonrpc": "2.0", "method": "session/update", "params": {"update": "plan"}},
        {"jsonrpc": "2.0", "id": 3, "method": "fs/read_text_file", "params": {"path": "/a"}},
        {"jsonrpc": "2.0", "method": "_auth/status_update"},
    ],
)
def test_everything_else_is_a_frame(frame):
    """Kinds that are no conversation, or that nobody knows, are kept as they came."""
    desk = Desk()
    assert not desk.put(desk.notes.agent(frame)).barrier
    assert desk.log == [as_frame(frame)]


def test_what_the_editor_asks_is_a_frame():
    """Requests, notifications and answers of no special meaning are kept as they came."""
    cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "theirs"}}
    read = {"jsonrpc": "2.0", "id": 3, "method": "fs/read_text_file", "params": {"path": "/a"}}
    answer = {"jsonrpc": "2.0", "id": 3, "result": {"content": "x"}}
    desk = Desk()
    desk.put(desk.notes.client(cancel))
    desk.put(desk.notes.answer(read, answer, "client"))
    assert desk.log == [
        ("frame", {"direction": "client", "frame": cancel}),
        ("frame", {"direction": "client", "frame": answer}),
    ]


def test_secrets_of_mcp_servers_are_not_recorded():
    """Names and arguments stay; values of variables and headers do not."""
    servers = [
        {"name": "a", "command": "/a", "args": ["-x"], "env": [{"name": "KEY", "value": "s3cret"}]},
        {"name": "b", "url": "https://b", "headers": {"Authorization": "s3cret"}},
        {"name": "c", "env": "s3cret", "headers": ["s3cret"]},
        "odd",
    ]
    frame = {"method": "session/load", "params": {"sessionId": "x", "mcpServers": servers}}
    desk = Desk()
    desk.put(desk.notes.client(frame))
    assert "s3cret" not in repr(desk.log)
    assert servers[0]["env"][0]["value"] == "s3cret", "the frame itself goes on as it is"
    masked = desk.only("frame")["frame"]["params"]["mcpServers"]
    assert masked[0] == servers[0] | {"env": [{"name": "KEY", "value": "***"}]}
    assert masked[1]["headers"] == {"Authorization": "***"}
    assert mask_servers(None) is None
