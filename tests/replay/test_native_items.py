"""Items of OpenAI's Responses, recorded one by one or as a whole answer, come back as they were."""

from __future__ import annotations

import json

import pytest

from holdfast.replay import validate

responses_types = pytest.importorskip("openai.types.responses")

pytestmark = pytest.mark.stores(timers=False)


def response(*output, **members):
    """A whole answer of OpenAI's Responses."""
    return responses_types.Response.model_validate(
        {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "model": "gpt-5",
            "status": "completed",
            "output": list(output),
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": 7,
                "output_tokens": 3,
                "total_tokens": 10,
                "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 0},
                "output_tokens_details": {"reasoning_tokens": 1},
            },
            **members,
        }
    )


ITEMS = [
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc"},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Looking. " * 20, "annotations": []}],
    },
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "look",
        "arguments": '{"at": 1}',
        "status": "completed",
    },
]


def test_a_response_is_one_event_and_comes_back_as_its_items(hf):
    """Reasoning, words and calls of a Response are one answer; each item returns as it was."""
    with hf.session("a") as s:
        s.record({"role": "user", "content": "hi"})
        (event,) = s.record(response(*ITEMS))
        s.record({"type": "function_call_output", "call_id": "call_1", "output": "seen"})
        told = s.messages("openai-responses")
    assert told[1:4] == ITEMS
    assert validate(told, "openai-responses").valid
    assert event.data["usage"]["cache_read_tokens"] == 2
    assert event.data["response_id"] == "resp_1"
    assert hf.recover("a", "openai-responses").messages == told


def test_long_words_are_recorded_once(hf):
    """What the event says in our words is not said again beside them."""
    with hf.session("a") as s:
        s.record({"role": "user", "content": "hi"})
        s.record(response(*ITEMS))
        raw = bytes(list(s.events())[-1].raw)
    assert raw.count(b"Looking. " * 20) == 1


SERVED = [
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "news"}},
    {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["a"], "results": None},
    {
        "type": "code_interpreter_call",
        "id": "ci_1",
        "status": "completed",
        "code": "1+1",
        "container_id": "c",
        "outputs": None,
    },
    {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "AAAA"},
    {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "x", "tools": []},
    {"type": "mcp_call", "id": "mcp_1", "server_label": "x", "name": "t", "arguments": "{}", "output": "o"},
    {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "x", "name": "t", "arguments": "{}"},
    {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
    {"type": "compaction", "encrypted_content": "secret"},
    {"type": "item_reference", "id": "msg_9"},
]


@pytest.mark.parametrize("item", SERVED, ids=lambda item: item["type"])
def test_what_the_provider_did_by_itself_comes_back_unchanged(hf, item):
    """Items that only OpenAI understands return to it, and are words to everybody else."""
    told = [{"role": "user", "content": "hi"}, item, {"role": "user", "content": "go on"}]
    with hf.session("a") as s:
        for one in told:
            s.record(one)
        assert s.messages("openai-responses") == told
        others = s.messages("anthropic")
    assert validate(told, "openai-responses").valid
    assert validate(others, "anthropic").valid
    assert item["type"] in json.dumps(others)


PAIRS = [
    (
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "run", "input": "ls"},
        {"type": "custom_tool_call_output", "call_id": "call_1", "output": "a.txt"},
    ),
    (
        {
            "type": "computer_call",
            "id": "cu_1",
            "call_id": "call_1",
            "status": "completed",
            "pending_safety_checks": [],
            "action": {"type": "screenshot"},
        },
        {
            "type": "computer_call_output",
            "call_id": "call_1",
            "output": {"type": "computer_screenshot", "image_url": "https://x/y.png"},
        },
    ),
    (
        {
            "type": "local_shell_call",
            "id": "lsh_1",
            "call_id": "call_1",
            "status": "completed",
            "action": {"type": "exec", "command": ["ls"], "env": {}},
        },
        {"type": "local_shell_call_output", "id": "call_1", "output": "a.txt"},
    ),
    (
        {
            "type": "shell_call",
            "id": "sh_1",
            "call_id": "call_1",
            "status": "completed",
            "action": {"commands": ["ls"]},
        },
        {
            "type": "shell_call_output",
            "call_id": "call_1",
            "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
        },
    ),
    (
        {
            "type": "apply_patch_call",
            "id": "apc_1",
            "call_id": "call_1",
            "status": "completed",
            "operation": {"type": "delete_file", "path": "a"},
        },
        {"type": "apply_patch_call_output", "call_id": "call_1", "status": "failed", "output": "no"},
    ),
]


@pytest.mark.parametrize(("call", "output"), PAIRS, ids=lambda item: item["type"])
def test_calls_of_every_kind_are_calls(hf, call, output):
    """A computer, shell or patch call is a call with a result to everybody."""
    told = [{"role": "user", "content": "hi"}, call, output]
    with hf.session("a") as s:
        for one in told:
            s.record(one)
        assert s.messages("openai-responses") == told
        (use,) = s.messages()[1]["content"]
        (result,) = s.messages()[2]["content"]
    assert use["type"], result["type"] == ("tool_use", "tool_result")
    assert use["id"] == result["tool_use_id"]


@pytest.mark.parametrize("call", [call for call, _ in PAIRS], ids=lambda item: item["type"])
def test_an_interrupted_call_of_every_kind_is_told(hf, call):
    """A call that nothing answers is written so that the stand-in answers it."""
    with hf.session("a") as s:
        s.record({"role": "user", "content": "hi"})
        s.record(call)
        told = s.messages("openai-responses", incomplete="mark")
    assert validate(told, "openai-responses").valid
    assert "interrupted" in told[-1]["output"]


def test_what_only_steers_the_provider_stands_where_it_was(hf):
    """Items that are neither said nor done return to OpenAI, and are nothing to others."""
    told = [
        {"role": "user", "content": "hi"},
        {"type": "additional_tools", "role": "developer", "tools": [{"type": "web_search"}]},
        {"role": "assistant", "content": "yes"},
        {"type": "compaction_trigger"},
    ]
    with hf.session("a") as s:
        for one in told:
            s.record(one)
        assert s.messages("openai-responses") == told
        assert len(s.messages()) == 2
