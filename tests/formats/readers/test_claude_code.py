"""Claude Code's transcripts."""

from __future__ import annotations

import json

import pytest

import holdfast
from holdfast.formats.readers.claude_code import READER

SESSION = "0f7c1a52-3f0e-4a55-9b6a-6f1f6f2a9c01"
NAME = f"{SESSION}.jsonl"


class Writer:
    """Writes records as the tool does, each the child of the one before."""

    def __init__(self, session=SESSION):
        self.lines = []
        self.session = session
        self.leaf = None
        self.count = 0

    def add(self, type, *, parent="", **members):
        self.count += 1
        uuid = members.pop("uuid", f"00000000-0000-4000-8000-{self.count:012d}")
        record = {
            "parentUuid": self.leaf if parent == "" else parent,
            "isSidechain": False,
            "type": type,
            "uuid": uuid,
            "timestamp": f"2025-11-02T10:00:{self.count:02d}.250Z",
            "sessionId": self.session,
            "cwd": "/home/kim/shop",
            "version": "2.0.31",
            **members,
        }
        self.lines.append(record)
        if not record["isSidechain"]:
            self.leaf = uuid
        return uuid

    def bare(self, **members):
        self.lines.append({"sessionId": self.session, **members})

    def user(self, content, **members):
        return self.add("user", message={"role": "user", "content": content}, **members)

    def assistant(self, *blocks, id="msg_1", usage=None, **members):
        model = members.pop("model", "claude-sonnet-4-5")
        message = {"id": id, "role": "assistant", "model": model, "content": list(blocks)}
        if usage:
            message["usage"] = usage
        return self.add("assistant", message=message, **members)


def text(words):
    return {"type": "text", "text": words}


def use(id, name="Read", **input):
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def answer(id, content, **members):
    return {"type": "tool_result", "tool_use_id": id, "content": content, **members}


@pytest.fixture
def one(kit):
    def read(writer, name=NAME, **options):
        return kit.one(READER, kit.source(name, kit.jsonl(*writer.lines), **options))

    return read


def conversation():
    w = Writer()
    w.bare(type="queue-operation", operation="enqueue", content="Which port is used?")
    w.user("Which port is used?")
    w.add("attachment", attachment={"type": "skill_listing", "content": "- tidy"})
    w.assistant({"type": "thinking", "thinking": "Look it up.", "signature": "c2ln"})
    w.assistant(text("I look."), usage={"input_tokens": 7, "output_tokens": 1})
    w.assistant(
        use("toolu_1", file_path="/home/kim/shop/conf"),
        usage={"input_tokens": 7, "output_tokens": 31, "cache_read_input_tokens": 5},
    )
    w.user([answer("toolu_1", "port = 8080")], toolUseResult={"type": "text"})
    w.assistant(text("8080."), id="msg_2", usage={"input_tokens": 9, "output_tokens": 3})
    w.bare(type="last-prompt", lastPrompt="Which port is used?")
    return w


@pytest.mark.req("C11")
def test_a_transcript_arrives_whole(one):
    """Turns, thoughts with their signature, calls with results, times, place and version."""
    told = one(conversation())
    assert told.counts() == (1, 2, 1, 1, 1)
    assert told.of("thinking")[0].data["signature"] == "c2ln"
    assert told.of("tool_call")[0].data["params"] == {"file_path": "/home/kim/shop/conf"}
    assert told.of("tool_result")[0].data["result"] == "port = 8080"
    assert told.of("user")[0].timestamp == 1762077601250
    assert told.of("assistant")[0].data["model"] == "claude-sonnet-4-5"
    foreign = told.foreign
    assert (foreign.foreign_id, foreign.cwd, foreign.version) == (SESSION, "/home/kim/shop", "2.0.31")
    assert foreign.problems == []


