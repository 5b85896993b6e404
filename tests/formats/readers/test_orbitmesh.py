"""orbitmesh: session files, message logs, attempts and gzip snapshots."""

from __future__ import annotations

import gzip
import json

import pytest

from holdfast.formats import session_id_of
from holdfast.formats.readers._values import digest

pytestmark = pytest.mark.req("C20")

CREATED = "2026-02-20T10:00:00.123456789Z"
UPDATED = "2026-02-20T12:30:00.987654321+02:00"
CREATED_MS, UPDATED_MS = 1771581600123, 1771583400987


def session(id="a1", **changes):
    """A session file."""
    return {
        "id": id,
        "provider_type": "acp",
        "preferred_provider_id": "p-1",
        "kind": "dock",
        "title": "Mesh",
        "state": "suspended",
        "working_dir": "/srv/project",
        "provider_custom": {"API_KEY": "secret"},
        "created_at": CREATED,
        "updated_at": UPDATED,
        "current_task": "writing",
        "transitions": [{"from": "idle", "to": "running", "reason": "go", "timestamp": CREATED}],
        **changes,
    }


def line(seq, kind, contents, projection="append", **extra):
    """A line of a message log."""
    when = f"2026-02-20T10:00:{seq:02d}.5Z"
    value = {"seq": seq, "timestamp": when, "projection": projection, "kind": kind}
    return json.dumps({**value, "contents": contents, **extra})


LOG = [
    line(1, "user", "Write a poem"),
    line(2, "thought", "Roses perhaps"),
    line(3, "output", "Roses ", "append_output_delta"),
    line(4, "output", "are ", "append_output_delta"),
    line(5, "output", "red", "append_output_delta"),
    line(
        6,
        "tool_use",
        "Save(poem)",
        "append_raw",
        raw={"id": "t1", "name": "Save", "input": {"to": "x"}, "result": "saved"},
    ),
    line(7, "output", "Saved.", "append"),
    line(8, "plan", json.dumps({"entries": [{"content": "rhyme", "status": "completed", "priority": "high"}]})),
    line(9, "plan", "first this, then that"),
    line(10, "error", "provider went away"),
    line(11, "system", "resumed"),
    line(12, "metric", '{"tokens": 5}'),
]


@pytest.fixture
def base(tmp_path):
    """The base directory."""
    for name in ("sessions/attempts/a1", "sessions/resume_tokens", "snapshots"):
        (tmp_path / "mesh" / name).mkdir(parents=True)
    return tmp_path / "mesh"


def write(path, value):
    """A JSON file, compressed if its name says so."""
    data = json.dumps(value).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def snapshot(id="s1", **changes):
    """A snapshot."""
    return {
        "session_id": id,
        "provider_type": "acp",
        "created_at": CREATED,
        "updated_at": UPDATED,
        "version": 1,
        "config": {"ProviderType": "acp", "WorkingDir": "/srv/other", "Environment": {"KEY": "hidden"}},
        "provider_state": {
            "acp_session_id": "acp-77",
            "messages": [
                {"role": "user", "content": "Hello", "timestamp": "2026-02-20T10:00:01.000000001Z"},
                {"role": "assistant", "content": "Good ", "timestamp": "2026-02-20T10:00:02Z"},
                {"role": "assistant", "content": "day", "timestamp": "2026-02-20T10:00:03Z"},
            ],
            "current_task": "greeting",
            "metrics": {"TokensIn": 11, "TokensOut": 4, "RequestCount": 2},
        },
        **changes,
    }


def everything(hf, id):
    """All that the log of a session holds, as one text."""
    return json.dumps([event.data for event in hf.events(id)])


