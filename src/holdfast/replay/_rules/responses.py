"""OpenAI's Responses API: items, of which calls and their outputs stand together."""

from __future__ import annotations

import re
from typing import Any

from holdfast.replay._rules._base import Rules, is_address, is_json, is_json_object, is_text

__all__ = ["ResponsesRules"]

_ROLES = {"user", "assistant", "system", "developer"}
_INPUT = frozenset({"input_text", "input_image", "input_file"})
_OUTPUT = frozenset({"output_text", "refusal"})
_PREFIXES = {"function_call": "fc", "message": "msg", "reasoning": "rs"}


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
            self.fail("not an item of a known type")
            return
        identity = message.get("id")
        prefix = _PREFIXES.get(kind, "")
        self.need(identity is None or _starts(identity, prefix), f"the id begins with {prefix!r}")
        self.need(message.get("status", "completed") == "completed", "the item is not completed")
        check(self, message)

    def end(self) -> None:
        super().end()
        self.need(not self._reasoned, "reasoning is followed by what it led to")

    def check_message(self, item: dict[str, Any]) -> None:
        """Words of one side."""
        names = {"type", "role", "content", "id", "status", "phase"}
        self.members(item, frozenset(names), "a message")
        role = item.get("role")
        if not self.need(type(role) is str and role in _ROLES, "not a known role"):
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
        names = {"type", "id", "status", "call_id", "name", "arguments"}
        self.members(item, frozenset(names), "a call")
        if self._answering:
            self.expect_no_open("the assistant goes on")
        self.begin("assistant", "user")
        self._led_to(output=True)
        self.open_call(item.get("call_id"), item.get("name"))
        self.need(is_json_object(item.get("arguments")), "arguments are no JSON object")

    def check_output(self, item: dict[str, Any]) -> None:
        """The output of a call."""
        names = {"type", "id", "status", "call_id", "output"}
        self.members(item, frozenset(names), "an output")
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
                self.fail(f"a part of type {kind!r} cannot stand here")
            elif kind.endswith("_text") or kind == "refusal":
                member = "text" if kind.endswith("_text") else "refusal"
                self.members(part, frozenset({"type", member, "annotations", "logprobs"}), "a part")
                self.need(is_text(part.get(member)), "a text is empty or broken")
                self.need(is_json(part), "a part is malformed")
            else:
                self._media(part)

    def _media(self, part: dict[str, Any]) -> None:
        names = {"type", "detail", "image_url", "file_id", "file_data", "file_url", "filename"}
        self.members(part, frozenset(names), "a part")
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
    "message": ResponsesRules.check_message,
    "function_call": ResponsesRules.check_call,
    "function_call_output": ResponsesRules.check_output,
    "reasoning": ResponsesRules.check_reasoning,
}
