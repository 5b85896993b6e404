"""OpenAI's Responses API: items, of which calls and their outputs stand together."""

from __future__ import annotations

import re
from typing import Any

from holdfast.replay._rules._base import Rules, is_address, is_json, is_json_object, is_text

__all__ = ["ResponsesRules"]

_ROLES = {"user", "assistant", "system", "developer"}
_INPUT = frozenset({"input_text", "input_image", "input_file"})
_OUTPUT = frozenset({"output_text", "refusal"})
_CACHE = "prompt_cache_breakpoint"
_PREFIXES = {"function_call": "fc", "message": "msg", "reasoning": "rs"}
_CALLER = {"caller", "namespace", "created_by", "async"}
# Calls that the program answers: the member that tells what to do, and the tool's name.
_TOOLS = {
    "custom_tool_call": "input",
    "computer_call": "call_id",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
}
_OUTPUTS = {f"{kind}_output": "call_id" for kind in _TOOLS} | {"local_shell_call_output": "id"}
# What the provider did by itself, by the member without which it would be none.
_SERVED = {
    "code_interpreter_call": "id",
    "compaction": "encrypted_content",
    "file_search_call": "id",
    "image_generation_call": "id",
    "item_reference": "id",
    "mcp_approval_request": "id",
    "mcp_approval_response": "approval_request_id",
    "mcp_call": "id",
    "mcp_list_tools": "id",
    "program": "id",
    "program_output": "id",
    "tool_search_call": "type",
    "tool_search_output": "type",
    "web_search_call": "id",
    "additional_tools": "tools",
    "compaction_trigger": "type",
    "configuration_update": "type",
}