def test_a_session_with_its_log(hf, base):
    """Messages with their kinds and times, deltas joined, title, task, folder; nine digits cut."""
    write(base / "sessions/a1.json", session())
    (base / "sessions/a1.messages.jsonl").write_text("\n".join(LOG))
    [id] = hf.import_(base / "sessions/a1.json")
    row, state = hf.info(id), hf.state(id)
    assert (row.title, row.created_at, row.updated_at) == ("Mesh", CREATED_MS, UPDATED_MS)
    assert (state.task, state.metadata["cwd"], row.status) == ("writing", "/srv/project", "idle")
    answers = [e.data["content"] for e in hf.events(id, types=["assistant"])]
    assert answers == ["Roses are red", "Saved.", "first this, then that"]
    [thought] = hf.events(id, types=["thinking"])
    assert (thought.data["content"], thought.timestamp) == ("Roses perhaps", 1771581602500)
    [call] = hf.events(id, types=["tool_call"])
    assert (call.data["id"], call.data["params"]) == ("t1", {"to": "x"})
    assert state.todos[0]["content"] == "rhyme"
    [error] = hf.events(id, types=["agent_error"])
    assert error.data["error"] == "provider went away"
    for raw in LOG:
        assert json.dumps(raw)[1:-1] in everything(hf, id)
    assert "secret" not in everything(hf, id)


def test_the_log_is_believed_before_the_embedded_list(hf, base):
    """Messages of both are there once; what only the list has is put in its place."""
    messages = [
        {"id": "log_1", "kind": "user", "contents": "Write a poem", "timestamp": CREATED},
        {"id": "x", "kind": "user", "contents": "Please", "timestamp": CREATED},
        {"id": "log_3", "kind": "output", "contents": "Roses are red", "timestamp": CREATED},
    ]
    write(base / "sessions/a1.json", session(messages=messages))
    (base / "sessions/a1.messages.jsonl").write_text("\n".join(LOG[:5]))
    [id] = hf.import_(base / "sessions/a1.messages.jsonl")
    said = [e.data["content"] for e in hf.events(id, types=["user", "assistant"])]
    assert said == ["Write a poem", "Please", "Roses are red"]
    assert hf.info(id).title == "Mesh"


def test_only_the_embedded_list(hf, base):
    """A session of before there were logs."""
    messages = [{"id": "1", "kind": "user", "contents": "Hi", "timestamp": CREATED}]
    write(base / "sessions/a1.json", session(messages=messages))
    [id] = hf.import_(base / "sessions/a1.json")
    assert [e.data["content"] for e in hf.events(id, types=["user"])] == ["Hi"]


@pytest.mark.req("S4-15", "S4-75")
def test_a_gzip_snapshot(hf, base):
    """Messages with chunks joined, the agent's own id, task and metrics; no environment."""
    write(base / "snapshots/s1.json.gz", snapshot())
    [id] = hf.import_(base / "snapshots/s1.json.gz")
    row, state = hf.info(id), hf.state(id)
    assert [m["content"] for m in hf.recover(id).messages] == ["Hello", "Good day"]
    assert state.links == {"orbitmesh": ["s1"], "acp": ["acp-77"]}
    assert (state.task, state.usage.input_tokens, state.usage.output_tokens) == ("greeting", 11, 4)
    assert (row.created_at, state.usage.requests) == (CREATED_MS, 2)
    assert state.metadata["cwd"] == "/srv/other"
    assert "hidden" not in everything(hf, id)


def test_a_whole_base_folder(hf, base):
    """Session, log, attempts and snapshot are one session; resume tokens do not come in."""
    write(base / "sessions/a1.json", session())
    (base / "sessions/a1.messages.jsonl").write_text("\n".join(LOG))
    write(base / "snapshots/a1.json.gz", snapshot("a1"))
    write(base / "snapshots/s1.json.gz", snapshot("s1"))
    attempt = {"attempt_id": "t-1", "session_id": "a1", "started_at": CREATED, "terminal_reason": "interrupted"}
    write(base / "sessions/attempts/a1/t-1.json", attempt)
    token = {"token_id": "tok-9", "session_id": "a1", "attempt_id": "t-1", "created_at": CREATED}
    write(base / "sessions/resume_tokens/tok-9.json", token)
    write(base / "sessions/b2.json", {"id": "b2"})
    (base / "sessions/bad.json").write_text("{")
    report = hf.import_all([base])
    rows = {row.foreign_id: row for row in report.sessions}
    assert rows.keys() == {"a1", "s1"}
    first = rows["a1"].session_id
    assert "t-1" in everything(hf, first)
    assert "tok-9" not in everything(hf, first)
    assert [one.source for one in report.skipped] == ["sessions/bad.json"]
    assert "Write a poem" in str(hf.recover(first).messages[0]["content"])
    again = hf.import_all([base])
    assert {row.outcome for row in again.sessions} == {"unchanged"}


