"""The model: found by its name, asked, streamed from; whatever goes wrong is a typed error."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, cast

from pydantic_ai import exceptions as pai_errors
from pydantic_ai import messages as pai
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from holdfast.agent._messages import Converter, read_reply
from holdfast.agent._reply import Ask, Reply
from holdfast.agent._tool_results import plain_text
from holdfast.errors import HoldfastError, ModelFailed, UsageError

Resolver = Callable[[str], Any]
# By the id of a model, because models have no hash: the event loops that use it, once for each run.
_users: dict[int, list[asyncio.AbstractEventLoop]] = {}
_lending = threading.Lock()
# These refuse a conversation with calls in it if no tool is defined.
_NEEDS_TOOLS = ("anthropic", "bedrock")


def _embedded(name: str) -> Any:
    from holdfast.agent._embedded_model import local_model

    return local_model(name)


_resolvers: dict[str, Resolver] = {"local": _embedded}
# Names under which users know a provider, and what the engine calls it.
_ALIASES = {"google-gla": "google", "gemini": "google", "claude": "anthropic"}
_REMEDIES: tuple[tuple[type[Exception], str, str], ...] = (
    (
        pai_errors.ModelAuthenticationError,
        "key",
        "Check the provider's API key in the environment; the session is intact.",
    ),
    (
        pai_errors.ModelNotFoundError,
        "unknown_model",
        "Check the name of the model; the session is intact.",
    ),
    (
        pai_errors.ModelContextWindowExceededError,
        "window",
        "Set max_context_tokens and strategy='window' or 'summarise'; the session is intact.",
    ),
    (
        pai_errors.ModelRateLimitError,
        "rate_limit",
        "Wait a little, then run the agent again; the session is intact.",
    ),
    (
        pai_errors.ModelConnectionError,
        "connection",
        "Check the network and the provider's address, then run the agent again.",
    ),
)


def register_model(prefix: str, resolver: Resolver) -> None:
    """Let ``resolver(name)`` make the model for names such as ``prefix:name``."""
    _resolvers[prefix] = resolver


def resolve_model(model: Any) -> Model:
    """The engine's model for a name, or the model itself.

    Raises UsageError, with a remedy, for a name that nobody knows and for a missing API key.
    """
    if isinstance(model, Model):
        return model
    if not isinstance(model, str) or not model.strip():
        raise UsageError(
            f"{model!r} is not a model", remedy="Name one as provider:model, such as openai:gpt-5."
        )
    prefix, _, name = model.partition(":")
    if prefix in _resolvers:
        return cast("Model", _resolvers[prefix](name))
    known = f"{_ALIASES.get(prefix, prefix)}:{name}" if name else model
    try:
        return infer_model(known)
    except pai_errors.UserError as error:
        raise _unusable(model, error) from error
    except ImportError as error:
        raise UsageError(
            f"the model {model} needs a library that is not installed: {error}",
            remedy="Install it with: pip install 'holdfast[agent]'",
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
    return UsageError(
        f"unknown model {model!r}: {text}",
        remedy="Name a model as provider:model, such as anthropic:claude-sonnet-4-5.",
    )


class Engine:
    """One model with its settings, for one run at a time.

    ``remake`` makes the model once more: for a run in an event loop while another loop has it.
    """

    def __init__(
        self,
        model: Model,
        settings: dict[str, Any] | None = None,
        remake: Callable[[], Model] | None = None,
    ) -> None:
        self.model = model
        self._remake = remake
        self._settings = cast("ModelSettings | None", settings)
        self._converter = Converter()

    @property
    def name(self) -> str:
        """The model's name."""
        return self.model.model_name

    async def __aenter__(self) -> Self:
        """Hold the provider's connections for a run.

        They belong to one event loop, so they are given back at its end: the next run may have
        another loop, and nothing is left open when a program ends.
        """
        with _lending:
            if self._remake is not None and self._is_elsewhere():
                self.model = self._remake()
            _users.setdefault(id(self.model), []).append(asyncio.get_running_loop())
        try:
            await self.model.__aenter__()
        except BaseException:
            self._give_back()
            raise
        return self

    def _is_elsewhere(self) -> bool:
        here = asyncio.get_running_loop()
        return any(loop is not here for loop in _users.get(id(self.model), []))

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
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
        with _typed_errors(self.name):
            response = await model_request(
                self.model,
                self._messages(ask),
                model_settings=self._settings,
                model_request_parameters=self._parameters(ask),
            )
        return read_reply(response)

    async def stream(self, ask: Ask, reply: list[Reply]) -> AsyncGenerator[tuple[str, str], None]:
        """Pieces as they come, as (kind, text); the whole answer is put into ``reply`` at the end.

        A model that cannot stream gives its answer in one piece. Raises ModelFailed.
        """
        with _typed_errors(self.name):
            stream = model_request_stream(
                self.model,
                self._messages(ask),
                model_settings=self._settings,
                model_request_parameters=self._parameters(ask),
            )
            try:
                async with stream as response:
                    async for event in response:
                        piece = _piece(event)
                        if piece is not None:
                            yield piece
            except NotImplementedError:
                whole = await self.request(ask)
                for part in whole.speech:
                    yield part.kind, part.text
                reply.append(whole)
                return
            reply.append(read_reply(response.get()))

    def _parameters(self, ask: Ask) -> ModelRequestParameters:
        tools = list(ask.tools)
        if not tools and self.model.system.startswith(_NEEDS_TOOLS):
            tools = _former_tools(ask.messages)
        return ModelRequestParameters(function_tools=tools, allow_text_output=True)

    def _messages(self, ask: Ask) -> list[pai.ModelMessage]:
        messages = self._converter.convert(ask.messages)
        last = messages[-1] if messages else None
        if ask.instructions and isinstance(last, pai.ModelRequest):
            messages[-1] = replace(last, instructions=ask.instructions)
        return messages