def test_the_cost_of_a_message_is_counted_once_and_from_its_last_record(one):
    """A message is written in several records that repeat its usage as it grows."""
    told = one(conversation())
    figures = [{k: v for k, v in d.data.items() if k != "raw"} for d in told.of("usage")]
    assert figures == [
        {"input_tokens": 7, "output_tokens": 31, "cache_read_input_tokens": 5, "model": "claude-sonnet-4-5"},
        {"input_tokens": 9, "output_tokens": 3, "model": "claude-sonnet-4-5"},
    ]


def test_every_line_is_kept_as_it_came(kit):
    """The first draft of each line has it verbatim; what says nothing is a frame."""
    writer = conversation()
    data = kit.jsonl(*writer.lines)
    told = kit.one(READER, kit.source(NAME, data))
    assert [d.data["raw"] for d in told.drafts if "raw" in d.data] == data.decode().splitlines()
    assert {d.data["direction"] for d in told.of("frame")} == {"imported"}


def test_a_grown_file_gives_the_same_keys_for_what_it_held_before(one):
    """A second import can tell what is new."""
    writer = conversation()
    before = [d.key for d in one(writer).drafts]
    writer.user("And the host?")
    after = [d.key for d in one(writer).drafts]
    assert after[: len(before)] == before
    assert len(after) == len(before) + 1


@pytest.mark.parametrize(
    "content",
    [
        "<local-command-stdout>ok</local-command-stdout>",
        "<command-name>/model</command-name>\n<command-args></command-args>",
        "<bash-input>ls</bash-input>",
        "<task-notification>done</task-notification>",
        "Caveat: The messages below were generated by the user while running local commands.",
        [{"type": "text", "text": "[Request interrupted by user for tool use]"}],
        [{"type": "text", "text": "<system-reminder>note</system-reminder>"}],
    ],
)
def test_what_the_tool_says_in_the_users_place_is_no_turn(one, content):
    """It stays in the log as a frame."""
    writer = conversation()
    writer.user(content)
    assert one(writer).said() == ["Which port is used?"]


def test_meta_and_synthetic_records_are_no_turns(one):
    """Neither expanded skills nor stand-ins for a failed answer are conversation."""
    writer = conversation()
    writer.user("Base directory for this skill: /x", isMeta=True)
    writer.user("A task has ended", origin={"kind": "task-notification"})
    writer.assistant(text("No response requested."), id="m", model="<synthetic>")
    writer.assistant(text("API Error: 529"), id="n", isApiErrorMessage=True)
    assert one(writer).counts() == (1, 2, 1, 1, 1)


def test_a_command_that_the_model_answers_is_a_turn(one):
    """The person did ask for something, and the words are those that were typed."""
    writer = Writer()
    message = "<command-message>review</command-message>"
    writer.user(f"{message}<command-name>/review</command-name><command-args>a.py</command-args>")
    writer.user("Review the file a.py thoroughly.", isMeta=True)
    writer.assistant(text("Fine."))
    assert one(writer).said() == ["/review a.py"]


def test_words_typed_while_the_model_worked_are_a_turn(one):
    """They reach the model as an attachment and are in no user record."""
    writer = conversation()
    queued = {"type": "queued_command", "prompt": "also the host", "commandMode": "prompt"}
    writer.add("attachment", attachment=queued)
    notice = {"type": "queued_command", "prompt": "<task-notification>", "commandMode": "task"}
    writer.add("attachment", attachment=notice)
    assert one(writer).said() == ["Which port is used?", "also the host"]


def test_pictures_and_failed_results_arrive(one):
    """A picture is a block, an error is marked."""
    writer = Writer()
    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    writer.user([text("Look"), {"type": "image", "source": source}])
    writer.assistant(use("t1", "Bash", command="false"))
    writer.user([answer("t1", [text("exit 1")], is_error=True)])
    told = one(writer)
    assert told.said() == [[text("Look"), {"type": "image", "source": source}]]
    assert told.of("tool_result")[0].data["is_error"] is True
    assert told.of("tool_result")[0].data["result"] == "exit 1"


