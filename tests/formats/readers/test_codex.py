"""Codex' rollout files."""

from __future__ import annotations

import gzip

import pytest

from holdfast.formats.readers.codex import READER

OWN = "0199aaaa-0000-7000-8000-000000000001"
CHILD = "0199aaaa-0000-7000-8000-000000000002"
NAME = f"rollout-2025-10-01T08-00-00-{OWN}.jsonl"


class Writer:
    """Writes lines as the tool does, with or without ordinals."""

    def __init__(self, *, numbered=True, id=OWN, **meta):
        self.lines = []
        self.numbered = numbered
        self.add("session_meta", id=id, cwd="/home/kim/api", cli_version="0.60.0", **meta)

    def add(self, kind, **payload):
        number = len(self.lines)
        line = {"timestamp": f"2025-10-01T08:00:{number:02d}.500Z", "type": kind}
        if self.numbered:
            line["ordinal"] = number
        self.lines.append({**line, "payload": payload})

    def item(self, type, **payload):
        self.add("response_item", type=type, **payload)

    def event(self, type, **payload):
        self.add("event_msg", type=type, **payload)

    def user(self, *texts, **members):
        content = [{"type": "input_text", "text": words} for words in texts]
        self.item("message", role="user", content=content, **members)

    def assistant(self, words):
        content = [{"type": "output_text", "text": words}]
        self.item("message", role="assistant", content=content)

    def call(self, id, output, name="shell", arguments='{"cmd":"ls"}'):
        self.item("function_call", name=name, arguments=arguments, call_id=id)
        self.item("function_call_output", call_id=id, output=output)


@pytest.fixture
def one(kit):
    def read(writer, name=NAME):
        lines = writer if isinstance(writer, list) else writer.lines
        return kit.one(READER, kit.source(name, kit.jsonl(*lines)))

    return read


def conversation(**options):
    w = Writer(**options)
    w.item("message", role="developer", content=[{"type": "input_text", "text": "Be careful."}])
    w.user("# AGENTS.md instructions for /home/kim\n\n<INSTRUCTIONS>x</INSTRUCTIONS>")
    w.user("<environment_context>\n  <cwd>/home/kim/api</cwd>\n</environment_context>")
    w.add("turn_context", model="gpt-5-codex", cwd="/home/kim/api")
    w.user("List the files")
    w.event("user_message", message="List the files")
    w.item("reasoning", id="rs_1", summary=[{"type": "summary_text", "text": "ls"}], encrypted_content="eA")
    w.assistant("I list them.")
    w.event("agent_message", message="I list them.")
    w.call("call_1", "a.py\nb.py")
    total = {"input_tokens": 20, "output_tokens": 4, "total_tokens": 24}
    for _ in range(2):
        w.event("token_count", info={"total_token_usage": total, "last_token_usage": total})
    w.assistant("Two files.")
    return w


@pytest.mark.req("C11")
@pytest.mark.parametrize("numbered", [True, False])
def test_a_rollout_arrives_whole(one, numbered):
    """Turns, calls with results and times, with ordinals and without."""
    told = one(conversation(numbered=numbered))
    assert told.counts() == (1, 2, 1, 1, 1)
    assert told.said() == ["List the files"]
    assert told.of("tool_call")[0].data["params"] == {"cmd": "ls"}
    assert told.of("user")[0].timestamp == 1759305605500
    assert told.of("assistant")[0].data["model"] == "gpt-5-codex"
    foreign = told.foreign
    assert (foreign.foreign_id, foreign.cwd, foreign.version) == (OWN, "/home/kim/api", "0.60.0")


def test_reasoning_keeps_what_only_the_provider_can_read(one):
    """The encrypted part goes back to it."""
    (thought,) = one(conversation()).of("thinking")
    assert thought.data["content"] == [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "ls"}],
            "encrypted_content": "eA",
        }
    ]


def test_reasoning_without_an_id_is_kept_as_words(one):
    """There is nothing that a provider could recognise it by."""
    writer = Writer()
    writer.user("Hi")
    writer.item("reasoning", summary=[], content=[{"type": "reasoning_text", "text": "Hm."}])
    writer.assistant("Hello")
    assert one(writer).said("thinking") == ["Hm."]


