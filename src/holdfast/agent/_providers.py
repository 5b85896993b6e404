"""The models of providers, through pydantic_ai: converts messages to its types, and answers back.

Loaded late: it takes most of a second, and the guide does not need it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, cast

from pydantic_ai import exceptions as pai_errors
from pydantic_ai import messages as pai
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from holdfast.agent._context import plain_text
from holdfast.agent._model_choice import INSTALL
from holdfast.agent._result import Ask, CallRequest, Reply, Speech, Usage, blocks_of
from holdfast.errors import HoldfastError, ModelFailed, UsageError
from holdfast.model import decode_json
from holdfast.replay import estimate_tokens

_ANTHROPIC = "anthropic"
_GOOGLE = "google"
_REDACTED = "redacted_thinking"


class Converter:
    """Converts neutral messages to the engine's, remembering those it has converted before.

    The session hands out the same dict for a message that has not changed, so that a long
    conversation is converted once, not at every step.
    """

    def __init__(self, system: str = "") -> None:
        self._known: list[tuple[dict[str, Any], pai.ModelMessage]] = []
        # The engine would tell Anthropic's models such a thought as something that the user said.
        self._drops_unsigned = system == _ANTHROPIC

    def convert(self, messages: list[dict[str, Any]]) -> list[pai.ModelMessage]:
        fresh: list[tuple[dict[str, Any], pai.ModelMessage]] = []
        for index, message in enumerate(messages):
            if index < len(self._known) and self._known[index][0] is message:
                fresh.append(self._known[index])
            else:
                converted = _convert(message, messages[index - 1] if index else {})
                if self._drops_unsigned and isinstance(converted, pai.ModelResponse):
                    converted.parts = _without_unsigned(converted.parts)
                fresh.append((message, converted))
        self._known = fresh
        return [converted for _, converted in fresh]


def _convert(message: dict[str, Any], before: dict[str, Any]) -> pai.ModelMessage:
    blocks = blocks_of(message)
    if message["role"] == "assistant":
        parts = [part for block in blocks if (part := _response_part(block)) is not None]
        provider = next((p.provider_name for p in parts if getattr(p, "provider_name", None)), None)
        return pai.ModelResponse(parts=parts, provider_name=provider)
    names = {b["id"]: b["name"] for b in blocks_of(before) if b["type"] == "tool_use"}
    returned = [_return_part(b, names) for b in blocks if b["type"] == "tool_result"]
    said = [_user_content(block) for block in blocks if block["type"] != "tool_result"]
    requests: list[pai.ModelRequestPart] = [*returned]
    if said:
        lone = len(said) == 1 and isinstance(said[0], str)
        requests.append(pai.UserPromptPart(content=said[0] if lone else said))  # type: ignore[arg-type]  # a text only where it is alone
    return pai.ModelRequest(parts=requests)


def _response_part(block: dict[str, Any]) -> pai.ModelResponsePart | None:
    if block["type"] == "text":
        return pai.TextPart(content=block["text"])
    if block["type"] == "thinking":
        is_google = "thought_signature" in block
        signature = block["thought_signature"] if is_google else block.get("signature")
        provider = _GOOGLE if is_google else _ANTHROPIC if signature else None
        return pai.ThinkingPart(content=block["thinking"], signature=signature, provider_name=provider)
    if block["type"] == _REDACTED:
        return pai.ThinkingPart(content="", id=_REDACTED, signature=block["data"], provider_name=_ANTHROPIC)
    if block["type"] != "tool_use":
        return None
    signature = block.get("thought_signature")
    return pai.ToolCallPart(
        tool_name=block["name"],
        args=block["input"],
        tool_call_id=block["id"],
        provider_name=_GOOGLE if signature else None,
        provider_details={"thought_signature": signature} if signature else None,
    )


def _without_unsigned(parts: Sequence[pai.ModelResponsePart]) -> Sequence[pai.ModelResponsePart]:
    """Leave out thoughts without a signature, as they are after an interruption, if anything else was said."""
    return [part for part in parts if not isinstance(part, pai.ThinkingPart) or part.signature] or parts


def _return_part(block: dict[str, Any], names: dict[str, str]) -> pai.ToolReturnPart:
    content = block["content"]
    shown = content if isinstance(content, str) else [_user_content(part) for part in content]
    return pai.ToolReturnPart(
        tool_name=names.get(block["tool_use_id"], "tool"),
        content=shown,
        tool_call_id=block["tool_use_id"],
        outcome="failed" if block.get("is_error") else "success",
    )


def _user_content(block: dict[str, Any]) -> pai.UserContent:
    source = block.get("source", {})
    if block["type"] == "text":
        return str(block["text"])
    if source.get("type") == "base64":
        try:
            data = base64.b64decode(source["data"], validate=True)
        except (binascii.Error, ValueError, TypeError):
            return "[a picture or document that could not be read]"
        return pai.BinaryContent(data=data, media_type=str(source.get("media_type")))
    if source.get("type") == "url":
        kind = pai.ImageUrl if block["type"] == "image" else pai.DocumentUrl
        return kind(url=source["url"])
    return str(source.get("data", f"[{block['type']}]"))


def read_reply(response: pai.ModelResponse) -> Reply:
    """Return the engine's response in neutral form."""
    speech: list[Speech] = []
    calls: list[CallRequest] = []
    for part in response.parts:
        if isinstance(part, pai.TextPart) and part.content:
            speech.append(Speech("text", plain_text(part.content)))
        elif isinstance(part, pai.ThinkingPart) and (part.content or part.signature):
            speech.append(_read_thinking(part))
        elif isinstance(part, pai.ToolCallPart):
            signature = (part.provider_details or {}).get("thought_signature")
            args, fault = _read_args(part.args)
            name, call_id = plain_text(part.tool_name), plain_text(part.tool_call_id)
            calls.append(CallRequest(call_id, name, args, fault, signature))
    usage = _read_usage(response, speech, calls)
    return Reply(speech, calls, usage, response.model_name, response.finish_reason)


