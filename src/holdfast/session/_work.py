"""The function that a step calls, as the record knows it: its name, arguments and result, and when to try again."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, get_type_hints

import msgspec

from holdfast.errors import UsageError

Work = Callable[..., Any]  # what a step does


class Retry(msgspec.Struct, frozen=True):
    """How often a step is tried in all, how long it waits in between, and after which errors.

    Attempts are counted on record: a process that comes later goes on counting, and waits only for
    what is left of the time.
    """

    attempts: int
    wait_s: float = 0.0
    on: tuple[type[BaseException], ...] = (Exception,)

    def __post_init__(self) -> None:
        """Raise UsageError for what could never work."""
        if isinstance(self.attempts, bool) or not isinstance(self.attempts, int):
            raise UsageError(f"attempts is a number, not {self.attempts!r}")
        if self.attempts < 1:
            raise UsageError(f"attempts is at least 1, not {self.attempts}")
        if not isinstance(self.wait_s, int | float) or not 0 <= self.wait_s < 1e9:
            raise UsageError(f"wait_s is a number of seconds, not {self.wait_s!r}")
        kinds = self.on if isinstance(self.on, tuple) else (self.on,)
        if not all(isinstance(one, type) and issubclass(one, BaseException) for one in kinds):
            raise UsageError(f"on is a tuple of classes of exceptions, not {self.on!r}")

    def takes(self, kinds: list[str]) -> bool:
        """Whether an error whose class has these names is one to try again after; time-outs only if one is named."""
        named = [name_of_class(one) for one in self.on]
        return any(one in kinds for one in named) and (not is_timeout(kinds) or is_timeout(named))


def encode_arguments(name: str, given: Any) -> bytes:
    """Return the arguments of a step as bytes that are always the same. Raises UsageError if they are no data."""
    try:
        return msgspec.json.encode(given, enc_hook=plain_object, order="deterministic")
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"the arguments of {name} cannot be written as JSON: {error}",
            remedy="Give the step plain data, or a `key` made from its arguments.",
        ) from error


def name_of(fn: Work) -> str:
    """Return the name under which a function is recorded."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    found = getattr(fn, "__qualname__", None) or getattr(type(fn), "__qualname__", "step")
    return str(found).replace("<locals>.", "")


def name_of_class(kind: type) -> str:
    """Return the name under which a class is recorded."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def is_timeout(kinds: list[str]) -> bool:
    """Whether one of these classes is that of a time-out; many libraries have one of their own."""
    return any("Timeout" in kind.rpartition(".")[2] for kind in kinds)


def bound(fn: Work, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Arguments by their names, so that positional and named ones are the same."""
    signature, _, is_plain = _look_at(fn)
    if signature is None:
        return [args, kwargs]
    try:
        if is_plain and not kwargs and len(args) == len(signature.parameters):
            given = dict(zip(signature.parameters, args, strict=True))
        else:
            given = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        raise UsageError(f"{name_of(fn)} cannot be called so: {error}") from error
    from holdfast.session.session import Session

    # Defaults are not applied: a parameter added later must not make old steps other ones.
    return {
        name: value
        for at, (name, value) in enumerate(given.items())
        if not isinstance(value, Session) and not (at == 0 and name in ("self", "cls"))
    }


def as_returned(value: Any, fn: Work) -> Any:
    """What was stored, as the type that the function says it returns, where it names one."""
    kind = _look_at(fn).kind
    if kind is None:
        return value
    try:
        validate = getattr(kind, "model_validate", None)
        return validate(value) if validate else msgspec.convert(value, kind, str_keys=True)
    except (msgspec.ValidationError, TypeError, ValueError):
        return value


def plain_object(value: Any) -> Any:
    """Models of Pydantic have a plain form; of anything else a text would differ every time."""
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json")
    raise TypeError(f"{type(value).__name__} is no plain data")


class _Look(NamedTuple):
    signature: inspect.Signature | None
    """None for a function written in C."""
    kind: Any
    """The type that it says it returns, if it names one."""
    is_plain: bool
    """Whether every parameter may be given by its place, one argument each."""


def _look_at(fn: Work) -> _Look:
    try:
        return _known(fn)
    except TypeError:  # a callable that cannot be hashed
        return _known.__wrapped__(fn)


@functools.lru_cache(512)  # a lambda made anew each time is not kept long
def _known(fn: Work) -> _Look:
    signature = kind = None
    with contextlib.suppress(TypeError, ValueError):
        signature = inspect.signature(fn)
    while isinstance(fn, functools.partial):
        fn = fn.func
    if getattr(fn, "__annotations__", {}).get("return"):
        with contextlib.suppress(Exception):  # a name that is only there for a type checker
            kind = get_type_hints(fn).get("return")
    plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
    is_plain = signature is not None and all(one.kind is plain for one in signature.parameters.values())
    return _Look(signature, None if kind in (Any, type(None)) else kind, is_plain)