def test_usage_is_counted_once(one):
    """The same totals come again with each change of limits."""
    (figures,) = one(conversation()).of("usage")
    assert (figures.data["input_tokens"], figures.data["output_tokens"]) == (20, 4)


def test_records_of_usage_go_before_counts(one):
    """Newer versions write both."""
    writer = conversation()
    writer.add("token_usage_record", usage={"input_tokens": 3, "output_tokens": 2})
    (figures,) = one(writer).of("usage")
    assert (figures.data["input_tokens"], figures.data["model"]) == (3, "gpt-5-codex")


def test_the_tool_names_what_the_user_did_not_say(one):
    """Newer versions say of each part whose it is."""
    writer = Writer()
    kinds = {"content_item_kinds": ["memory.notes", "user.text"]}
    writer.user("remember", "Hello", internal_chat_message_metadata_passthrough=kinds)
    assert one(writer).said() == ["Hello"]


@pytest.mark.parametrize(
    ("output", "result", "failed"),
    [
        ("Exit code: 2\nOutput:\nno", "Exit code: 2\nOutput:\nno", True),
        ("Chunk ID: 1\nProcess exited with code 0\nfine", None, False),
        ("Chunk ID: 1\nProcess exited with code 7\nbad", None, True),
        ('{"output":"denied","metadata":{"exit_code":1}}', "denied", True),
        ({"content": "no such tool", "success": False}, "no such tool", True),
        ([{"type": "input_text", "text": "seen"}], "seen", False),
        (None, None, False),
    ],
)
def test_outputs_of_all_versions(one, output, result, failed):
    """What a tool gave back, and whether it failed."""
    writer = Writer()
    writer.user("Go")
    writer.call("c", output)
    data = one(writer).of("tool_result")[0].data
    assert data.get("is_error", False) is failed
    assert result is None or data["result"] == result


def test_other_kinds_of_calls(one):
    """Freeform tools, the local shell, searches: each call has its result."""
    writer = Writer()
    writer.user("Go")
    writer.item("custom_tool_call", call_id="c1", name="apply_patch", input="*** Begin")
    writer.item("custom_tool_call_output", call_id="c1", output="Success.")
    writer.item("local_shell_call", call_id="c2", action={"command": ["ls"]})
    writer.item("function_call_output", call_id="c2", output="a")
    writer.item("web_search_call", id="ws_1", status="completed", action={"query": "x"})
    writer.item("tool_search_call", call_id="c4", arguments={"q": 1}, execution="client")
    writer.item("tool_search_output", call_id="c4", tools=[{"name": "t"}])
    writer.item("image_generation_call", id="ig_1", result="…")
    told = one(writer)
    assert [d.data["tool"] for d in told.of("tool_call")] == ["apply_patch", "local_shell", "web_search", "tool_search"]
    assert told.counts() == (1, 0, 0, 4, 4)


def test_pictures_arrive(one):
    """As blocks with their data."""
    writer = Writer()
    picture = {"type": "input_image", "image_url": "data:image/png;base64,aGk="}
    writer.item("message", role="user", content=[{"type": "input_text", "text": "See"}, picture])
    writer.item("function_call", name="view_image", arguments="{}", call_id="c")
    writer.item("function_call_output", call_id="c", output=[picture])
    told = one(writer)
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    assert told.said() == [[{"type": "text", "text": "See"}, block]]
    assert told.of("tool_result")[0].data["result"] == [block]


def test_turns_that_were_rolled_back_are_set_aside(one):
    """They are a run of their own."""
    writer = conversation()
    writer.user("Wrong")
    writer.assistant("Oh")
    writer.event("thread_rolled_back", num_turns=1)
    writer.user("Right")
    told = one(writer)
    assert told.said() == ["List the files", "Right"]
    assert told.said(run="rolled-back-1") == ["Wrong"]


def test_a_name_given_later_is_the_title(one):
    """The last one counts."""
    writer = conversation()
    writer.event("thread_name_updated", thread_name="First")
    writer.event("thread_name_updated", thread_name="Second")
    assert one(writer).foreign.title == "Second"


