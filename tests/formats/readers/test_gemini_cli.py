"""Gemini CLI's chats."""

from __future__ import annotations

import json

import pytest

from holdfast.formats.readers.gemini_cli import READER

OWN = "3d0e6c6a-1111-4222-8333-944455556666"
HEAD = {
    "sessionId": OWN,
    "projectHash": "aa11",
    "startTime": "2025-12-24T18:00:00.000Z",
    "lastUpdated": "2025-12-24T18:00:00.000Z",
    "kind": "main",
}
CONTEXT = "<session_context>\nThis is the CLI.\n- **Workspace Directories:**\n  - /home/kim/garden\n</session_context>"


def message(id, type, content="", **members):
    second = sum(map(ord, id)) % 60
    stamp = f"2025-12-24T18:01:{second:02d}.000Z"
    return {"id": id, "timestamp": stamp, "type": type, "content": content, **members}


def response(id, name, **given):
    return {"functionResponse": {"id": id, "name": name, "response": given}}


def call(id, name="read_file", status="success", **members):
    return {"id": id, "name": name, "args": {"path": "a"}, "status": status, **members}


def log():
    done = call("c1", result=[response("c1", "read_file", output="roses")])
    return [
        HEAD,
        {"$set": {"messages": [message("ctx", "user", [{"text": CONTEXT}])]}},
        message("u1", "user", [{"text": "What grows?"}]),
        {"$set": {"lastUpdated": "2025-12-24T18:01:30.000Z"}},
        message(
            "g1",
            "gemini",
            "I look.",
            thoughts=[{"subject": "Plan", "description": "Read a."}],
            tokens={"input": 12, "output": 3, "cached": 2, "total": 15},
            model="gemini-2.5-pro",
        ),
        message("g2", "gemini", "", toolCalls=[call("c1", status="executing")], model="gemini-2.5-pro"),
        message("g2", "gemini", "", toolCalls=[done], model="gemini-2.5-pro"),
        message("u2", "user", [response("c1", "read_file", output="roses")]),
        message("g3", "gemini", "Roses.", thoughts=[], model="gemini-2.5-pro"),
    ]


@pytest.fixture
def one(kit):
    def read(lines, name="session-2025-12-24T18-00-3d0e6c6a.jsonl", **options):
        return kit.one(READER, kit.source(name, kit.jsonl(*lines), **options))

    return read


@pytest.mark.req("C11")
def test_a_log_arrives_whole(one):
    """Turns, thoughts, calls with results, each once though the log repeats them."""
    told = one(log())
    assert told.counts() == (1, 2, 1, 1, 1)
    assert told.said("thinking") == ["**Plan**\n\nRead a."]
    assert told.of("tool_result")[0].data["result"] == "roses"
    assert told.of("usage")[0].data["cache_read_tokens"] == 2
    foreign = told.foreign
    assert (foreign.foreign_id, foreign.cwd) == (OWN, "/home/kim/garden")
    assert foreign.created_at == 1766599200000


def test_taking_a_session_up_again_tells_nothing_twice(one):
    """The whole history is then written anew, with the calls among the content."""
    lines = log()
    again = [m for m in lines if "type" in m]
    called = {"functionCall": {"id": "c1", "name": "read_file", "args": {"path": "a"}}}
    again = [m | {"content": [called]} if m["id"] == "g2" else m for m in again]
    again = [m | {"content": [{"text": "I look."}]} if m["id"] == "g1" else m for m in again]
    lines += [HEAD | {"startTime": "2025-12-25T18:00:00.000Z"}, {"$set": {"messages": again}}]
    lines.append(message("u9", "user", [{"text": "And now?"}]))
    told = one(lines)
    assert told.counts() == (2, 2, 1, 1, 1)
    assert told.foreign.created_at == 1766599200000


def test_a_message_that_grows_gives_only_what_is_new(one):
    """One message may gather the calls of several turns; each stands where it came."""
    lines = log()
    lines.append(message("u3", "user", [{"text": "Plant more"}]))
    old = lines[6]["toolCalls"][0]
    new = call("c2", "write_file", result=[response("c2", "write_file", error="locked")], status="error")
    lines.append(message("g2", "gemini", "", toolCalls=[old, new]))
    told = one(lines)
    assert told.counts() == (2, 2, 1, 2, 2)
    kinds = [d.type for d in told.drafts if d.type in {"user", "tool_call"}]
    assert kinds == ["user", "tool_call", "user", "tool_call"]
    assert told.of("tool_result")[1].data["is_error"] is True
    assert told.of("tool_result")[1].data["result"] == "locked"


