"""Which model a conversation gets when nobody hands one over, and why."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast._config import Configuration
from holdfast.errors import ModelFailed, UsageError

if TYPE_CHECKING:
    from pydantic_ai.models import Model

# A key in the environment, and the model that it opens.
_KEYS = (
    ("ANTHROPIC_API_KEY", "anthropic:claude-sonnet-4-5"),
    ("OPENAI_API_KEY", "openai:gpt-5"),
    ("GEMINI_API_KEY", "google:gemini-flash-latest"),
    ("GOOGLE_API_KEY", "google:gemini-flash-latest"),
)
_COMPATIBLE = "openai"
_OLLAMA_PORT = 11434
_WAIT_S = 10
_CHANGE = "change it with --model, HOLDFAST_MODEL or `model` in holdfast.toml"


class ModelChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A model that was chosen and the reason; nothing is loaded before ``resolve``."""

    name: str
    """As ``--model`` would take it; empty if the server is to be asked for its model."""
    reason: str
    base_url: str | None = None
    api_key: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether it is the embedded model."""
        return self.name.partition(":")[0] == "local"

    def explain(self) -> str:
        """One honest line: which model it is, why, and how to change that."""
        if self.is_local:
            return (
                f"Model: {self.name or 'local'}, embedded in this program ({self.reason}). It is"
                " tiny: good to try things out, not to rely on. For a better one set"
                " ANTHROPIC_API_KEY or OPENAI_API_KEY, or use --model."
            )
        server = f" at {self.base_url}" if self.base_url else ""
        return f"Model: {self.name or 'the first'}{server} ({self.reason}; {_CHANGE})."

    def named(self) -> ModelChoice:
        """This choice with a name: a server that was given without one is asked what it has."""
        if self.name or self.base_url is None:
            return self
        name = f"{_COMPATIBLE}:{_first_model(self.base_url, self.api_key)}"
        return msgspec.structs.replace(self, name=name)

    def resolve(self) -> Model:
        """The model itself. Raises UsageError for an unknown one or a missing key."""
        if self.base_url is not None:
            chosen = self.named()
            return _compatible(chosen.name.rpartition(":")[2], self.base_url, self.api_key)
        from holdfast.agent._engine import resolve_model

        return resolve_model(self.name)


def choose_model(
    given: str | None,
    settings: Configuration,
    environment: Mapping[str, str] | None = None,
) -> ModelChoice:
    """What was given, else the configuration, else a key in the environment, else the local one."""
    environment = os.environ if environment is None else environment
    if given:
        return _asked_for(given, "as asked for", settings, environment)
    configured = settings.get("model")
    if configured:
        reason = f"from {settings.origin('model')}"
        return _asked_for(configured, reason, settings, environment)
    if settings.get("base_url"):
        reason = f"base_url from {settings.origin('base_url')}"
        return _at(settings.get("base_url"), "", reason, environment)
    return _from_environment(environment) or ModelChoice(
        name="local:smollm2", reason="no API key is set"
    )


def _asked_for(
    name: str, reason: str, settings: Configuration, environment: Mapping[str, str]
) -> ModelChoice:
    prefix, colon, rest = name.partition(":")
    base_url = settings.get("base_url") or environment.get("OPENAI_BASE_URL")
    if prefix == "local":
        return ModelChoice(name=name, reason=reason)
    if base_url and (not colon or prefix == _COMPATIBLE):
        return _at(base_url, f"{_COMPATIBLE}:{rest or prefix}", reason, environment)
    if prefix == "ollama" and rest:
        return _at(_ollama_url(environment), f"ollama:{rest}", reason, environment)
    return ModelChoice(name=name, reason=reason)


def _from_environment(environment: Mapping[str, str]) -> ModelChoice | None:
    for variable, name in _KEYS:
        if not environment.get(variable):
            continue
        if variable == "OPENAI_API_KEY" and environment.get("OPENAI_BASE_URL"):
            break
        return ModelChoice(name=name, reason=f"{variable} is set")
    if environment.get("OPENAI_BASE_URL"):
        return _at(environment["OPENAI_BASE_URL"], "", "OPENAI_BASE_URL is set", environment)
    for variable in ("OLLAMA_BASE_URL", "OLLAMA_HOST"):
        if environment.get(variable):
            return _at(_ollama_url(environment), "", f"{variable} is set", environment)
    return None


def _at(base_url: str, name: str, reason: str, environment: Mapping[str, str]) -> ModelChoice:
    if not base_url.startswith(("http://", "https://")):
        raise UsageError(
            f"{base_url!r} is not the address of a server",
            remedy="Begin it with http:// or https://.",
        )
    key = environment.get("OPENAI_API_KEY") or None
    return ModelChoice(name=name, reason=reason, base_url=base_url.rstrip("/"), api_key=key)


def _ollama_url(environment: Mapping[str, str]) -> str:
    given = environment.get("OLLAMA_BASE_URL") or environment.get("OLLAMA_HOST") or "127.0.0.1"
    if "://" not in given:
        host, _, port = given.partition(":")
        host = "127.0.0.1" if host == "0.0.0.0" else host  # noqa: S104 - where to knock, not to listen
        given = f"http://{host}:{port or _OLLAMA_PORT}"
    given = given.rstrip("/")
    return given if given.endswith("/v1") else f"{given}/v1"


def _compatible(name: str, base_url: str, api_key: str | None) -> Model:
    try:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider
    except ImportError as error:
        raise UsageError(
            f"the agent's engine is not installed ({error.name})",
            remedy="Install it with: pip install 'holdfast[agent]'",
        ) from error
    # A server without keys takes any; the client insists on one.
    return OpenAIChatModel(name, provider=OpenAIProvider(base_url=base_url, api_key=api_key or "-"))


def _first_model(base_url: str, api_key: str | None) -> str:
    """The first model that a server offers."""
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
        raise ModelFailed(
            f"the server at {base_url} does not answer: {error}",
            remedy="Check that it runs and that its address is right.",
            reason="connection",
        ) from error
    except (msgspec.MsgspecError, LookupError, TypeError) as error:
        raise UsageError(
            f"the server at {base_url} does not tell which models it has",
            remedy="Name one with --model.",
        ) from error