def test_a_sub_agent_is_a_run_of_its_own(one):
    """Its words stay out of the main conversation, also if they come first."""
    writer = Writer()
    writer.user("Warmup", isSidechain=True, parent=None, uuid="side-1")
    writer.assistant(text("Ready."), id="s", isSidechain=True, parent="side-1", uuid="side-2")
    writer.user("Hello", parent=None)
    writer.assistant(text("Hi."), id="m")
    told = one(writer)
    assert told.said() == ["Hello"]
    assert told.said("assistant") == ["Hi."]
    assert told.said("assistant", run="side-side-1") == ["Ready."]


def test_a_file_of_one_sub_agent_is_a_session_with_a_parent(one):
    """Newer versions keep each in its own file."""
    writer = Writer()
    writer.user("Find it", isSidechain=True, parent=None, agentId="a1b2")
    told = one(writer, name="agent-a1b2.jsonl")
    assert told.said() == ["Find it"]
    assert (told.foreign.foreign_id, told.foreign.parent) == (f"{SESSION}/agent-a1b2", SESSION)


def test_what_was_rewound_is_set_aside(one):
    """The conversation is the way to the last record; the branch left behind is another run."""
    writer = Writer()
    writer.user("One")
    reply = writer.assistant(text("1"), id="m1")
    old = writer.user("Old way")
    writer.assistant(text("old"), id="m2")
    writer.user("New way", parent=reply)
    writer.assistant(text("new"), id="m3")
    told = one(writer)
    assert told.said() == ["One", "New way"]
    assert told.said("assistant") == ["1", "new"]
    assert told.said("user", run=f"branch-{old}") == ["Old way"]
    assert told.said("assistant", run=f"branch-{old}") == ["old"]


def test_parallel_calls_stay_together(one):
    """Results of parallel calls branch the tree; none is lost."""
    writer = Writer()
    writer.user("Both")
    a = writer.assistant(use("t1"), id="m1")
    b = writer.assistant(use("t2"), id="m1")
    writer.user([answer("t1", "one")], parent=a)
    writer.user([answer("t2", "two")], parent=b)
    writer.assistant(text("Done."), id="m2")
    told = one(writer)
    assert told.counts() == (1, 1, 0, 2, 2)
    assert {d.run for d in told.drafts} == {None}


def test_a_resumed_file_repeats_lines_only_once(one):
    """Records with a uuid that came before are not told again."""
    writer = conversation()
    writer.lines += [dict(line, sessionId="other") for line in writer.lines[1:4]]
    assert one(writer).counts() == (1, 2, 1, 1, 1)


def test_a_fork_names_its_parent(one):
    """Its file begins with records of the session that it goes on from."""
    writer = conversation()
    own = "11111111-2222-4333-8444-555555555555"
    writer.session = own
    writer.user("Go on")
    told = one(writer, name=f"{own}.jsonl")
    assert (told.foreign.foreign_id, told.foreign.parent) == (own, SESSION)


def test_a_compaction_loses_nothing(one):
    """The history before it stays; the summary is no turn."""
    writer = conversation()
    old = writer.leaf
    writer.add("system", subtype="compact_boundary", parent=None, logicalParentUuid=old)
    writer.user("This session is being continued", isCompactSummary=True)
    writer.user("Next")
    told = one(writer)
    assert told.said() == ["Which port is used?", "Next"]
    assert told.of("system") == []


def test_a_summary_is_kept_where_it_is_all_there_is(one):
    """A file that begins with one has nothing else of what came before."""
    writer = Writer()
    writer.user("They agreed on port 8080.", isCompactSummary=True, parent=None)
    writer.user("Next")
    told = one(writer)
    assert told.said("system") == ["They agreed on port 8080."]
    assert told.said() == ["Next"]


