"""Pydantic AI's messages, as strict as the strictest model behind it."""

from __future__ import annotations

from typing import Any

from holdfast.replay._rules._base import Rules, is_address, is_json, is_json_object, is_text

# A retry answers a call too, if it names a tool; else it is a prompt of the framework.
_RETURNS = {"tool-return", "retry-prompt"}


class PydanticAIRules(Rules):
    """Requests and responses alternate; every call is answered in the next request, answers first."""

    def __init__(self) -> None:
        super().__init__()
        self._kind = "response"

    def check(self, message: Any) -> None:
        kind = message.get("kind") if isinstance(message, dict) else None
        if not self.need(kind in ("request", "response"), "the kind is request or response"):
            return
        self.begin(kind, "request")
        self.need(kind != self._kind or self.index == 0, f"two {kind}s in a row")
        self._kind = str(kind)
        parts = message.get("parts")
        if not self.need(isinstance(parts, list) and parts, "a message has parts"):
            return
        if kind == "request":
            self._request(parts)
            self.expect_no_open("the user goes on")
        else:
            self._response(parts)

    def _request(self, parts: list[Any]) -> None:
        said = prompted = False
        for part in parts:
            kind = part.get("part_kind") if isinstance(part, dict) else None
            if kind in _RETURNS and (kind == "tool-return" or part.get("tool_name") is not None):
                self.need(not prompted, "answers come before prompts")
                self.close_call(part.get("tool_call_id"))
                # Whatever a tool returned: the framework converts it to text for the model.
                content = part.get("content")
                empty = content is None or content == []
                well = is_text(content) if isinstance(content, str) else not empty and is_json(content)
                self.need(well, "an answer is empty or broken")
            elif kind == "system-prompt":
                self.need(is_text(part.get("content")), "a system prompt is empty or broken")
                continue
            elif self.need(kind in ("user-prompt", "retry-prompt"), f"a part of kind {kind!r}"):
                prompted = True
                self._prompt(part.get("content"))
            said = True
        self.need(said, "the request says nothing")

    def _prompt(self, content: Any) -> None:
        if not isinstance(content, list):
            self.need(is_text(content), "a prompt is empty or broken")
            return
        self.need(content, "a prompt is empty")
        for item in content:
            kind = item.get("kind") if isinstance(item, dict) else None
            if kind is None:
                self.need(is_text(item), "a prompt is empty or broken")
            elif kind == "binary":
                self.need(item.get("data") and is_text(item.get("media_type")), "no data")
            else:
                self.need(is_address(item.get("url"), "http", "https", "gs", "s3"), "no URL")

    def _response(self, parts: list[Any]) -> None:
        said = False
        for part in parts:
            kind = part.get("part_kind") if isinstance(part, dict) else None
            if kind == "tool-call":
                said = True
                self.open_call(part.get("tool_call_id"), part.get("tool_name"))
                args = part.get("args")
                plain = type(args) is dict and is_json(args)
                self.need(plain or is_json_object(args), "args are no object")
            elif kind == "text":
                said = True
                self.need(is_text(part.get("content")), "a text is empty or broken")
            else:
                known = kind == "thinking" and is_json(part.get("content"))
                self.need(known, f"a part of kind {kind!r} cannot stand here")
        self.need(said, "the response says nothing")
