"""OpenAI's chat completions and Responses, and Mistral's chat, which is stricter than the first."""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import Any, ClassVar

from holdfast.replay._rules._base import Rules, is_address, is_json, is_json_object, is_text

_SYSTEM = {"system", "developer"}
_TEXT_ONLY = frozenset({"text"})
_CACHE = "prompt_cache_breakpoint"
# Members that other servers with this API add to an answer, and accept back.
_REASONING = frozenset({"reasoning", "reasoning_content", "reasoning_details"})
_SAID = _REASONING | {"refusal", "audio", "annotations"}


def _is_image(address: object) -> bool:
    return (type(address) is str and address.startswith("data:")) or is_address(address, "http", "https")


class _PartRules(Rules):
    """The rules for contents that both of OpenAI's forms share."""

    def _content(self, content: Any, parts: frozenset[str]) -> None:
        if not isinstance(content, list):
            self.need(is_text(content), "the content is an empty or broken text")
            return
        self.need(content, "the content is empty")
        for part in content:
            kind = part.get("type") if isinstance(part, dict) else None
            if type(kind) is not str or kind not in parts:
                self.fail_unknown(f"a part of type {kind!r:.60} cannot stand here")
            else:
                self.check_part(part, kind)

    @abstractmethod
    def check_part(self, part: dict[str, Any], kind: str) -> None:
        """Check a part of a kind that is allowed there."""


class OpenAIRules(_PartRules):
    """Each call is answered by a tool message before anything else."""

    id_pattern = re.compile(r"[!-~]{1,40}\Z")
    roles = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
    user_parts = frozenset({"text", "image_url", "input_audio", "file"})
    call_kinds = frozenset({"function", "custom"})
    part_members = frozenset({_CACHE})
    allowed: ClassVar[dict[str, frozenset[str]]] = {
        "system": frozenset({"role", "content", "name"}),
        "user": frozenset({"role", "content", "name"}),
        "tool": frozenset({"role", "content", "tool_call_id", "name"}),
        "function": frozenset({"role", "content", "name"}),
        "assistant": frozenset({"role", "content", "name", "tool_calls", "function_call"} | _SAID),
    }

    def check(self, message: Any) -> None:
        role = message.get("role") if isinstance(message, dict) else None
        if type(role) is not str or role not in self.roles:
            self.fail_unknown(f"not a message of a known role: {role!r:.60}")
            return
        self.members(message, self.allowed["system" if role in _SYSTEM else role], "a message")
        self.need("name" not in message or is_text(message["name"]), "the name is malformed")
        if role == "tool":
            self._check_tool(message)
            return
        if role == "function":
            self.close_call(f"function {message.get('name')}")
            self.need(is_text(message.get("content")), "the content is an empty or broken text")
            return
        self.expect_no_open(f"the {role} goes on")
        if role in _SYSTEM:
            self.check_place_of_system()
            self._content(message.get("content"), _TEXT_ONLY)
            return
        self.begin(role, "user")
        if role == "user":
            self._content(message.get("content"), self.user_parts)
        else:
            self.check_assistant(message)

    def check_place_of_system(self) -> None:
        """Allow a system message anywhere but between a call and its result."""

    def check_assistant(self, message: dict[str, Any]) -> None:
        """Check words, calls or both; content may be left out beside calls."""
        calls = message.get("tool_calls")
        content = message.get("content")
        if calls is not None:
            self._calls(calls)
        if message.get("function_call") is not None:
            self._old_call(message["function_call"])
            calls = True
        said = is_text(message.get("refusal")) or isinstance(message.get("audio"), dict)
        if content is None or content == "":
            self.need(calls or said, "the message says nothing")
        else:
            self._content(content, frozenset({"text", "refusal"}))
        self.need(is_json(message.get("annotations")), "annotations are malformed")
        self.need(is_json([message.get(name) for name in _SAID - {"annotations"}]), "malformed members")

    def _calls(self, calls: Any) -> None:
        if not self.need(isinstance(calls, list) and calls, "tool_calls is no list of calls"):
            return
        for call in calls:
            kind: Any = call.get("type", "") if isinstance(call, dict) else None
            given = call.get(kind) if type(kind) is str and kind in self.call_kinds else None
            if not isinstance(given, dict):
                self.fail_unknown("a call is no function call")
                continue
            self.members(call, frozenset({"id", "type", kind}), "a call")
            said = "input" if kind == "custom" else "arguments"
            self.members(given, frozenset({"name", said}), "a function")
            self.open_call(call.get("id"), given.get("name"))
            if kind == "custom":
                self.need(type(given.get(said)) is str and is_json(given), "the input is no text")
            else:
                self.need(is_json_object(given.get(said)), "arguments are no JSON object")

    def _old_call(self, call: Any) -> None:
        """Check a call of the old form, which has a name and no id."""
        if not isinstance(call, dict):
            self.fail_unknown("a call is no function call")
            return
        self.members(call, frozenset({"name", "arguments"}), "a function")
        name = call.get("name")
        self.need(type(name) is str and self.name_pattern.match(name), "malformed tool name")
        self.need(is_json_object(call.get("arguments")), "arguments are no JSON object")
        # No id can be equal to it: ids have no spaces.
        self._open[f"function {name}"] = str(name)

    def _check_tool(self, message: dict[str, Any]) -> None:
        self.close_call(message.get("tool_call_id"))
        self._content(message.get("content"), _TEXT_ONLY)

    def check_part(self, part: dict[str, Any], kind: str) -> None:
        self.members(part, frozenset({"type", kind, *self.part_members}), "a part")
        self.need(is_json(part.get(_CACHE)), "a cache mark is malformed")
        if kind in {"text", "refusal"}:
            self.need(is_text(part.get(kind)), "a text is empty or broken")
            return
        inner = part.get(kind)
        if kind == "image_url" and isinstance(inner, dict):
            self.members(inner, frozenset({"url", "detail"}), "an image")
            inner = inner.get("url")
        if kind == "image_url":
            self.need(_is_image(inner), "no image can be had there")
        self.need(inner and is_json(inner), f"a {kind} part is malformed")


