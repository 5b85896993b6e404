"""Engines, found by the name of a model. A provider's library is loaded only when needed."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable
from importlib import import_module
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

from holdfast.agent._model_choice import INSTALL
from holdfast.agent._result import Ask, Reply
from holdfast.errors import UsageError

Resolver = Callable[[str], Any]


@runtime_checkable
class Engine(Protocol):
    """A model, or a substitute for one, that answers a conversation in neutral form; entered for one run at a time.

    If it has ``tools``, its agent may use them beside those that it was given.
    """

    @property
    def model_name(self) -> str:
        """The name under which its answers are recorded."""

    async def request(self, ask: Ask) -> Reply:
        """Return the whole answer. Raises ModelFailed."""

    def stream(self, ask: Ask, reply: list[Reply]) -> AsyncGenerator[tuple[str, str], None]:
        """Yield pieces as (kind, text); the whole answer is put into ``reply`` at the end. Raises ModelFailed."""

    async def __aenter__(self) -> Self:
        """Acquire what a run needs."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release it."""


class LateModel:
    """A model that is made once, when it is first needed, in whichever thread that happens."""

    def __init__(self, name: str, make: Callable[[], Any]) -> None:
        self.name = name
        self._make = make
        self._made: list[Any] = []
        # Sessions begin in threads: an embedded model must not be loaded twice.
        self._making = threading.Lock()

    @property
    def model_name(self) -> str:
        """The name under which its answers are recorded."""
        return str(self._made[0].model_name) if self._made else self.name.partition(":")[2] or self.name

    def get(self) -> Any:
        """Return the model; the first call may take a while and raise UsageError."""
        with self._making:
            if not self._made:
                self._made.append(self._make())
            return self._made[0]


def engine_of(model: Any, settings: dict[str, Any] | None = None, remake: Callable[[], Any] | None = None) -> Engine:
    """Return the engine of a resolved model; ``remake`` makes a provider's model once more."""
    if isinstance(model, LateModel):
        model = model.get()
    if isinstance(model, Engine):
        return model
    from holdfast.agent._providers import ProviderEngine

    return ProviderEngine(model, settings, remake)


def register_model(prefix: str, resolver: Resolver) -> None:
    """Let ``resolver(name)`` make the model, or an engine of your own, for names such as ``prefix:name``."""
    _resolvers[prefix] = resolver


def resolve_model(model: Any) -> Any:
    """Return the model for a name, or the given model itself. Raises UsageError, also for a missing key."""
    if isinstance(model, (Engine, LateModel)):
        return model
    if isinstance(model, str):
        prefix, _, name = model.partition(":")
        if prefix in _resolvers:
            return _resolvers[prefix](name)
    try:
        from holdfast.agent._providers import provider_model
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the model {model} needs the package {error.name}, which is not installed",
            remedy=f"Install it with: {INSTALL}",
        ) from error
    return provider_model(model)


def _from(module: str, function: str) -> Resolver:
    def resolve(name: str) -> Any:
        return getattr(import_module(module), function)(name)

    return resolve


_resolvers: dict[str, Resolver] = {
    "local": _from("holdfast.agent._embedded_model", "local_model"),
    "guide": _from("holdfast.agent.guide", "guide_model"),
}
