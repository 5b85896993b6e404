"""Anthropic's Messages API, and the neutral form, which is as strict."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from holdfast.replay._blocks import SERVER_CALLS
from holdfast.replay._rules._base import Rules, is_address, is_encoded, is_json, is_text

_MEMBERS = frozenset({"role", "content"})
_WORDS = [{"type": "text", "text": "."}]  # what a string content stands for
_CALL_MEMBERS = {"type", "id", "name", "input"}
_RESULT_MEMBERS = {"type", "tool_use_id", "content"}
_IMAGES = {"image/jpeg", "image/png", "image/gif", "image/webp"}
_CACHE_MARKS_MAX = 4
# The members that a block may have: there are as many sets as kinds of blocks.
_known_members: dict[tuple[tuple[str, ...], frozenset[str]], frozenset[str]] = {}


class AnthropicRules(Rules):
    """Turns alternate, results come first and complete, calls come last, nothing is empty."""

    name_pattern = re.compile(r"[A-Za-z0-9_-]{1,128}\Z")
    signed_thinking = True
    extra_members: frozenset[str] = frozenset()

    def __init__(self) -> None:
        super().__init__()
        self._role = "assistant"
        self._cache_marks = 0
        self._paused = False
        # Server tool calls of the turn that have no result yet, and those of earlier messages.
        self._serving: set[str] = set()
        self._carried: set[str] = set()

    def check(self, message: Any) -> None:
        if not isinstance(message, dict):
            self.fail_unknown("a message is an object")
            return
        if not _MEMBERS.issuperset(message):
            self.members(message, _MEMBERS, "a message")
        role, content = message.get("role"), message.get("content")
        if role not in ("user", "assistant"):
            self.fail_unknown(f"a message has no role {role!r:.60}: it is user or assistant")
            return
        if not self.begun:
            self.begin(role, "user")
        if role == self._role and self.index != 0:
            self.fail(f"two {role} turns in a row")
        self._role = role
        if self._paused:
            self.fail("something follows a server's tool call without a result")
            self._paused = False
        if role == "assistant" and self._open:
            self.expect_no_open("the assistant goes on")
        blocks = content if isinstance(content, list) else _WORDS
        if not blocks:
            self.fail("the content is empty")
        if blocks is not content and not is_text(content):
            self.fail("the content is an empty or broken text")
        if blocks is not _WORDS or self._serving or self._carried:
            self._check_assistant(blocks) if role == "assistant" else self._check_user(blocks)
        if role == "user" and self._open:
            self.expect_no_open("the user goes on")

    def _check_user(self, blocks: list[Any]) -> None:
        words = False
        for block in blocks:
            kind = _kind(block)
            if kind == "tool_result":
                if words:
                    self.fail("results come before everything else")
                self._tool_result(block)
            else:
                words = True
                self._content_block(block, kind, _USER_BLOCKS)
        if words and self._serving:
            # Results alone leave the assistant's turn open: its server tools continue with them.
            self.fail("words follow a server's tool call without a result")
            self._serving.clear()

    def _check_assistant(self, blocks: list[Any]) -> None:
        calls = []
        self._carried = self._serving.copy()
        last: set[Any] = set()
        kind = None
        for block in blocks:
            kind = _kind(block)
            if kind == "tool_use":
                calls.append(self._tool_use(block))
            elif kind in SERVER_CALLS:
                identity = self._server_block(block, "id")
                self._serving.add(identity)
                last.add(identity)
            else:
                if calls:
                    self.fail("calls come after everything else")
                last.clear()
                self._check_said(block, kind)
        # Running code makes more calls; every other tool has run by now.
        if self._carried:
            self.need(self._carried <= set(calls), "a server's tool never ran")
        if not calls and self._serving:
            # A turn that the provider paused ends with them: it continues when it gets them back.
            self.need(self._serving <= last, "a server's tool call has no result")
            self._paused = True
        if kind in _THINKING:
            self.fail("the last block is thinking")

    def _check_said(self, block: Any, kind: str | None) -> None:
        if kind is None or not kind.endswith("_tool_result"):
            self._content_block(block, kind, _ASSISTANT_BLOCKS)
            return
        identity = self._server_block(block, "tool_use_id")
        known = identity in self._serving or self.continued
        self.need(known, "a server's tool result has no call")
        self._serving.discard(identity)
        self._carried.discard(identity)

    def _content_block(self, block: Any, kind: str | None, allowed: _Checks) -> None:
        if kind == "text" and type(block) is dict and len(block) == 2 and is_text(block.get("text")):
            return  # nearly all of them, and each set of blocks allows it
        check = allowed.get(kind) if kind is not None else None
        if check is None or (kind == "reasoning" and self.signed_thinking):
            self.fail_unknown(f"a block of type {kind!r:.60} cannot stand here")
        else:
            check(self, block)

    def _block_members(self, block: dict[str, Any], *allowed: str) -> None:
        names = _known_members.get((allowed, self.extra_members))
        if names is None:
            names = frozenset({"type", "cache_control", *allowed}) | self.extra_members
            _known_members[allowed, self.extra_members] = names
        if not names.issuperset(block):
            self.members(block, names, "a block")
        if "cache_control" in block:
            self._cache_marks += 1
            mark = block["cache_control"]
            well = mark is None or (isinstance(mark, dict) and mark.get("type") == "ephemeral")
            self.need(well, "cache_control is malformed")
            self.need(self._cache_marks <= _CACHE_MARKS_MAX, "more than 4 cache marks")
        for name in self.extra_members:
            if name in block:
                self.need(is_encoded(block[name]), f"{name} is empty or broken")

    def check_text(self, block: dict[str, Any]) -> None:
        self._block_members(block, "text", "citations")
        self.need(is_text(block.get("text")), "a text is empty or broken")
        if "citations" in block:
            self.need(is_json(block["citations"]), "citations are malformed")

    def check_thinking(self, block: dict[str, Any]) -> None:
        """Check thinking with the signature that proves its origin."""
        self._block_members(block, "thinking", "signature")
        self.need(type(block.get("thinking")) is str, "a thinking block has no thinking")
        self.need(is_json(block.get("thinking")), "a thinking block is broken")
        missing_ok = not self.signed_thinking and "signature" not in block
        self.need(missing_ok or is_text(block.get("signature")), "a thinking block has no signature")

    def check_reasoning(self, block: dict[str, Any]) -> None:
        self._block_members(block, "id", "summary", "content", "encrypted_content")
        self.need(is_json(block) and type(block.get("summary")) is list, "reasoning is malformed")

    def _server_block(self, block: dict[str, Any], member: str) -> str:
        identity = block.get(member)
        self.need(is_json(block), "a server's block is malformed")
        self.need(type(identity) is str, f"no {member}")
        return str(identity)

    def _tool_use(self, block: dict[str, Any]) -> str | None:
        """Check a call; return the server tool whose code makes it, None if it is the model's own."""
        is_bare = block.keys() == _CALL_MEMBERS
        if not is_bare:
            self._block_members(block, "id", "name", "input", "caller", "toolset_name")
        self.open_call(block.get("id"), block.get("name"))
        value = block.get("input")
        if type(value) is not dict or not is_json(value):
            self.fail("the input of a call is no JSON object")
        if is_bare:
            return None
        caller = block.get("caller")
        self.need(is_json(caller), "the caller of a call is malformed")
        code = caller.get("tool_id") if isinstance(caller, dict) else None
        if code is None:
            return None
        running = type(code) is str and (code in self._serving or self.continued)
        self.need(running, "the caller of a call is no code that runs")
        return str(code)

    def _tool_result(self, block: dict[str, Any]) -> None:
        if block.keys() != _RESULT_MEMBERS:
            self._block_members(block, "tool_use_id", "content", "is_error", "toolset_name")
            self.need(type(block.get("is_error", False)) is bool, "is_error is no boolean")
        self.close_call(block.get("tool_use_id"))
        content = block.get("content")
        if isinstance(content, list) and content:
            for part in content:
                self._content_block(part, _kind(part), _RESULT_BLOCKS)
        elif not is_text(content):
            self.fail("a result is empty or broken")

    def check_image(self, block: dict[str, Any]) -> None:
        self._block_members(block, "source", "transformations")
        self.need(is_json(block.get("transformations")), "transformations are malformed")
        source = block.get("source")
        known = isinstance(source, dict) and (_is_data(source, "base64", _IMAGES) or self._is_named(source))
        self.need(known, "the source of an image is malformed")

    def check_document(self, block: dict[str, Any]) -> None:
        self._block_members(block, "source", "title", "context", "citations")
        source = block.get("source")
        known = isinstance(source, dict) and (
            _is_data(source, "base64", {"application/pdf"})
            or _is_data(source, "text", {"text/plain"})
            or self._is_named(source)
            or self._is_content(source)
        )
        self.need(known, "the source of a document is malformed")
        texts = (block.get("title"), block.get("context"))
        self.need(all(text is None or is_text(text) for text in texts), "a title is malformed")
        self.need(is_json(block.get("citations")), "citations are malformed")

    def _is_named(self, source: dict[str, Any]) -> bool:
        kind = source.get("type")
        if kind == "url":
            return source.keys() == {"type", "url"} and self.is_fetched(source["url"])
        return kind == "file" and source.keys() == {"type", "file_id"} and is_text(source["file_id"])

    def is_fetched(self, url: object) -> bool:
        return is_address(url, "https")

    def _is_content(self, source: dict[str, Any]) -> bool:
        """Return whether a document consists of texts and images of its own."""
        content = source.get("content")
        if source.keys() != {"type", "content"} or source["type"] != "content":
            return False
        for part in content if isinstance(content, list) else ():
            self._content_block(part, _kind(part), _DOCUMENT_BLOCKS)
        return bool(content) if isinstance(content, list) else is_text(content)

    def check_search_result(self, block: dict[str, Any]) -> None:
        """Check a search result: texts with their source."""
        self._block_members(block, "source", "title", "content", "citations")
        named = is_text(block.get("source")) and is_text(block.get("title"))
        self.need(named and is_json(block.get("citations")), "a search result is malformed")
        content = block.get("content")
        self.need(isinstance(content, list) and content, "a search result has no content")
        for part in content if isinstance(content, list) else ():
            self._content_block(part, _kind(part), _TEXTS)

    def check_lone(self, block: dict[str, Any]) -> None:
        """Check a block that has one text: thinking that only its provider can read, a file, the name of a tool."""
        member, fault = _LONE[block["type"]]
        self._block_members(block, member)
        self.need(is_text(block.get(member)), fault)

    def check_browser(self, block: dict[str, Any]) -> None:
        self._block_members(block, "tabs", "state_changes")
        self.need(isinstance(block.get("tabs"), list) and is_json(block), "the state of a browser is malformed")


