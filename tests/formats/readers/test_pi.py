"""pi's sessions."""

from __future__ import annotations

import pytest

from holdfast.formats.readers.pi import READER

OWN = "0199bbbb-0000-7000-8000-000000000001"
OTHER = "0199bbbb-0000-7000-8000-000000000002"


class Writer:
    """Writes entries as the tool does, each the child of the one before."""

    def __init__(self, **head):
        stamp = "2025-11-20T20:00:00.000Z"
        head = {"type": "session", "version": 3, "id": OWN, "timestamp": stamp, "cwd": "/home/kim/q"} | head
        self.lines = [head]
        self.leaf = None

    def add(self, type, *, parent="", **members):
        id = f"e{len(self.lines):03d}"
        stamp = f"2025-11-20T20:00:{len(self.lines):02d}.000Z"
        given = self.leaf if parent == "" else parent
        self.lines.append({"type": type, "id": id, "parentId": given, "timestamp": stamp, **members})
        self.leaf = id
        return id

    def say(self, role, content, *, parent="", **members):
        return self.add("message", parent=parent, message={"role": role, "content": content, **members})


def text(words):
    return {"type": "text", "text": words}


def conversation(**head):
    w = Writer(**head)
    w.add("model_change", provider="p", modelId="m-1")
    w.say("user", [text("Sum it up")])
    called = {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a"}}
    thought = {"type": "thinking", "thinking": "Read.", "thinkingSignature": "c2ln"}
    usage = {"input": 6, "output": 2, "cacheRead": 1, "totalTokens": 9, "cost": {"total": 0.5}}
    w.say("assistant", [thought, text("I read."), called], model="m-1", usage=usage)
    w.say("toolResult", [text("4")], toolCallId="c1", toolName="read", isError=False)
    w.say("assistant", [text("Four.")], model="m-1")
    return w


@pytest.fixture
def one(kit):
    def read(writer):
        return kit.one(READER, kit.source(f"2025_{OWN}.jsonl", kit.jsonl(*writer.lines)))

    return read


@pytest.mark.req("C11")
def test_a_session_arrives_whole(one):
    """Turns, thoughts, calls with results, cost, place and time."""
    told = one(conversation())
    assert told.counts() == (1, 2, 1, 1, 1)
    assert told.of("thinking")[0].data["signature"] == "c2ln"
    usage = told.of("usage")[0].data
    assert (usage["input_tokens"], usage["cost"], usage["model"]) == (6, 0.5, "m-1")
    foreign = told.foreign
    assert (foreign.foreign_id, foreign.cwd, foreign.created_at) == (OWN, "/home/kim/q", 1763668800000)


def test_the_first_version_has_no_tree(one):
    """Entries without ids follow one another."""
    writer = conversation(version=None)
    for line in writer.lines[1:]:
        del line["id"], line["parentId"]
    assert one(writer).counts() == (1, 2, 1, 1, 1)


def test_a_branch_left_behind_is_set_aside(one):
    """Also if the person went back to the very beginning."""
    writer = conversation()
    writer.say("user", "From the start", parent=None)
    told = one(writer)
    assert told.said() == ["From the start"]
    assert told.said(run="branch-e001") == ["Sum it up"]


def test_pictures_failures_and_plain_texts(one):
    """Contents come as texts or as blocks."""
    writer = conversation()
    writer.say("user", [text("See"), {"type": "image", "data": "aGk=", "mimeType": "image/png"}])
    writer.say("assistant", "Plainly.")
    called = {"type": "toolCall", "id": "c2", "name": "bash", "arguments": {}}
    writer.say("assistant", [called])
    writer.say("toolResult", "no", toolCallId="c2", isError=True)
    told = one(writer)
    assert told.said()[1][1]["type"] == "image"
    assert told.said("assistant")[-1] == "Plainly."
    assert told.of("tool_result")[1].data["is_error"] is True


def test_what_extensions_and_the_shell_say_is_no_turn(one):
    """It stays as frames."""
    writer = conversation()
    writer.add("message", message={"role": "bashExecution", "command": "ls", "output": "a"})
    writer.say("custom", "injected")
    writer.add("custom_message", content="injected", customType="x", display=True)
    assert one(writer).counts() == (1, 2, 1, 1, 1)


def test_name_and_parent(one):
    """The parent is named by the path of its file."""
    writer = conversation(parentSession=f"/home/kim/.pi/agent/sessions/--q--/2025_{OTHER}.jsonl")
    writer.add("session_info", name="Sums")
    foreign = one(writer).foreign
    assert (foreign.title, foreign.parent) == ("Sums", OTHER)


def test_compactions(one):
    """A summary is kept only where it is all there is."""
    writer = conversation()
    writer.add("compaction", summary="Four.", firstKeptEntryId="e003")
    assert one(writer).of("system") == []
    alone = Writer()
    alone.add("compaction", summary="Four.", firstKeptEntryId="e003")
    assert one(alone).said("system") == ["Four."]


def test_a_lost_head_and_a_repeated_entry(kit):
    """The rest is read, each entry once."""
    lines = conversation().lines
    told = kit.one(READER, kit.source("x.jsonl", kit.jsonl("{", *lines[1:], lines[2])))
    assert told.counts() == (1, 2, 1, 1, 1)
    assert told.foreign.foreign_id == "x"