class ResponsesRules(Rules):
    """Outputs follow their calls at once; reasoning is followed by what it led to."""

    id_pattern = re.compile(r"[!-~]{1,64}\Z")

    def __init__(self) -> None:
        super().__init__()
        self._reasoned = False
        self._answering = False

    def check(self, message: Any) -> None:
        kind: Any = message.get("type", "message") if isinstance(message, dict) else None
        check = _ITEMS.get(kind) if type(kind) is str else None
        if check is None:
            self.fail_unknown(f"not an item of a known type: {kind!r:.60}")
            return
        identity = message.get("id")
        prefix = _PREFIXES.get(kind, "")
        self.need(identity is None or _starts(identity, prefix), f"the id begins with {prefix!r}")
        done = message.get("status", "completed") == "completed"
        self.need(done or kind not in _PREFIXES, "the item is not completed")
        check(self, message)

    def end(self) -> None:
        super().end()
        self.need(self.alone or not self._reasoned, "reasoning is followed by what it led to")

    def check_message(self, item: dict[str, Any]) -> None:
        """Words of one side."""
        names = {"type", "role", "content", "id", "status", "phase"}
        self.members(item, frozenset(names), "a message")
        role = item.get("role")
        if type(role) is not str or role not in _ROLES:
            self.fail_unknown(f"a message has no role {role!r:.60}")
            return
        self.expect_no_open(f"the {role} goes on")
        self._led_to(output=role == "assistant")
        if role in {"user", "assistant"}:
            self.begin(role, "user")
        self._content(item.get("content"), _OUTPUT if role == "assistant" else _INPUT)
        self.need(is_json(item.get("phase")), "phase is malformed")

    def _led_to(self, *, output: bool) -> None:
        self.need(output or not self._reasoned, "reasoning is followed by what it led to")
        self._reasoned = False
        self._answering = False

    def check_call(self, item: dict[str, Any]) -> None:
        """A call."""
        names = {"type", "id", "status", "call_id", "name", "arguments", *_CALLER}
        self.members(item, frozenset(names), "a call")
        self._begin_call()
        self.open_call(item.get("call_id"), item.get("name"))
        self.need(is_json_object(item.get("arguments")), "arguments are no JSON object")
        self.need(is_json(item), "a call is malformed")

    def _begin_call(self) -> None:
        if self._answering:
            self.expect_no_open("the assistant goes on")
        self.begin("assistant", "user")
        self._led_to(output=True)

    def check_tool(self, item: dict[str, Any]) -> None:
        """A call of a tool that the provider knows, or of one that takes plain text."""
        self._begin_call()
        self.open_call(item.get("call_id"), item.get("name", item["type"]))
        self.need(item.get(_TOOLS[item["type"]]) is not None and is_json(item), "no such call")

    def check_tool_output(self, item: dict[str, Any]) -> None:
        """The output of such a call; what it is depends on the tool."""
        self._led_to(output=False)
        self._answering = True
        self.close_call(item.get(_OUTPUTS[item["type"]]))
        self.need(is_json(item), "an output is malformed")

    def check_served(self, item: dict[str, Any]) -> None:
        """Something that the provider did by itself, or is to do."""
        self.expect_no_open("something else follows")
        self._led_to(output=True)
        self.need(item.get(_SERVED[item["type"]]) and is_json(item), "no such item")

    def check_output(self, item: dict[str, Any]) -> None:
        """The output of a call."""
        names = {"type", "id", "status", "call_id", "output", "name", *_CALLER}
        self.members(item, frozenset(names), "an output")
        self.need(is_json(item), "an output is malformed")
        self._led_to(output=False)
        self._answering = True
        self.close_call(item.get("call_id"))
        self._content(item.get("output"), _INPUT)

    def check_reasoning(self, item: dict[str, Any]) -> None:
        """Thinking that precedes what it led to."""
        names = {"type", "id", "status", "summary", "content", "encrypted_content"}
        self.members(item, frozenset(names), "reasoning")
        if self._open:
            self.expect_no_open("the assistant goes on")
        self.begin("assistant", "user")
        self._reasoned = True
        whole = "id" in item and isinstance(item.get("summary"), list)
        self.need(whole and is_json(item), "malformed reasoning")

    def _content(self, content: Any, parts: frozenset[str]) -> None:
        if not isinstance(content, list):
            self.need(is_text(content), "the content is an empty or broken text")
            return
        self.need(content, "the content is empty")
        for part in content:
            kind = part.get("type") if isinstance(part, dict) else None
            if type(kind) is not str or kind not in parts:
                self.fail_unknown(f"a part of type {kind!r:.60} cannot stand here")
            elif kind.endswith("_text") or kind == "refusal":
                member = "text" if kind.endswith("_text") else "refusal"
                names = {"type", member, "annotations", "logprobs", _CACHE}
                self.members(part, frozenset(names), "a part")
                self.need(is_text(part.get(member)), "a text is empty or broken")
                self.need(is_json(part), "a part is malformed")
            else:
                self._media(part)

    def _media(self, part: dict[str, Any]) -> None:
        names = {"type", "detail", "image_url", "file_id", "file_data", "file_url", "filename"}
        self.members(part, frozenset(names | {_CACHE}), "a part")
        given = [part.get(n) for n in ("image_url", "file_id", "file_data", "file_url")]
        self.need(any(is_text(value) for value in given) and is_json(part), "nothing in a part")
        image, file = part.get("image_url"), part.get("file_url")
        is_data = type(image) is str and image.startswith("data:")
        had = image is None or is_data or is_address(image, "http", "https")
        self.need(had, "no image can be had there")
        self.need(file is None or is_address(file, "http", "https"), "no file can be had there")


def _starts(identity: object, prefix: str) -> bool:
    return isinstance(identity, str) and is_text(identity) and identity.startswith(prefix)


_ITEMS = {
    **dict.fromkeys(_TOOLS, ResponsesRules.check_tool),
    **dict.fromkeys(_OUTPUTS, ResponsesRules.check_tool_output),
    **dict.fromkeys(_SERVED, ResponsesRules.check_served),
    "message": ResponsesRules.check_message,
    "function_call": ResponsesRules.check_call,
    "function_call_output": ResponsesRules.check_output,
    "reasoning": ResponsesRules.check_reasoning,
}