def test_damaged_lines_are_told(hf, base):
    """Lines without a number or a time are left out; those around them come."""
    lines = [LOG[0], '{"projection": "append", "kind": "user", "seq": 0}', "no", LOG[6]]
    (base / "sessions/only.messages.jsonl").write_text("\n".join(lines))
    [row] = hf.import_all([base]).sessions
    assert row.foreign_id == "only"
    assert len(row.problems) == 2
    assert len(hf.recover(row.session_id).messages) == 2


def test_calls_as_far_as_they_were_kept(hf, base):
    """A call without an id or arguments keeps its words; a snapshot may have content blocks."""
    (base / "sessions/c.messages.jsonl").write_text(
        "\n".join([LOG[0], line(2, "tool_use", "Read: a.txt"), line(3, "tool_use", "Read: a.txt")])
    )
    [id] = hf.import_(base / "sessions/c.messages.jsonl")
    calls = [event.data for event in hf.events(id, types=["tool_call"])]
    assert [(call["tool"], call["params"]) for call in calls] == [("Read", {"contents": "Read: a.txt"})] * 2
    assert calls[0]["id"] != calls[1]["id"]
    blocks = [{"role": "user", "content": [{"type": "text", "text": "in blocks"}]}, "odd"]
    write(base / "snapshots/b.json.gz", snapshot("b", provider_state={"messages": blocks}))
    [other] = hf.import_(base / "snapshots/b.json.gz")
    assert hf.recover(other).messages == [{"role": "user", "content": "in blocks"}]


def test_what_only_a_snapshot_has(hf, base):
    """It comes in at its time; what the log has too is not said twice."""
    write(base / "sessions/a1.json", session())
    (base / "sessions/a1.messages.jsonl").write_text("\n".join([*LOG[:5], *LOG[6:7]]))
    at = "2026-02-20T10:00:{:02d}.7Z".format
    messages = [
        {"role": "assistant", "content": "Roses perhaps", "timestamp": at(2)},
        {"role": "assistant", "content": "Roses ", "timestamp": at(3)},
        {"role": "user", "content": "And now?", "timestamp": at(6)},
        {"role": "assistant", "content": "More ", "timestamp": at(30)},
        {"role": "assistant", "content": "later", "timestamp": at(31)},
    ]
    state = {"acp_session_id": "acp-77", "messages": messages}
    write(base / "snapshots/a1.json.gz", snapshot("a1", provider_state=state))
    [id] = hf.import_(base)
    talk = [event.data["content"] for event in hf.events(id, types=["user", "assistant"])]
    assert talk == ["Write a poem", "Roses are red", "And now?", "Saved.", "More later"]
    assert hf.import_all([base]).unchanged


def test_news_about_a_call(hf, base):
    """A call is told once, however often its progress was logged; its result comes with it."""
    call = {"toolCallId": "c1", "title": "Read", "rawInput": {"path": "a"}}
    log = [
        line(1, "user", "Read a"),
        line(2, "tool_use", "Read", "append_raw", raw=call),
        line(3, "tool_use", "Read", "append_raw", raw={"toolCallId": "c1", "status": "running"}),
        line(4, "tool_use", "Read", "append_raw", raw={"toolCallId": "c1", "rawOutput": "text"}),
    ]
    write(base / "sessions/a1.json", session())
    (base / "sessions/a1.messages.jsonl").write_text("\n".join(log))
    [id] = hf.import_(base)
    [called] = hf.events(id, types=["tool_call"])
    [result] = hf.events(id, types=["tool_result"])
    assert (called.data["params"], result.data["result"]) == ({"path": "a"}, "text")