def _read_thinking(part: pai.ThinkingPart) -> Speech:
    provider, text = part.provider_name or "", plain_text(part.content)
    if provider.startswith(_GOOGLE):
        return Speech("thinking", text, thought_signature=part.signature)
    if provider.startswith((_ANTHROPIC, "bedrock")):
        redacted = part.id == _REDACTED
        return Speech("thinking", text, signature=part.signature, redacted=redacted)
    # Others tie their signatures to ids on their own servers, useless to a later process.
    return Speech("thinking", text)


def _read_args(args: Any) -> tuple[dict[str, Any], str | None]:
    if args is None or args == "":
        return {}, None
    if isinstance(args, str):
        try:
            args = decode_json(args.encode("utf-8", "replace"))
        except ValueError as error:
            return {"malformed": args}, f"the arguments are not JSON: {error}"
    if not isinstance(args, dict):
        return {"malformed": args}, "the arguments are not an object"
    return args, None


def _read_usage(response: pai.ModelResponse, speech: list[Speech], calls: list[CallRequest]) -> Usage:
    found = response.usage
    usage = Usage(
        input_tokens=found.input_tokens or 0,
        output_tokens=found.output_tokens or 0,
        cache_read_tokens=found.cache_read_tokens or 0,
        cache_write_tokens=found.cache_write_tokens or 0,
        requests=1,
    )
    # Local servers often report no tokens; a window needs figures all the same.
    if not usage.output_tokens:
        said = sum(estimate_tokens(part.text) for part in speech)
        asked = sum(estimate_tokens(f"{call.name}{call.args}") for call in calls)
        usage.output_tokens, usage.estimated = said + asked, True
    return usage


# The model: found by its name, asked, streamed from; every failure is a typed error.

# By the id of a model, because models have no hash: the event loops that use it, once for each run.
_users: dict[int, list[asyncio.AbstractEventLoop]] = {}
_lending = threading.Lock()
# These refuse a conversation with calls in it if no tool is defined.
_NEEDS_TOOLS = ("anthropic", "bedrock")


