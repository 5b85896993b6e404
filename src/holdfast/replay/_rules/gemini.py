"""Gemini's generateContent: contents of a user and a model in turn."""

from __future__ import annotations

import re
from typing import Any

from holdfast.replay._rules._base import Rules, is_address, is_encoded, is_json, is_text

# The API accepts members in either spelling.
_NAMES = {
    "function_call": "functionCall",
    "function_response": "functionResponse",
    "inline_data": "inlineData",
    "file_data": "fileData",
    "thought_signature": "thoughtSignature",
    "mime_type": "mimeType",
    "file_uri": "fileUri",
    "executable_code": "executableCode",
    "code_execution_result": "codeExecutionResult",
    "tool_call": "toolCall",
    "tool_response": "toolResponse",
    "video_metadata": "videoMetadata",
    "media_resolution": "mediaResolution",
    "media_processing": "mediaProcessing",
    "part_metadata": "partMetadata",
    "audio_transcription": "audioTranscription",
    "speech_metadata": "speechMetadata",
    "will_continue": "willContinue",
}
# Accepted in place of a signature for a call that another model made.
_STAND_INS = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
_SERVED = {"executableCode", "codeExecutionResult", "toolCall", "toolResponse"}
_DATA = {"text", "functionCall", "functionResponse", "inlineData", "fileData", *_SERVED}
_BESIDE = {"videoMetadata", "mediaResolution", "mediaProcessing", "partMetadata"}
_PART = frozenset(_DATA | _BESIDE | {"thought", "thoughtSignature", "audioTranscription", "speechMetadata"})
_RESPONSE = frozenset({"id", "name", "response", "parts", "scheduling", "willContinue"})
_ADDRESSES = ("http", "https", "gs")


class GeminiRules(Rules):
    """Each call has its response right after it, for the same function."""

    id_pattern = re.compile(r"[!-~]{1,64}\Z")
    name_pattern = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}\Z")

    def __init__(self) -> None:
        super().__init__()
        self._role = "model"
        self._calls: list[tuple[str, str]] = []
        self._responses: list[tuple[str, str]] = []

    def check(self, message: Any) -> None:
        if not isinstance(message, dict):
            self.fail_unknown("a content is an object")
            return
        self.members(message, frozenset({"role", "parts"}), "a content")
        role, parts = message.get("role"), message.get("parts")
        if role not in ("user", "model"):
            self.fail_unknown(f"a content has no role {role!r:.60}: it is user or model")
            return
        self.begin(role, "user")
        self.need(role != self._role or self.index == 0, f"two {role} turns in a row")
        self._role = role
        if not isinstance(parts, list) or not parts:
            self.fail("a content has parts")
            return
        for part in parts:
            self._part(part)
        if role == "user":
            # The responses of a user's turn answer the calls of the model's turn before it.
            match = self.alone or sorted(self._calls) == sorted(self._responses)
            self._calls, self._responses = [], []
            self.need(match, "responses do not match the calls before")

    def end(self) -> None:
        self.need(self.alone or not self._calls, "the list ends while calls have no response")

    def _part(self, part: Any) -> None:
        if not isinstance(part, dict):
            self.fail_unknown("a part is no object")
            return
        part = {_NAMES.get(name, name): value for name, value in part.items()}
        self.members(part, _PART, "a part")
        kinds = _DATA & part.keys()
        if not self.need(len(kinds) == 1, "a part holds exactly one thing"):
            return
        signature = part.get("thoughtSignature")
        known = signature is None or signature in _STAND_INS or is_encoded(signature)
        self.need(known, "the signature is malformed")
        self.need(type(part.get("thought", False)) is bool, "thought is no boolean")
        kind = kinds.pop()
        value = part[kind]
        self.need(is_json({name: part[name] for name in part if name != kind}), "a broken part")
        if kind == "text":
            text = is_text(value) or (value == "" and signature)
            self.need(text, "a text is empty or broken")
        elif self.need(isinstance(value, dict), f"{kind} is no object"):
            self._check_value(kind, value)

    def _check_value(self, kind: str, value: dict[str, Any]) -> None:
        if kind == "functionCall":
            self.members(value, frozenset({"id", "name", "args"}), "a call")
            self.need(self._role == "model", "only the model calls functions")
            identity = value.get("id")
            if identity is not None:
                self.open_call(identity, value.get("name"))
                # Here it only shows whether the id is new: the end of a turn pairs by id and name together.
                self._open.clear()
            args = value.get("args", {})
            self.need(type(args) is dict and is_json(args), "the arguments are no JSON object")
            self._calls.append(self._key(identity, value.get("name")))
        elif kind == "functionResponse":
            self.members({_NAMES.get(name, name): item for name, item in value.items()}, _RESPONSE, "a response")
            self.need(self._role == "user", "only the user answers calls")
            response = value.get("response")
            self.need(type(response) is dict and response and is_json(value), "no JSON response")
            self._responses.append(self._key(value.get("id"), value.get("name")))
        elif kind in _SERVED:
            self.need(value and is_json(value), f"{kind} is empty or broken")
        else:
            value = {_NAMES.get(name, name): item for name, item in value.items()}
            self.need(is_text(value.get("mimeType")), "the media type is missing")
            if kind == "inlineData":
                self.need(is_encoded(value.get("data")) and is_json(value), "data is missing")
            else:
                self.need(is_address(value.get("fileUri"), *_ADDRESSES) and is_json(value), "fileUri is missing")

    def _key(self, identity: Any, name: Any) -> tuple[str, str]:
        well = type(name) is str and self.name_pattern.match(name)
        self.need(well, "the name of a function is malformed")
        return (identity if type(identity) is str else "", name if well else "")