class MistralRules(OpenAIRules):
    """The requirements of mistral-common for serving, versions 3 and 13 together, and of older servers."""

    id_pattern = re.compile(r"[A-Za-z0-9]{9}\Z")
    roles = frozenset({"system", "user", "assistant", "tool"})
    user_parts = frozenset({"text", "image_url"})
    call_kinds = frozenset({"function"})
    part_members: frozenset[str] = frozenset()
    allowed: ClassVar[dict[str, frozenset[str]]] = {
        "system": frozenset({"role", "content"}),
        "user": frozenset({"role", "content"}),
        "tool": frozenset({"role", "content", "tool_call_id", "name"}),
        "assistant": frozenset({"role", "content", "tool_calls", "prefix"}),
    }

    def __init__(self) -> None:
        super().__init__()
        self._prefixed = False
        self._role: Any = None

    def check(self, message: Any) -> None:
        self.need(not self._prefixed, "only the last message may be a prefix")
        super().check(message)
        before, self._role = self._role, message.get("role") if isinstance(message, dict) else None
        # Some servers refuse it, though the newest do not: valid means valid for all.
        late = before == "tool" and self._role == "user"
        self.need(not late, "after a result the assistant goes on, not the user")

    def check_place_of_system(self) -> None:
        self.need(self.alone or not self.begun, "system messages stand at the beginning")

    def check_assistant(self, message: dict[str, Any]) -> None:
        calls, content = message.get("tool_calls"), message.get("content")
        self.need(bool(calls) != bool(content), "either words or calls, not both and not neither")
        prefix = message.get("prefix", False)
        self.need(type(prefix) is bool, "prefix is no boolean")
        self._prefixed = prefix is True
        self.need(not (prefix and calls), "a prefix has words")
        if calls is not None:
            self._calls(calls)
        if content:
            self._content(content, _TEXT_ONLY)

    def _check_tool(self, message: dict[str, Any]) -> None:
        name = message.get("name", "unnamed")
        self.need(type(name) is str and self.name_pattern.match(name), "malformed tool name")
        super()._check_tool(message)


# OpenAI's Responses API: items, of which calls and their outputs are adjacent.
_ROLES = {"user", "assistant", "system", "developer"}
_INPUT = frozenset({"input_text", "input_image", "input_file"})
_OUTPUT = frozenset({"output_text", "refusal"})
_PREFIXES = {"function_call": "fc", "message": "msg", "reasoning": "rs"}
_CALLER = {"type", "id", "status", "call_id", "name", "caller", "namespace", "created_by", "async"}
_CALL, _CALL_OUTPUT = frozenset(_CALLER | {"arguments"}), frozenset(_CALLER | {"output"})
_MESSAGE = frozenset({"type", "role", "content", "id", "status", "phase"})
_THOUGHTS = frozenset({"type", "id", "status", "summary", "content", "encrypted_content"})
_MEDIA = frozenset({"type", "detail", "image_url", "file_id", "file_data", "file_url", "filename", _CACHE})
# Calls that the program answers: the member that says what to do, and the tool's name.
_TOOLS = {
    "custom_tool_call": "input",
    "computer_call": "call_id",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
}