# Names by which users know a provider, and the engine's names.
_ALIASES = {"google-gla": "google", "gemini": "google", "claude": "anthropic"}
_KEPT = "the session is intact."
_WINDOW = f"Set max_context_tokens and strategy='window' or 'summarise'; {_KEPT}"
_REFUSED = f"Ask something else, or use another model; {_KEPT}"
_NETWORK = "Check the network and the provider's address, then try again."
_LATER = f"Wait a moment, then try again; {_KEPT}"
# A kind of error, the particular before the general: its reason, its description, its remedy.
_TROUBLES: tuple[tuple[type[Exception], str, str, str], ...] = (
    (
        pai_errors.ModelAuthenticationError,
        "key",
        "the provider rejected the API key",
        f"Check the provider's API key in the environment; {_KEPT}",
    ),
    (
        pai_errors.ModelNotFoundError,
        "unknown_model",
        "the provider has no such model",
        f"Check the name of the model; {_KEPT}",
    ),
    (
        pai_errors.ModelContextWindowExceededError,
        "window",
        "the conversation is too long for the model's context window",
        _WINDOW,
    ),
    (
        pai_errors.ModelQuotaExceededError,
        "quota",
        "the account is out of credit",
        f"Check the account's balance and limits at the provider; {_KEPT}",
    ),
    (pai_errors.ModelRateLimitError, "rate_limit", "the provider's rate limit is reached", _LATER),
    (pai_errors.ModelOverloadedError, "overloaded", "the provider is overloaded", _LATER),
    (pai_errors.ModelTimeoutError, "connection", "the provider did not answer in time", _NETWORK),
    (pai_errors.ModelConnectionError, "connection", "the provider cannot be reached", _NETWORK),
    (pai_errors.ModelServerError, "server", "the provider failed", _LATER),
    (pai_errors.ModelUnavailableError, "server", "the provider is not available at the moment", _LATER),
)


def provider_model(model: Any) -> Model:
    """Return the engine's model for a name, or the model itself.

    Raises UsageError for an unknown name or a missing key.
    """
    if isinstance(model, Model):
        return model
    if not isinstance(model, str) or not model.strip():
        raise UsageError(f"{model!r} is not a model", remedy="Name one as provider:model, such as openai:gpt-5.")
    prefix, _, name = model.partition(":")
    known = f"{_ALIASES.get(prefix, prefix)}:{name}" if name else model
    try:
        return infer_model(known)
    except pai_errors.UserError as error:
        raise _unusable(model, error) from error
    except ImportError as error:
        raise UsageError(
            f"the model {model} needs a library that is not installed: {error}", remedy=f"Install it with: {INSTALL}"
        ) from error


def _unusable(model: str, error: Exception) -> UsageError:
    text = str(error).partition(" To try ")[0].partition(" or pass it")[0]
    if "environment variable" in text:
        variable = text.split("`")[1] if "`" in text else "the provider's key"
        return UsageError(
            f"the model {model} needs an API key, and {variable} is not set",
            remedy=f"Set {variable}, or choose another model.",
            variable=variable,
        )
    why = "" if text.startswith("Unknown model") else f": {text}"
    return UsageError(
        f"unknown model {model!r}{why}", remedy="Name a model as provider:model, such as anthropic:claude-sonnet-5-5."
    )


class ProviderEngine:
    """A provider's model with its settings; ``remake`` makes it again while another loop has it."""

    def __init__(
        self, model: Model, settings: dict[str, Any] | None = None, remake: Callable[[], Model] | None = None
    ) -> None:
        self.model = model
        self._remake = remake
        self._settings = cast("ModelSettings | None", settings)
        self._converter = Converter(model.system)

    @property
    def model_name(self) -> str:
        """The provider's name for the model."""
        return self.model.model_name

    async def __aenter__(self) -> Self:
        """Hold the provider's connections for a run.

        They belong to the event loop in which they were made, so they are released at its end: the next run may
        have another loop, and nothing is left open when a program ends.
        """
        # While another loop has the model, this one gets a model of its own.
        with _lending:
            here = asyncio.get_running_loop()
            if self._remake is not None and any(loop is not here for loop in _users.get(id(self.model), [])):
                self.model = self._remake()
            _users.setdefault(id(self.model), []).append(here)
        try:
            await self.model.__aenter__()
        except BaseException:
            self._give_back()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.model.__aexit__(kind, error, trace)
        finally:
            self._give_back()

    def _give_back(self) -> None:
        with _lending:
            users = _users[id(self.model)]
            users.remove(asyncio.get_running_loop())
            if not users:
                del _users[id(self.model)]

    async def request(self, ask: Ask) -> Reply:
        """Ask the model and wait for the whole answer. Raises ModelFailed."""
        with _typed_errors(self.model.model_name):
            response = await model_request(self.model, **self._asked(ask))
        return read_reply(response)

    async def stream(self, ask: Ask, reply: list[Reply]) -> AsyncGenerator[tuple[str, str], None]:
        """Yield pieces as (kind, text); the whole answer is put into ``reply`` at the end. Raises ModelFailed."""
        with _typed_errors(self.model.model_name):
            try:
                async with model_request_stream(self.model, **self._asked(ask)) as response:
                    async for event in response:
                        if (piece := _piece(event)) is not None:
                            yield piece
            # The engine raises this if a model cannot stream; nothing has been asked of it then.
            except NotImplementedError:
                whole = await self.request(ask)
                for part in whole.speech:
                    yield part.kind, part.text
                reply.append(whole)
                return
            reply.append(read_reply(response.get()))

    def _asked(self, ask: Ask) -> dict[str, Any]:
        """Return the arguments for the engine."""
        defined = {tool.name: _definition(tool.name, tool.schema, tool.description) for tool in ask.tools}
        ends = [] if ask.output is None else [replace(defined.pop(name), kind="output") for name in ask.output.ways]
        tools = list(defined.values())
        if not tools and not ends and self.model.system.startswith(_NEEDS_TOOLS):
            tools = _former_tools(ask.messages)
        # The engine takes instructions from the last request only.
        messages = self._converter.convert(ask.messages)
        last = messages[-1] if messages else None
        if ask.instructions and isinstance(last, pai.ModelRequest):
            messages[-1] = replace(last, instructions=ask.instructions)
        parameters = ModelRequestParameters(
            function_tools=tools,
            output_mode="tool" if ends else "text",
            output_tools=ends,
            allow_text_output=ask.output is None or ask.output.allows_text,
        )
        return {"messages": messages, "model_settings": self._settings, "model_request_parameters": parameters}