def _kind(block: Any) -> str | None:
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if type(kind) is str else None


def _is_data(source: dict[str, Any], kind: str, media: set[str]) -> bool:
    return (
        source.keys() == {"type", "media_type", "data"}
        and source["type"] == kind
        and source["media_type"] in media
        and (is_encoded if kind == "base64" else is_text)(source["data"])
    )


class NeutralRules(AnthropicRules):
    """Anthropic's rules, with room for blocks that only one provider understands."""

    signed_thinking = False
    extra_members = frozenset({"thought_signature"})

    def is_fetched(self, url: object) -> bool:
        return is_text(url)


_Checks = dict[str, Callable[[AnthropicRules, dict[str, Any]], None]]

_LONE = {
    "redacted_thinking": ("data", "a redacted thinking block has no data"),
    "container_upload": ("file_id", "an upload names no file"),
    "tool_reference": ("tool_name", "a reference names no tool"),
}
_THINKING = {"thinking", "redacted_thinking", "reasoning"}
_TEXTS: _Checks = {"text": AnthropicRules.check_text}
_DOCUMENT_BLOCKS: _Checks = _TEXTS | {"image": AnthropicRules.check_image}
_FOUND: _Checks = _DOCUMENT_BLOCKS | {
    "document": AnthropicRules.check_document,
    "search_result": AnthropicRules.check_search_result,
}
_USER_BLOCKS: _Checks = _FOUND | {"container_upload": AnthropicRules.check_lone}
_RESULT_BLOCKS: _Checks = _FOUND | {
    "tool_reference": AnthropicRules.check_lone,
    "browser_state": AnthropicRules.check_browser,
}
_ASSISTANT_BLOCKS: _Checks = {
    "text": AnthropicRules.check_text,
    "thinking": AnthropicRules.check_thinking,
    "redacted_thinking": AnthropicRules.check_lone,
    "reasoning": AnthropicRules.check_reasoning,
    "container_upload": AnthropicRules.check_lone,
}