# Items of the provider's own work, by the member that each requires.
_SERVED = {
    **dict.fromkeys(("code_interpreter_call", "file_search_call", "image_generation_call", "web_search_call"), "id"),
    **dict.fromkeys(("item_reference", "mcp_approval_request", "mcp_call", "mcp_list_tools"), "id"),
    **dict.fromkeys(("program", "program_output"), "id"),
    **dict.fromkeys(("tool_search_call", "tool_search_output", "compaction_trigger", "configuration_update"), "type"),
    "additional_tools": "tools",
    "compaction": "encrypted_content",
    "mcp_approval_response": "approval_request_id",
}


class ResponsesRules(_PartRules):
    """Outputs directly follow their calls; reasoning is followed by what it led to."""

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
        identity, prefix = message.get("id"), _PREFIXES.get(kind, "")
        named = isinstance(identity, str) and is_text(identity) and identity.startswith(prefix)
        self.need(identity is None or named, f"the id begins with {prefix!r}")
        done = message.get("status", "completed") == "completed"
        self.need(done or kind not in _PREFIXES, "the item is not completed")
        check(self, message)

    def end(self) -> None:
        super().end()
        self.need(self.alone or not self._reasoned, "reasoning is followed by what it led to")

    def check_message(self, item: dict[str, Any]) -> None:
        self.members(item, _MESSAGE, "a message")
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
        self.members(item, _CALL, "a call")
        self._begin_call()
        self.open_call(item.get("call_id"), item.get("name"))
        self.need(is_json_object(item.get("arguments")), "arguments are no JSON object")
        self.need(is_json(item), "a call is malformed")

    def _begin_call(self) -> None:
        # Calls are adjacent, and so are their outputs: the next call begins another group.
        if self._answering:
            self.expect_no_open("the assistant goes on")
        self.begin("assistant", "user")
        self._led_to(output=True)

    def check_tool(self, item: dict[str, Any]) -> None:
        """Check a call of a tool that the provider knows, or of one that takes plain text."""
        self._begin_call()
        self.open_call(item.get("call_id"), item.get("name", item["type"]))
        self.need(item.get(_TOOLS[item["type"]]) is not None and is_json(item), "no such call")

    def check_tool_output(self, item: dict[str, Any]) -> None:
        """Check the output of a call; its form depends on the tool."""
        self._led_to(output=False)
        self._answering = True
        # For that one tool the output names the call by another member.
        self.close_call(item.get("id" if item["type"] == "local_shell_call_output" else "call_id"))
        self.need(is_json(item), "an output is malformed")

    def check_served(self, item: dict[str, Any]) -> None:
        """Check something that the provider did by itself, or is to do."""
        self.expect_no_open("something else follows")
        self._led_to(output=True)
        self.need(item.get(_SERVED[item["type"]]) and is_json(item), "no such item")

    def check_output(self, item: dict[str, Any]) -> None:
        self.members(item, _CALL_OUTPUT, "an output")
        self.check_tool_output(item)
        self._content(item.get("output"), _INPUT)

    def check_reasoning(self, item: dict[str, Any]) -> None:
        """Check thinking that precedes what it led to."""
        self.members(item, _THOUGHTS, "reasoning")
        self.expect_no_open("the assistant goes on")
        self.begin("assistant", "user")
        self._reasoned = True
        whole = "id" in item and isinstance(item.get("summary"), list)
        self.need(whole and is_json(item), "malformed reasoning")

    def check_part(self, part: dict[str, Any], kind: str) -> None:
        if not (kind.endswith("_text") or kind == "refusal"):
            self.members(part, _MEDIA, "a part")
            given = [part.get(n) for n in ("image_url", "file_id", "file_data", "file_url")]
            self.need(any(is_text(value) for value in given) and is_json(part), "nothing in a part")
            image, file = part.get("image_url"), part.get("file_url")
            self.need(image is None or _is_image(image), "no image can be had there")
            self.need(file is None or is_address(file, "http", "https"), "no file can be had there")
            return
        member = "text" if kind.endswith("_text") else "refusal"
        self.members(part, frozenset({"type", member, "annotations", "logprobs", _CACHE}), "a part")
        self.need(is_text(part.get(member)), "a text is empty or broken")
        self.need(is_json(part), "a part is malformed")


_ITEMS = {
    **dict.fromkeys(_TOOLS, ResponsesRules.check_tool),
    **dict.fromkeys([f"{kind}_output" for kind in _TOOLS], ResponsesRules.check_tool_output),
    **dict.fromkeys(_SERVED, ResponsesRules.check_served),
    "message": ResponsesRules.check_message,
    "function_call": ResponsesRules.check_call,
    "function_call_output": ResponsesRules.check_output,
    "reasoning": ResponsesRules.check_reasoning,
}