def _former_tools(messages: list[dict[str, Any]]) -> list[ToolDefinition]:
    """Return stand-ins for tools that a conversation used and the agent no longer has."""
    blocks = [b for m in messages if isinstance(m["content"], list) for b in m["content"]]
    names = dict.fromkeys(b["name"] for b in blocks if b["type"] == "tool_use")
    schema = {"type": "object", "properties": {}}
    return [_definition(name, schema, "Not available.") for name in names]


def _definition(name: str, schema: dict[str, Any], description: str) -> ToolDefinition:
    return ToolDefinition(name=name, parameters_json_schema=schema, description=description)


def _piece(event: Any) -> tuple[str, str] | None:
    match event:
        case pai.PartStartEvent(part=pai.TextPart(content=text)):
            kind = "text"
        case pai.PartStartEvent(part=pai.ThinkingPart(content=text)):
            kind = "thinking"
        case pai.PartDeltaEvent(delta=pai.TextPartDelta(content_delta=text)):
            kind = "text"
        case pai.PartDeltaEvent(delta=pai.ThinkingPartDelta(content_delta=text)):
            kind = "thinking"
        case _:
            return None
    return (kind, plain_text(text)) if isinstance(text, str) and text else None


@contextlib.contextmanager
def _typed_errors(model: str) -> Iterator[None]:
    try:
        yield
    except HoldfastError:
        raise
    except Exception as error:
        known = (rest for kind, *rest in _TROUBLES if isinstance(error, kind))
        is_refused = isinstance(error, pai_errors.ModelAPIError)
        general = ("refused", "the provider refused the request", _REFUSED) if is_refused else ("failed", "", None)
        reason, words, remedy = next(known, general)
        told = (
            f"{words} ({said})" if words and (said := _said_by_provider(error)) else words or _brief(str(error), error)
        )
        if remedy == _LATER and (wait_s := getattr(error, "retry_after", None)):
            remedy = f"Wait {wait_s:.0f} s, then try again; {_KEPT}"
        raise ModelFailed(f"{model.rstrip(':')}: {told}", remedy=remedy, reason=reason, model=model) from error


def _said_by_provider(error: Exception) -> str:
    """Return the status and text of the provider's answer; without an answer, the text of the error."""
    status, found = getattr(error, "status_code", None), getattr(error, "body", None)
    if status is None:
        return _brief(str(error), error)
    while isinstance(found, dict):
        found = found.get("error") or found.get("message") or found.get("detail")
    return f"{status}: {_brief(found, error)}" if isinstance(found, str) and found.strip() else str(status)


def _brief(text: str, error: Exception) -> str:
    line = " ".join(text.split()).rstrip(".") or type(error).__name__
    return line if len(line) <= 500 else line[:499] + "…"