def test_a_grown_log_gives_the_same_keys_for_what_it_held_before(one):
    """A second import can tell what is new."""
    lines = log()
    before = [d.key for d in one(lines).drafts]
    after = [d.key for d in one([*lines, message("u9", "user", "More")]).drafts]
    assert after[: len(before)] == before


def test_what_was_rewound_is_set_aside(one):
    """That message and all after it; an unknown one takes back everything."""
    lines = [*log(), message("u3", "user", "Oops"), message("g4", "gemini", "?"), {"$rewindTo": "u3"}]
    told = one([*lines, message("u4", "user", "Better")])
    assert told.said() == ["What grows?", "Better"]
    assert told.said(run="rewound-1") == ["Oops"]
    assert one([*lines, {"$rewindTo": "gone"}]).said() == []


def test_notices_are_no_turns(one):
    """They stay as frames."""
    lines = [*log(), message("i", "info", "Update available"), message("e", "error", "Quota")]
    assert one(lines).counts() == (1, 2, 1, 1, 1)


def test_one_document_of_earlier_versions(kit):
    """The same messages, all in one."""
    messages = [m for m in log() if "type" in m]
    value = HEAD | {"messages": messages, "summary": "About roses"}
    source = kit.source("session-2025-09-01T10-00-3d0e6c6a.json", json.dumps(value).encode())
    told = kit.one(READER, source)
    assert told.counts() == (1, 2, 1, 1, 1)
    assert told.foreign.title == "About roses"


def test_parts_of_all_kinds(one):
    """Pictures, thoughts and calls without an id among the parts of a message."""
    picture = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    lines = [
        HEAD,
        message("u1", "user", [{"text": "See"}, picture]),
        message(
            "g1",
            "gemini",
            [
                {"text": "Hm", "thought": True},
                {"text": "I call"},
                {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "c2ln"},
            ],
        ),
        message("u2", "user", [{"functionResponse": {"name": "look", "response": {"seen": 1}}}]),
    ]
    told = one(lines)
    assert told.counts() == (1, 1, 1, 1, 1)
    assert told.of("tool_call")[0].data["thought_signature"] == "c2ln"
    assert told.of("tool_call")[0].data["id"] == told.of("tool_result")[0].data["toolCallId"]
    assert told.of("tool_result")[0].data["result"] == {"seen": 1}
    assert told.said()[0][1]["type"] == "image"


def test_results_as_plain_text_and_cancelled_calls(one):
    """Not every result is wrapped; what was cancelled is marked."""
    calls = [call("c1", result="plain"), call("c2", status="cancelled", result=[{"text": "no"}])]
    told = one([HEAD, message("u", "user", "Go"), message("g", "gemini", "", toolCalls=calls)])
    assert [d.data["result"] for d in told.of("tool_result")] == ["plain", "no"]
    assert told.of("tool_result")[1].data["is_error"] is True


def test_a_sub_agent_names_its_parent(one):
    """Its file lies in a folder of the parent's id."""
    told = one([HEAD | {"kind": "subagent"}, message("u", "user", "Find")], folder="parent-id")
    assert told.foreign.parent == "parent-id"


def test_a_log_without_its_head_is_still_read(one):
    """The id is then the file's name."""
    told = one(["{torn", *log()[2:]], name="session-x.jsonl")
    assert told.counts() == (1, 2, 1, 1, 1)
    assert told.foreign.foreign_id == "session-x"
    assert len(told.foreign.problems) == 1


def test_parallel_calls_stay_together(one):
    """Both come before the first result, as the model made them in one answer."""
    calls = [call(id, result=[response(id, "read_file", output=id)]) for id in ("c1", "c2")]
    told = one([HEAD, message("u", "user", "Go"), message("g", "gemini", "", toolCalls=calls)])
    kinds = [d.type for d in told.drafts if d.type.startswith("tool")]
    assert kinds == ["tool_call", "tool_call", "tool_result", "tool_result"]


def test_of_a_document_that_was_cut_short_the_whole_messages_arrive(kit):
    """And the rest is told."""
    messages = [m for m in log() if "type" in m]
    data = json.dumps(HEAD | {"messages": messages}, indent=2).encode()
    cut = data[: data.rindex(b"Roses.")]
    told = kit.one(READER, kit.source("session-x.json", cut))
    assert told.counts() == (1, 1, 1, 1, 1)
    assert "whole" in told.foreign.problems[0]


def test_context_beside_a_users_words_does_not_hide_them(one):
    """Each part is judged by itself."""
    told = one([HEAD, message("u", "user", [{"text": CONTEXT}, {"text": "Hello"}])])
    assert (told.said(), told.foreign.cwd) == (["Hello"], "/home/kim/garden")