@pytest.mark.req("S4-13", "S4-14", "S4-60")
@pytest.mark.parametrize("go", [True, False])
def test_snapshots_of_the_first_design(hf, base, go):
    """They are plain JSON among the sessions, with the provider's state at the top."""
    text = [{"Type": "text", "Text": "Hello"}] if go else [{"type": "text", "text": "Hello"}]
    names = {"role": "user", "content": text, "timestamp": CREATED}
    message = {name.title() if go else name: value for name, value in names.items()}
    plain = {
        "session_id": "e1",
        "provider_type": "claude",
        "created_at": CREATED,
        "updated_at": UPDATED,
        "version": 1,
        "config": {"WorkingDir": "/srv/x"},
        "acp_session_id": "acp-5",
        "messages": [message],
        "current_task": "greet",
        "metrics": {"TokensIn": 4, "TokensOut": 5},
        "metadata": {"title": "First"},
    }
    words = {"acp_session_id": "ACPSessionID", "session_id": "SessionID"}
    value = {words.get(k, k.title().replace("_", "")) if go else k: v for k, v in plain.items()}
    write(base / "sessions/e1.json", value)
    write(base / "sessions/index.json", {"sessions": ["e1"]})
    [id] = hf.import_(base)
    row, state = hf.info(id), hf.state(id)
    assert [event.data["content"] for event in hf.events(id, types=["user"])] == ["Hello"]
    assert (row.title, row.created_at) == ("First", CREATED_MS)
    assert (state.links["acp"], state.task, state.provider_type) == (["acp-5"], "greet", "claude")
    assert (state.usage.input_tokens, state.usage.output_tokens) == (4, 5)


def lines(*messages):
    """A message log: each message is its kind, its text and, if it has one, its raw."""
    found = []
    ways = {"user": "append", "delta": "append_output_delta"}
    for seq, (named, contents, *raw) in enumerate(messages, 1):
        kind = "output" if named == "delta" else named
        how = ways.get(named, "append_raw")
        found.append(line(seq, kind, contents, how, **({"raw": raw[0]} if raw else {})))
    return found


@pytest.fixture
def bring(hf, base):
    """Brings messages in, from the log or from the list in the session file; the session's id."""

    def bring(messages, place="log", name="a1"):
        log = lines(*messages)
        path = base / f"sessions/{name}.json"
        if place == "log":
            write(path, session(name))
            (base / f"sessions/{name}.messages.jsonl").write_text("\n".join(log))
        else:
            listed, values = [], [json.loads(one) for one in log]
            for value in values:
                how = value.pop("projection")
                if how == "append_output_delta":
                    value.pop("raw", None)
                    if listed and listed[-1]["kind"] == "output":
                        listed[-1]["contents"] += value["contents"]
                        continue
                listed.append({"id": f"log_{value.pop('seq')}", **value})
            write(path, session(name, messages=listed))
        [id] = hf.import_(path)
        assert hf.import_all([path]).unchanged
        for one in log if place == "log" else []:
            assert json.dumps(one)[1:-1] in everything(hf, id)
        return id

    return bring


def talk(hf, id):
    """The conversation for a model: who speaks, and words, calls and results as short texts."""
    found = []
    for message in hf.recover(id, "anthropic", incomplete="keep").messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            kind = block["type"]
            if kind == "tool_use":
                said = f"{block['id']}: {block['name']} {json.dumps(block['input'])}"
            elif kind == "tool_result":
                failed = " failed" if block.get("is_error") else ""
                said = f"{block['tool_use_id']}{failed}: {block['content']}"
            else:
                said = block.get("text") or block.get("thinking")
            found.append((message["role"], kind, said))
    return found


def text_content(words):
    """What a tool showed, as ACP has it."""
    return [{"type": "content", "content": {"type": "text", "text": words}}]


ACP = [
    ("user", "What is the price?"),
    ("system", "status: idle -> running"),
    ("output", "What is the price?"),
    ("system", "user_message_chunk"),
    ("output", "Look "),
    ("thought", "Look ", {"content": {"type": "text", "text": "Look "}}),
    ("output", "it up."),
    ("thought", "it up.", {"content": {"type": "text", "text": "it up."}}),
    ("output", "I "),
    ("output", "look."),
    ("tool_use", ": ", {"toolCallId": "call_7", "title": "Read it", "kind": "read"}),
    ("system", "permission_request"),
    ("tool_use", ": call_7", {"toolCallId": "call_7", "rawInput": {"path": "price.go"}}),
    ("tool_use", ": call_7", {"toolCallId": "call_7", "status": "in_progress"}),
    ("tool_use", ": call_7", {"toolCallId": "call_7", "status": "completed", "content": text_content("price = 7")}),
    ("tool_use", ": ", {"toolCallId": "call_8", "title": "Run", "rawInput": {"cmd": "go"}}),
    ("tool_use", ": call_8", {"toolCallId": "call_8", "status": "failed", "rawOutput": {"code": 1}}),
    ("output", "It is "),
    ("output", "7."),
    ("system", "stop_reason", {"stopReason": "end_turn"}),
    ("system", "status: running -> idle"),
]