@pytest.mark.parametrize(
    ("lines", "title"),
    [
        ([{"type": "summary", "summary": "Ports", "leafUuid": "x"}], "Ports"),
        ([{"type": "ai-title", "aiTitle": "Auto"}, {"type": "custom-title", "customTitle": "Mine"}], "Mine"),
        ([], None),
    ],
)
def test_titles(one, lines, title):
    """A title that a person gave goes before one that was made up."""
    writer = conversation()
    for line in lines:
        writer.bare(**line)
    assert one(writer).foreign.title == title


def test_a_torn_and_a_broken_line_cost_only_themselves(kit):
    """The rest arrives, and what does not is told."""
    lines = conversation().lines
    data = kit.jsonl(*lines[:2], '{"type":"user","mess', *lines[2:]) + b'{"type":"assi\xff'
    told = kit.one(READER, kit.source(NAME, data))
    assert told.counts() == (1, 2, 1, 1, 1)
    assert len(told.foreign.problems) == 2


def test_a_record_whose_parent_is_lost_follows_the_one_before(kit):
    """A damaged line must not cut the conversation in two."""
    lines = conversation().lines
    told = kit.one(READER, kit.source(NAME, kit.jsonl(*lines[:4], *lines[5:])))
    assert {d.run for d in told.drafts} == {None}


def test_blocks_of_the_provider_and_hidden_thoughts_arrive(one):
    """Server tools and redacted thinking are the provider's own and stay as they are."""
    writer = Writer()
    writer.user("News?")
    writer.assistant(
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": "x"}},
    )
    writer.assistant(text("None."), id="msg_1")
    told = one(writer)
    assert told.said("thinking") == [[{"type": "redacted_thinking", "data": "b3BhcXVl"}]]
    assert told.counts()[1] == 2


def test_a_folder_gives_every_session(kit):
    """Other files in it are passed over."""
    data = kit.jsonl(*conversation().lines)
    files = {"p/a.jsonl": data, "p/b.jsonl": b"not json", "p/c.jsonl": data, "p/x.txt": data}
    found = kit.read(READER, kit.folder(files))
    assert [told.counts()[0] for told in found] == [1, 1]


@pytest.mark.parametrize("data", [b"", b"[]", b'{"type":"session","id":"x","cwd":"/"}\n', b"\x00\xff"])
def test_other_files_are_not_claimed(kit, data):
    """The content decides."""
    assert not READER.claims(kit.source("a.jsonl", data))


def test_a_first_line_with_a_picture_does_not_hide_the_tool(one):
    """It may be longer than what is looked at first."""
    writer = Writer()
    source = {"type": "base64", "media_type": "image/png", "data": "aGk=" * 50_000}
    writer.user([{"type": "image", "source": source}])
    assert len(one(writer).said()) == 1


def test_a_notice_that_hangs_on_an_older_record_does_not_end_the_conversation(one):
    """The way goes to the last thing said."""
    writer = conversation()
    old = writer.lines[1]["uuid"]
    leaf = writer.leaf
    writer.add("progress", parent=old, data={"type": "hook_progress"})
    writer.leaf = leaf
    assert {d.run for d in one(writer).drafts if d.type != "frame"} == {None}


HAIKU = {"inputTokens": 30, "outputTokens": 4, "costUSD": 0.001}


def cost(**by_model):
    """A line with the sums so far."""
    total = sum(one.get("costUSD", 0) for one in by_model.values())
    began = {"totalDuration": 50401, "startTime": 1789398960924}
    return {"type": "cost-state", "totalCostUSD": total, **began, "modelUsage": by_model}


def sums(input, output, cost, **more):
    """What one model used so far."""
    return {"inputTokens": input, "outputTokens": output, "costUSD": cost, **more}


@pytest.fixture
def bring(tmp_path):
    """Brings a transcript in, as often as it has grown; what is known of it then."""
    with holdfast.open(tmp_path / "store") as hf:

        def bring(writer):
            path = tmp_path / NAME
            path.write_text("".join(json.dumps(line) + "\n" for line in writer.lines))
            [id] = hf.import_(path)
            assert hf.import_all([path]).unchanged
            return hf.info(id), hf.state(id).usage

        yield bring