def test_a_compaction_loses_nothing(one):
    """What came before is there in full; where it is not, the summary is kept."""
    writer = conversation()
    writer.add("compacted", message="They listed files.")
    assert one(writer).of("system") == []
    alone = Writer()
    alone.add("compacted", message="They listed files.")
    assert one(alone).said("system") == ["They listed files."]


def test_the_oldest_files_have_no_envelope(one):
    """A head without a type, state markers, then the items themselves."""
    lines = [
        {"id": OWN, "timestamp": "2025-08-01T09:00:00Z", "instructions": None},
        {"record_type": "state"},
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "<environment_context><cwd>/w</cwd></environment_context>"}],
        },
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": "ok"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes"}]},
    ]
    told = one(lines)
    assert told.counts() == (1, 1, 0, 1, 1)
    assert (told.foreign.foreign_id, told.foreign.cwd) == (OWN, "/w")
    assert told.of("user")[0].timestamp == 1754038800000


def test_a_file_with_events_only_is_read_by_them(one):
    """Without the items of the model, what the person saw is what there is."""
    writer = Writer()
    writer.event("user_message", message="Hi")
    writer.event("agent_reasoning", text="Hm")
    writer.event("agent_message", message="Yes")
    assert one(writer).counts() == (1, 1, 1, 0, 0)


def fork(end):
    base = {"thread_id": OWN, "end_ordinal_exclusive": end, "end_byte_offset": 1}
    writer = Writer(id=CHILD, forked_from_id=OWN, history_base=base)
    writer.user("Another way")
    return writer


def test_a_fork_gets_what_it_points_to(kit):
    """Its file holds only what came after; the rest is in the file of its parent."""
    parent = conversation()
    parent.user("Not in the fork")
    name = f"2025/rollout-2025-10-01T09-00-00-{CHILD}.jsonl"
    files = {f"2025/{NAME}": kit.jsonl(*parent.lines), name: kit.jsonl(*fork(len(parent.lines) - 1).lines)}
    _, told = kit.read(READER, kit.folder(files))
    assert told.said() == ["List the files", "Another way"]
    assert told.foreign.parent == OWN
    assert told.foreign.problems == []


def test_a_fork_without_its_parent_says_so(one):
    """What it has itself arrives."""
    told = one(fork(5), name=f"rollout-{CHILD}.jsonl")
    assert told.said() == ["Another way"]
    assert OWN in told.foreign.problems[0]


def test_forks_that_point_at_each_other_come_to_an_end(kit):
    """A hostile pair of files is read all the same."""
    one = Writer(id=OWN, history_base={"thread_id": CHILD, "end_ordinal_exclusive": 9})
    two = Writer(id=CHILD, history_base={"thread_id": OWN, "end_ordinal_exclusive": 9})
    one.user("a")
    two.user("b")
    files = {NAME: kit.jsonl(*one.lines), f"r-{CHILD}.jsonl": kit.jsonl(*two.lines)}
    found = kit.read(READER, kit.folder(files))
    assert all("not here" in told.foreign.problems[-1] for told in found)


def test_a_sub_agent_names_its_parent(one):
    """Wherever the version keeps it."""
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": CHILD}}}
    assert one(Writer(source=spawned)).foreign.parent == CHILD


def test_a_torn_line_costs_only_itself(kit):
    """The tool itself starts a new line after one."""
    lines = conversation().lines
    data = kit.jsonl(*lines[:5], '{"timestamp":"2025', *lines[5:])
    told = kit.one(READER, kit.source(NAME, data))
    assert told.counts() == (1, 2, 1, 1, 1)
    assert len(told.foreign.problems) == 1


def test_a_packed_file_and_the_index_of_names(kit):
    """Both are used in a folder."""
    index = kit.jsonl({"id": OWN, "thread_name": "Named"}, {"id": CHILD})
    files = {f"sessions/{NAME}.gz": gzip.compress(kit.jsonl(*conversation().lines))}
    told = kit.one(READER, kit.folder(files | {"session_index.jsonl": index}))
    assert (told.counts(), told.foreign.title) == ((1, 2, 1, 1, 1), "Named")
