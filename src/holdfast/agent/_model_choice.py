"""The model of a conversation for which none is given, and the reason. Loads no engine, and nothing that runs one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import msgspec

from holdfast._config import Configuration
from holdfast.errors import ModelFailed, UsageError

INSTALL = "pip install 'holdfast[agent]'"
"""The command that installs the library of the providers' models."""

# A key in the environment, and the model that it selects.
_KEYS = (
    ("ANTHROPIC_API_KEY", "anthropic:claude-sonnet-5-5"),
    ("OPENAI_API_KEY", "openai:gpt-5"),
    ("GEMINI_API_KEY", "google:gemini-flash-latest"),
    ("GOOGLE_API_KEY", "google:gemini-flash-latest"),
)
_COMPATIBLE = "openai"
_OLLAMA = "ollama"
GUIDE = "guide"
_GUIDE_ANSWERS = "the guide answers; it is part of Holdfast and not a language model"
_FOR_A_MODEL = "To talk to a model, set ANTHROPIC_API_KEY or OPENAI_API_KEY, start Ollama, or use --model."
_WAIT_S = 10
_CHANGE = "change it with --model, HOLDFAST_MODEL or `model` in holdfast.toml"


class ModelChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The model that answers, and the reason; nothing is loaded before ``resolve``."""

    name: str
    """The value for ``--model``; empty if the server is asked for its model."""
    reason: str
    base_url: str | None = None
    api_key: str | None = None
    lacks: str = ""
    """A model that was found but lacks its library; the guide answers meanwhile."""

    @property
    def is_local(self) -> bool:
        """True for the embedded model."""
        return self.name.partition(":")[0] == "local"

    @property
    def is_guide(self) -> bool:
        """True for the guide, which is not a language model."""
        return self.name.partition(":")[0] == GUIDE

    @property
    def needs_engine(self) -> bool:
        """True if the model that was requested or found needs the extra ``agent``, which is missing."""
        return bool(self.lacks) or not (self.is_guide or _has_engine())

    def explain(self) -> str:
        """Return one line: which model answers, why, and how to change that."""
        if self.lacks:
            missing = f"the library that talks to it is not installed: {INSTALL}"
            return f"{self.lacks}, but {missing}. Until then {_GUIDE_ANSWERS}."
        if self.is_guide:
            return f"{_GUIDE_ANSWERS[0].upper()}{_GUIDE_ANSWERS[1:]} ({self.reason}). {_FOR_A_MODEL}"
        if self.is_local:
            return (
                f"Model: {self.name or 'local'}, embedded in this program ({self.reason}). It is"
                f" tiny: good for trying things out, not for relying on. {_FOR_A_MODEL}"
            )
        server = f" at {self.base_url}" if self.base_url else ""
        return f"Model: {self.name or 'the first'}{server} ({self.reason}; {_CHANGE})."

    def explain_briefly(self) -> str:
        """Return which model answers and why, short enough for a line of a terminal."""
        if self.lacks:
            return self.explain()
        if self.is_guide:
            return f"The guide answers; it is not a language model ({self.reason})"
        return f"Model: {self.name or 'the first'} ({self.reason})"

    def named(self) -> ModelChoice:
        """Return this choice with a name: a server that was given without one is asked for its models."""
        if self.name or self.base_url is None:
            return self
        name = f"{_COMPATIBLE}:{_first_model(self.base_url, self.api_key)}"
        return msgspec.structs.replace(self, name=name)

    def resolve(self) -> Any:
        """Return the model itself. Raises UsageError for an unknown one or a missing key."""
        if self.base_url is not None:
            # The names of Ollama's models contain a colon themselves.
            return _compatible(self.named().name.partition(":")[2], self.base_url, self.api_key)
        from holdfast.agent._engine import resolve_model

        return resolve_model(self.name)


def choose_model(
    given: str | None,
    settings: Configuration,
    environment: Mapping[str, str] | None = None,
    *,
    reason: str = "as requested",
) -> ModelChoice:
    """Return the model: as given, as configured, by a key in the environment, by a server here, else the guide.

    The servers get a fifth of a second to answer, unless the setting ``model_servers`` is false.
    """
    environment = os.environ if environment is None else environment
    if given:
        return _asked_for(given, reason, settings, environment)
    if configured := settings.get("model"):
        return _asked_for(configured, f"from {settings.origin('model')}", settings, environment)
    if base_url := settings.get("base_url"):
        return _at(base_url, "", f"base_url from {settings.origin('base_url')}", environment)
    asks = settings.get("model_servers", True)
    found = _from_environment(environment) or (_from_servers(environment) if asks else None)
    if found is None:
        servers = "no model server runs here" if asks else "model servers are not asked"
        return ModelChoice(name=GUIDE, reason=f"no API key is set and {servers}")
    if not _has_engine():
        return ModelChoice(name=GUIDE, reason=found.reason, lacks=found.reason)
    return found


def _has_engine() -> bool:
    return find_spec("pydantic_ai") is not None


def _from_servers(environment: Mapping[str, str]) -> ModelChoice | None:
    from holdfast.agent._model_servers import best_model, served_models

    best = best_model(served_models(environment))
    if best is None:
        return None
    prefix = _OLLAMA if best.server == "Ollama" else _COMPATIBLE
    # Without a key: it must not get those of providers.
    return ModelChoice(name=f"{prefix}:{best.name}", reason=f"{best.server} runs on this machine", base_url=best.url)


def _asked_for(name: str, reason: str, settings: Configuration, environment: Mapping[str, str]) -> ModelChoice:
    prefix, colon, rest = name.partition(":")
    base_url = settings.get("base_url") or environment.get("OPENAI_BASE_URL")
    if base_url and prefix not in ("local", GUIDE) and (not colon or prefix == _COMPATIBLE):
        return _at(base_url, f"{_COMPATIBLE}:{rest or prefix}", reason, environment)
    if prefix == _OLLAMA and rest:
        from holdfast.agent._model_servers import ollama_root

        return _at(f"{ollama_root(environment)}/v1", name, reason, environment)
    return ModelChoice(name=name, reason=reason)


def _from_environment(environment: Mapping[str, str]) -> ModelChoice | None:
    # The key of OpenAI may be meant for a compatible server: then its address decides.
    for variable, name in _KEYS:
        if not environment.get(variable):
            continue
        if variable == "OPENAI_API_KEY" and environment.get("OPENAI_BASE_URL"):
            break
        return ModelChoice(name=name, reason=f"{variable} is set")
    if environment.get("OPENAI_BASE_URL"):
        return _at(environment["OPENAI_BASE_URL"], "", "OPENAI_BASE_URL is set", environment)
    return None


def _at(base_url: str, name: str, reason: str, environment: Mapping[str, str]) -> ModelChoice:
    if not base_url.startswith(("http://", "https://")):
        raise UsageError(f"{base_url!r} is not the address of a server", remedy="Begin it with http:// or https://.")
    key = environment.get("OPENAI_API_KEY") or None
    return ModelChoice(name=name, reason=reason, base_url=base_url.rstrip("/"), api_key=key)


def _compatible(name: str, base_url: str, api_key: str | None) -> Any:
    """Return a model of a server with OpenAI's API. Raises UsageError if the engine is not installed."""
    try:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider
    except ImportError as error:
        raise UsageError(
            f"the agent's engine is not installed ({error.name})", remedy=f"Install it with: {INSTALL}"
        ) from error
    # A server without keys accepts any; the client insists on one.
    return OpenAIChatModel(name, provider=OpenAIProvider(base_url=base_url, api_key=api_key or "-"))


def _first_model(base_url: str, api_key: str | None) -> str:
    from urllib.error import URLError
    from urllib.request import Request, urlopen

    request = Request(f"{base_url}/models")  # noqa: S310 - http or https, checked before
    if api_key:
        request.add_header("Authorization", f"Bearer {api_key}")
    try:
        with urlopen(request, timeout=_WAIT_S) as answer:  # noqa: S310 - checked to be http or https
            listed: Any = msgspec.json.decode(answer.read(1 << 20))
        return str(listed["data"][0]["id"])
    except (URLError, OSError) as error:
        cause = getattr(error, "reason", error)
        raise ModelFailed(
            f"the server at {base_url} does not answer: {getattr(cause, 'strerror', None) or cause}",
            remedy="Check that it runs and that its address is right.",
            reason="connection",
        ) from error
    except (msgspec.MsgspecError, LookupError, TypeError) as error:
        raise UsageError(
            f"the server at {base_url} does not tell which models it has", remedy="Name one with --model."
        ) from error