@pytest.mark.parametrize("place", ["log", "list"])
def test_a_session_of_an_acp_agent(hf, bring, place):
    """Thoughts once, chunks joined, calls with arguments that came later and with their ends."""
    id = bring(ACP, place)
    assert talk(hf, id) == [
        ("user", "text", "What is the price?"),
        ("assistant", "text", "I look."),
        ("assistant", "tool_use", 'call_7: read {"path": "price.go"}'),
        ("user", "tool_result", "call_7: price = 7"),
        ("assistant", "tool_use", 'call_8: Run {"cmd": "go"}'),
        ("user", "tool_result", 'call_8 failed: {"code":1}'),
        ("assistant", "text", "It is 7."),
    ]
    [thought] = hf.events(id, types=["thinking"])
    assert thought.data["content"] == "Look it up."
    assert hf.info(id).message_count == 5
    assert not list(hf.events(id, types=["system"]))


def block(kind, index=0, **members):
    """An event of Claude's stream."""
    return {"type": f"content_block_{kind}", "index": index, **members}


def delta(words):
    """A piece of an answer."""
    return ("delta", words, block("delta", delta={"type": "text_delta", "text": words}))


def typed(words):
    """A piece of the input of a tool, which the system takes for a piece of the answer."""
    change = {"type": "input_json_delta", "partial_json": words}
    return ("delta", words, block("delta", 1, delta=change))


def snapshot_of(id, *content, **usage):
    """A message of the model as it was in the end."""
    message = {"id": id, "role": "assistant", "model": "claude-sonnet-4-5", "content": content}
    return ("system", "assistant_snapshot", {"type": "assistant", "message": message | usage})


def started(id, input):
    """The start of a request, with what went in."""
    usage = {"input_tokens": input, "output_tokens": 1, "cache_read_input_tokens": 9}
    message = {"id": id, "model": "claude-sonnet-4-5", "usage": usage}
    return ("metric", f"in={input} out=1 requests=1", {"type": "message_start", "message": message})


def ended(output):
    """The end of a request, with all that came out."""
    usage = {"output_tokens": output}
    return ("metric", f"in=0 out={output} requests=0", {"type": "message_delta", "usage": usage})


USE = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "price.go"}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "price = 7"}
CLAUDE = [
    ("user", "What is the price?"),
    ("system", "system_init", {"type": "system", "subtype": "init", "model": "claude-sonnet-4-5"}),
    started("msg_1", 50),
    delta("I "),
    delta("look."),
    snapshot_of("msg_1", {"type": "text", "text": "I look."}, usage={"input_tokens": 50}),
    ("system", "content_block_stop", block("stop")),
    ("system", "tool_use_start", block("start", 1, content_block=USE | {"input": {}})),
    typed('{"file_path":'),
    typed('"price.go"}'),
    snapshot_of("msg_1", USE),
    ("system", "content_block_stop", block("stop", 1)),
    ended(20),
    ("system", "message_complete", {"type": "message_stop"}),
    ("system", "tool_result", {"type": "user", "message": {"role": "user", "content": [RESULT]}}),
    started("msg_2", 70),
    delta("It is 7."),
    snapshot_of("msg_2", {"type": "text", "text": "It is 7."}),
    ended(11),
    ("system", "message_complete", {"type": "message_stop"}),
]
CLAUDE_TALK = [
    ("user", "text", "What is the price?"),
    ("assistant", "text", "I look."),
    ("assistant", "tool_use", 'toolu_1: Read {"file_path": "price.go"}'),
    ("user", "tool_result", "toolu_1: price = 7"),
    ("assistant", "text", "It is 7."),
]


@pytest.mark.parametrize("place", ["log", "list"])
def test_a_session_of_claude(hf, bring, place):
    """Call and result from the provider's own events, no input as words, model and usage."""
    id = bring(CLAUDE, place)
    assert talk(hf, id) == CLAUDE_TALK
    row, usage = hf.info(id), hf.state(id).usage
    assert (row.model, row.message_count) == ("claude-sonnet-4-5", 4)
    assert (usage.input_tokens, usage.output_tokens, usage.requests) == (120, 31, 2)
    assert usage.cache_read_tokens == 18
    assert usage.by_model.keys() == {"claude-sonnet-4-5"}
    assert not list(hf.events(id, types=["system"]))