def test_what_claude_code_says_of_cost_is_the_cost(bring):
    """Tokens that lines of their own told are not counted again; those of other models are."""
    writer = conversation()
    used = sums(16, 34, 0.5, cacheReadInputTokens=5)
    writer.bare(**cost(**{"claude-sonnet-4-5[1m]": used, "claude-haiku-4-5": HAIKU}))
    row, usage = bring(writer)
    assert row.cost == pytest.approx(0.501)
    assert usage.by_model["claude-sonnet-4-5"].cost == pytest.approx(0.5)
    assert (usage.by_model["claude-sonnet-4-5"].input_tokens, usage.requests) == (16, 2)
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (46, 38, 5)


def test_sums_grow_and_are_counted_once(bring):
    """Each line is a sum of all before it; one that is less begins anew, with another process."""
    writer = conversation()
    row, _ = bring(writer)
    estimated = row.cost
    writer.bare(**cost(**{"claude-sonnet-4-5": sums(16, 34, 0.5)}))
    row, _ = bring(writer)
    assert estimated != row.cost == pytest.approx(0.5)
    writer.bare(**cost(**{"claude-sonnet-4-5": sums(20, 40, 0.7)}))
    writer.bare(**cost(**{"claude-sonnet-4-5": sums(2, 3, 0.1)}))
    row, usage = bring(writer)
    assert row.cost == pytest.approx(0.8)
    assert (usage.input_tokens, usage.output_tokens) == (22, 43)


def test_a_file_with_nothing_but_sums(bring):
    """A fork that nobody spoke in keeps its tokens, its cost and the time at which it began."""
    writer = Writer()
    writer.bare(type="mode", mode="normal")
    writer.bare(**cost(**{"claude-haiku-4-5": HAIKU}))
    row, usage = bring(writer)
    assert (row.cost, usage.input_tokens, usage.output_tokens) == (0.001, 30, 4)
    assert (row.created_at, row.updated_at) == (1789398960924, 1789398960924)


def test_a_sum_without_models(bring):
    """The cost of all that was said so far is taken in place of what it would be by prices."""
    writer = conversation()
    writer.bare(type="cost-state", totalCostUSD=0.25)
    row, usage = bring(writer)
    assert (row.cost, usage.cost) == (0.25, 0.25)
    assert usage.input_tokens == 16


def test_tokens_of_sub_agents_with_files_of_their_own(bring):
    """They are counted there; the cost is that of the whole session."""
    writer = conversation()
    writer.user([answer("t9", "done")], toolUseResult={"agentId": "a1b2", "status": "completed"})
    used = {"claude-sonnet-4-5": sums(900, 800, 0.5), "claude-haiku-4-5": HAIKU}
    writer.bare(**cost(**used))
    row, usage = bring(writer)
    assert (usage.input_tokens, usage.output_tokens) == (46, 38)
    assert row.cost == pytest.approx(0.501)


def test_a_cost_that_claude_code_does_not_know(bring):
    """What it has no price for is left to our prices, and is not taken for free."""
    writer = conversation()
    line = cost(**{"claude-sonnet-4-5": {"inputTokens": 16, "outputTokens": 34}})
    writer.bare(**line, hasUnknownModelCost=True)
    row, usage = bring(writer)
    assert (usage.cost, usage.input_tokens) == (None, 16)
    assert row.cost


def test_the_cost_that_earlier_versions_wrote_with_each_answer(bring):
    """It is the cost, in place of what prices would say."""
    writer = Writer()
    writer.user("hi")
    writer.assistant(text("ho"), usage={"input_tokens": 7, "output_tokens": 1}, costUSD=0.125)
    row, usage = bring(writer)
    assert (row.cost, usage.cost, usage.input_tokens) == (0.125, 0.125, 7)