def _former_tools(messages: list[dict[str, Any]]) -> list[ToolDefinition]:
    """Stand-ins for tools that a conversation used and the agent no longer has."""
    blocks = [b for m in messages if isinstance(m["content"], list) for b in m["content"]]
    names = dict.fromkeys(b["name"] for b in blocks if b["type"] == "tool_use")
    schema = {"type": "object", "properties": {}}
    return [
        ToolDefinition(name=name, parameters_json_schema=schema, description="Not available.")
        for name in names
    ]


def _piece(event: Any) -> tuple[str, str] | None:
    if isinstance(event, pai.PartStartEvent):
        part: Any = event.part
        text = getattr(part, "content", None)
    elif isinstance(event, pai.PartDeltaEvent):
        part = event.delta
        text = getattr(part, "content_delta", None)
    else:
        return None
    kinds = {
        pai.TextPart: "text",
        pai.TextPartDelta: "text",
        pai.ThinkingPart: "thinking",
        pai.ThinkingPartDelta: "thinking",
    }
    kind = kinds.get(type(part))
    return (kind, plain_text(text)) if kind and isinstance(text, str) and text else None


@contextlib.contextmanager
def _typed_errors(model: str) -> Iterator[None]:
    try:
        yield
    except HoldfastError:
        raise
    except Exception as error:
        raise _failure(model, error) from error


def _failure(model: str, error: Exception) -> ModelFailed:
    for kind, reason, remedy in _REMEDIES:
        if isinstance(error, kind):
            return ModelFailed(
                f"{model}: {_brief(error)}", remedy=remedy, reason=reason, model=model
            )
    reason = "refused" if isinstance(error, pai_errors.ModelAPIError) else "failed"
    return ModelFailed(f"{model}: {_brief(error)}", reason=reason, model=model)


def _brief(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 500 else text[:499] + "…"