def test_a_session_of_claude_that_was_killed(hf, bring):
    """A call whose input was only streamed has it; one that was cut off has none."""
    first = CLAUDE[:10]
    assert talk(hf, bring(first))[-1] == CLAUDE_TALK[2]
    cut = [*CLAUDE[:2], *CLAUDE[6:9]]
    assert talk(hf, bring(cut, name="b2"))[-1] == ("assistant", "tool_use", "toolu_1: Read {}")


def test_a_session_of_claude_over_a_socket(hf, bring):
    """Events in envelopes, questions for permission that are no calls, and what it cost."""
    messages = []
    for kind, contents, *raw in CLAUDE:
        bare = not raw or raw[0]["type"] in ("assistant", "user", "system")
        enveloped = raw if bare else [{"type": "stream_event", "event": raw[0]}]
        if contents == "tool_use_start":
            messages.append(("tool_use", "Read: toolu_1", *enveloped))
        elif contents not in ('{"file_path":', '"price.go"}'):  # not told there
            messages.append((kind, contents, *enveloped))
    asked = {"subtype": "can_use_tool", "tool_name": "Read", "input": {}}
    question = {"type": "control_request", "request_id": "q1", "request": asked}
    messages[9:9] = [("tool_use", "Read: q1", question)] * 2
    total = {"type": "result", "usage": {"input_tokens": 120, "output_tokens": 31}}
    messages += [("metric", "in=120 out=31 requests=0", total), ("plan", "map[…]", total | {"total_cost_usd": 0.02})]
    id = bring(messages)
    assert talk(hf, id) == CLAUDE_TALK
    usage = hf.state(id).usage
    assert (usage.input_tokens, usage.output_tokens, usage.cost) == (120, 31, 0.02)
    assert hf.info(id).cost == pytest.approx(0.02)


def test_what_only_the_last_form_of_a_message_has(hf, bring):
    """Words and thoughts that were not streamed, failed results, and usage without a start."""
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    usage = {"usage": {"input_tokens": 5, "output_tokens": 6}}
    failed = RESULT | {"content": [{"type": "text", "text": "no file"}], "is_error": True}
    id = bring(
        [
            ("user", "Go"),
            snapshot_of("msg_1", thought, {"type": "text", "text": "I go."}, USE, **usage),
            snapshot_of("msg_1", {"type": "text", "text": "I go."}, **usage),
            ("system", "tool_result", {"type": "user", "message": {"content": [failed]}}),
            ("metric", "in=3 out=4 requests=2"),
            ("metric", "odd"),
        ]
    )
    assert talk(hf, id)[1:] == [
        ("assistant", "thinking", "Hm."),
        ("assistant", "text", "I go."),
        ("assistant", "tool_use", 'toolu_1: Read {"file_path": "price.go"}'),
        ("user", "tool_result", "toolu_1 failed: no file"),
    ]
    used = hf.state(id).usage
    assert (used.input_tokens, used.output_tokens, used.requests) == (8, 10, 3)


def test_words_that_a_person_or_the_system_said(hf, bring):
    """A remark in words is said; the name of an event is kept beside the talk."""
    listed = [("user", "Go"), ("system", "Run cancelled by user"), ("system", "stderr")]
    id = bring(listed, "list")
    assert [event.data["content"] for event in hf.events(id, types=["system"])] == ["Run cancelled by user"]


def test_what_an_earlier_version_brought_in_is_said_anew(hf, bring):
    """Chunks that were messages once are taken back; the conversation is whole, and there once."""
    keys = {"user": ("What is the price?", "user"), "output": ("I ", "assistant")}
    id = session_id_of("orbitmesh", "a1")
    with hf.session(id) as old:
        for kind, (words, type) in keys.items():
            key = f"i.{kind}.{digest(words)}.1.0"
            old.append(type, {"content": words}, key=key)
    assert bring(ACP) == id
    said = [("user", "text", "What is the price?"), ("assistant", "text", "I look.")]
    assert talk(hf, id)[:2] == said
    assert len([one for one in talk(hf, id) if one[1] == "text"]) == 3
