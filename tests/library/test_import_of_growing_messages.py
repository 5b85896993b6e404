"""Importing a session while its last message is still being written."""

from __future__ import annotations

import json

AT = "2026-11-15T09:19:{:02d}.000Z".format


def talk(hf, id):
    """What a recovered conversation says."""
    return [message["content"] for message in hf.recover(id).messages]


def gemini(id, kind, content, second):
    """A line of Gemini CLI's log."""
    return {"id": id, "timestamp": AT(second), "type": kind, "content": content}


HEAD = {"sessionId": "g1", "projectHash": "h", "startTime": AT(0), "lastUpdated": AT(0)}


def write(path, lines):
    """A log."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_the_last_version_of_a_message_counts(hf, tmp_path):
    """A line of a known message replaces the one before it."""
    lines = [
        HEAD,
        gemini("u1", "user", "draft", 1),
        gemini("u1", "user", "question", 1),
        gemini("a1", "gemini", "An", 2),
        gemini("a1", "gemini", "An answer", 2),
        {"$set": {"messages": [gemini("a1", "gemini", "An answer.", 2)]}},
    ]
    [id] = hf.import_(write(tmp_path / "session-x.jsonl", lines))
    assert talk(hf, id) == ["question", "An answer."]


def test_a_message_that_has_grown_under_its_id(hf, tmp_path):
    """The old form is taken back, and a third import adds nothing."""
    lines = [HEAD, gemini("u1", "user", "question", 1), gemini("a1", "gemini", "An", 2)]
    path = write(tmp_path / "session-x.jsonl", lines)
    [id] = hf.import_(path)
    for words in ("An answer", "An answer that is long"):
        lines[2] = gemini("a1", "gemini", words, 2)
        assert hf.import_all([write(path, lines)]).updated
        assert talk(hf, id) == ["question", words]
        assert hf.import_all([path]).unchanged
    lines.append(gemini("u2", "user", "more", 3))
    hf.import_(write(path, lines))
    assert talk(hf, id) == ["question", "An answer that is long", "more"]


def test_a_streamed_message_without_an_id(hf, tmp_path):
    """What orbitmesh streamed on goes on here: its beginning is not said twice."""
    log = [
        {"seq": 1, "timestamp": AT(1), "projection": "append", "kind": "user", "contents": "hi"},
        {"seq": 2, "timestamp": AT(2), "projection": "append", "kind": "output", "contents": "One"},
    ]
    path = write(tmp_path / "a.messages.jsonl", log)
    [id] = hf.import_(path)
    more = {"timestamp": AT(3), "projection": "append_output_delta", "kind": "output"}
    hf.import_(write(path, [*log, {**more, "seq": 3, "contents": " two"}]))
    assert talk(hf, id) == ["hi", "One two"]
    assert hf.import_all([path]).unchanged


def test_an_answer_like_the_one_before_it_stays(hf, tmp_path):
    """A new message that begins like the last one takes nothing back: that one is still there."""
    path = tmp_path / "talk.json"
    messages = [{"role": "user", "content": "go"}, {"role": "user", "content": "go on"}]
    path.write_text(json.dumps({"id": "x", "messages": messages[:1]}))
    [id] = hf.import_(path)
    path.write_text(json.dumps({"id": "x", "messages": messages}))
    hf.import_(path)
    assert [event.data["content"] for event in hf.events(id, types=["user"])] == ["go", "go on"]
    assert not list(hf.events(id, types=["retracted"]))
