"""OpenAI's chat completions, and Mistral's, which is like it and stricter."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Any

from holdfast.replay._rules._base import Rules, is_address, is_json, is_json_object, is_text

__all__ = ["MistralRules", "OpenAIRules"]

_SYSTEM = {"system", "developer"}
_TEXT_ONLY = frozenset({"text"})
_CACHE = "prompt_cache_breakpoint"
# What other servers that speak this form add to an answer, and take back.
_REASONING = frozenset({"reasoning", "reasoning_content", "reasoning_details"})


class OpenAIRules(Rules):
    """Each call is answered by a tool message before anything else is said."""

    id_pattern = re.compile(r"[!-~]{1,40}\Z")
    roles = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
    user_parts = frozenset({"text", "image_url", "input_audio", "file"})
    call_kinds = frozenset({"function", "custom"})
    part_members = frozenset({_CACHE})
    allowed = MappingProxyType(
        {
            "system": frozenset({"role", "content", "name"}),
            "user": frozenset({"role", "content", "name"}),
            "tool": frozenset({"role", "content", "tool_call_id", "name"}),
            "function": frozenset({"role", "content", "name"}),
            "assistant": frozenset(
                {"role", "content", "tool_calls", "name", "refusal", "audio", "annotations"}
                | {"function_call", *_REASONING}
            ),
        }
    )

    def check(self, message: Any) -> None:
        role = message.get("role") if isinstance(message, dict) else None
        if type(role) is not str or role not in self.roles:
            self.fail_unknown(f"not a message of a known role: {role!r:.60}")
            return
        self.members(message, self.allowed["system" if role in _SYSTEM else role], "a message")
        self.need("name" not in message or is_text(message["name"]), "the name is malformed")
        if role in {"tool", "function"}:
            self._check_tool(message) if role == "tool" else self._check_function(message)
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
        """Where a system message may stand: anywhere but between a call and its result."""

    def check_assistant(self, message: dict[str, Any]) -> None:
        """Words, calls or both; content may be left out beside calls."""
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
        others = [message.get(name) for name in ("refusal", "audio", *_REASONING)]
        self.need(is_json(others), "malformed members")

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
        """A call of the old form, which has a name and no id."""
        if not isinstance(call, dict):
            self.fail_unknown("a call is no function call")
            return
        self.members(call, frozenset({"name", "arguments"}), "a function")
        name = call.get("name")
        self.need(type(name) is str and self.name_pattern.match(name), "malformed tool name")
        self.need(is_json_object(call.get("arguments")), "arguments are no JSON object")
        self._open[f"function {name}"] = str(name)

    def _check_function(self, message: dict[str, Any]) -> None:
        self.close_call(f"function {message.get('name')}")
        self.need(is_text(message.get("content")), "the content is an empty or broken text")

    def _check_tool(self, message: dict[str, Any]) -> None:
        self.close_call(message.get("tool_call_id"))
        self._content(message.get("content"), _TEXT_ONLY)

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
                self._part(part, kind)

    def _part(self, part: dict[str, Any], kind: str) -> None:
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
            is_data = type(inner) is str and inner.startswith("data:")
            self.need(is_data or is_address(inner, "http", "https"), "no image can be had there")
        self.need(inner and is_json(inner), f"a {kind} part is malformed")


class MistralRules(OpenAIRules):
    """What mistral-common demands for serving, versions 3 and 13 together.

    Older ones also refuse what a user says directly after a result.
    """

    id_pattern = re.compile(r"[A-Za-z0-9]{9}\Z")
    roles = frozenset({"system", "user", "assistant", "tool"})
    user_parts = frozenset({"text", "image_url"})
    call_kinds = frozenset({"function"})
    part_members: frozenset[str] = frozenset()
    allowed = MappingProxyType(
        {
            "system": frozenset({"role", "content"}),
            "user": frozenset({"role", "content"}),
            "tool": frozenset({"role", "content", "tool_call_id", "name"}),
            "assistant": frozenset({"role", "content", "tool_calls", "prefix"}),
        }
    )

    def __init__(self) -> None:
        super().__init__()
        self._prefixed = False
        self._role: Any = None

    def check(self, message: Any) -> None:
        self.need(not self._prefixed, "only the last message may be a prefix")
        super().check(message)
        before, self._role = self._role, message.get("role") if isinstance(message, dict) else None
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
