"""The function of a step, as it is recorded: its name, arguments and result, and its retries."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, get_type_hints

import msgspec

from holdfast.errors import OutcomeUnknown, UsageError
from holdfast.session._lifetime import was_cancelled

Work = Callable[..., Any]  # the function of a step


class Retry(msgspec.Struct, frozen=True):
    """The retry policy of a step: the total number of attempts, the delays, and the errors that are retried.

    Attempts are recorded: a later process goes on counting, and waits only for the rest of the time.
    """

    attempts: int
    wait_s: float = 0.0
    on: tuple[type[BaseException], ...] | type[BaseException] = (Exception,)

    def __post_init__(self) -> None:
        """Raise UsageError for values that could never work."""
        if isinstance(self.attempts, bool) or not isinstance(self.attempts, int):
            raise UsageError(f"attempts is a number, not {self.attempts!r}")
        if self.attempts < 1:
            raise UsageError(f"attempts is at least 1, not {self.attempts}")
        if not isinstance(self.wait_s, int | float) or not 0 <= self.wait_s < 1e9:
            raise UsageError(f"wait_s is a number of seconds, not {self.wait_s!r}")
        if not all(isinstance(one, type) and issubclass(one, BaseException) for one in self._kinds()):
            raise UsageError(f"on is a class of exceptions or a tuple of them, not {self.on!r}")

    def takes(self, kinds: list[str]) -> bool:
        """Return whether to try again after an error whose class has these names; time-outs only if one is named."""
        named = [name_of_class(one) for one in self._kinds()]
        return any(one in kinds for one in named) and (not is_timeout(kinds) or is_timeout(named))

    def _kinds(self) -> tuple[type[BaseException], ...]:
        return self.on if isinstance(self.on, tuple) else (self.on,)


# Most values are of these, and need no closer look.
_PLAIN = frozenset([bool, dict, float, int, list, str, tuple, type(None)])
_RECEIVERS = ("self", "cls")


class Rerun:
    """The value that a function given as ``unknown`` returns to run the step again."""

    def __repr__(self) -> str:
        return "RERUN"


RERUN = Rerun()


def encode_arguments(name: str, given: Any) -> bytes:
    """Return the arguments of a step as bytes that are always the same. Raises UsageError if they are not data."""
    try:
        encoded = _encoder.encode(given)
        if b"null" in encoded:  # which also stands for NaN and infinity
            json.dumps(msgspec.to_builtins(given, str_keys=True, enc_hook=plain_object), allow_nan=False)
        return encoded
    except Exception as error:  # the arguments' own code may raise anything
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
    """Return whether one of these classes is a time-out; many libraries have their own."""
    return any("Timeout" in kind.rpartition(".")[2] for kind in kinds)


def classify_error(error: BaseException) -> tuple[list[str], bool]:
    """Return the names of an exception's classes, and whether the work was abandoned, so that it may have taken effect.

    The names are those of its class and the bases, then those of the members of a group, any of which may be the
    one that abandoned the work.
    """
    each = [error, *_members(error)]
    kinds = dict.fromkeys(name_of_class(kind) for one in each for kind in type(one).__mro__ if kind is not object)
    given_up = (not isinstance(one, Exception) or was_cancelled(one) or isinstance(one, OutcomeUnknown) for one in each)
    return list(kinds), any(given_up)


def _members(error: BaseException) -> Iterator[BaseException]:
    for one in error.exceptions if isinstance(error, BaseExceptionGroup) else ():
        yield one
        yield from _members(one)


def bound(fn: Work, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return arguments by name, so that positional and named ones are the same, also for a partial function."""
    while isinstance(fn, functools.partial):
        args, kwargs = (*fn.args, *args), {**fn.keywords, **kwargs}
        fn = fn.func
    look = _look_at(fn)
    if look.signature is None:
        return [args, kwargs]
    places = look.places
    if places is not None and not kwargs and len(args) == len(places) and _PLAIN.issuperset(map(type, args)):
        return dict(zip(places, args, strict=True))
    try:
        given = look.signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        raise UsageError(f"{name_of(fn)} cannot be called so: {error}") from error
    from holdfast.session.session import Session

    # Defaults are not applied: a parameter added later must not change the identity of old steps.
    return {
        name: value
        for at, (name, value) in enumerate(given.items())
        if not isinstance(value, Session) and not (at == 0 and name in _RECEIVERS)
    }


def as_returned(value: Any, fn: Work) -> Any:
    """Return a stored value as the annotated return type of the function, if it has one."""
    kind = _look_at(fn).kind
    if kind is None:
        return value
    try:
        return msgspec.convert(value, kind, str_keys=True, dec_hook=_validated)
    except (msgspec.ValidationError, TypeError, ValueError):
        return value


def _validated(kind: Any, value: Any) -> Any:
    return kind.model_validate(value) if hasattr(kind, "model_validate") else value


def plain_object(value: Any) -> Any:
    """Return the plain form of a Pydantic model; the text of any other object would differ every time."""
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json", by_alias=True, round_trip=True)  # the form that the model accepts again
    raise TypeError(f"{type(value).__name__} is no plain data")


# Encodes what is no plain data as its plain form, the same every time.
_encoder = msgspec.json.Encoder(enc_hook=plain_object, order="deterministic")


def is_async(fn: Work) -> bool:
    """Return whether a call of it has to be awaited."""
    return _look_at(fn).is_async


def is_lazy(fn: Work) -> bool:
    """Return whether it is a generator, whose call does nothing yet."""
    return _look_at(fn).is_lazy


def is_undone(value: Any) -> bool:
    """Return whether a function returned something that has to be run first instead of a result."""
    if type(value) in _PLAIN:
        return False
    return inspect.isawaitable(value) or inspect.isgenerator(value) or inspect.isasyncgen(value)


class _Look(NamedTuple):
    signature: inspect.Signature | None
    """None for a function written in C."""
    kind: Any
    """The annotated return type, if there is one."""
    places: tuple[str, ...] | None
    """The parameters, if each takes one argument by position and is recorded with it; else none."""
    is_async: bool
    is_lazy: bool


def _look_at(fn: Work) -> _Look:
    try:
        return _known(fn)
    except TypeError:  # a callable that cannot be hashed
        return _known.__wrapped__(fn)


@functools.lru_cache(512)  # a lambda that is made anew each time is not kept long
def _known(fn: Work) -> _Look:
    signature = kind = None
    with contextlib.suppress(TypeError, ValueError):
        signature = inspect.signature(fn)
    while isinstance(fn, functools.partial):
        fn = fn.func
    # For a callable object, the annotations of its class.
    said = fn if isinstance(fn, type) or inspect.isroutine(fn) else type(fn).__call__
    if getattr(said, "__annotations__", {}).get("return"):
        with contextlib.suppress(Exception):  # a name that only a type checker knows
            kind = get_type_hints(said).get("return")
    places = None
    if signature is not None:
        named = signature.parameters
        is_plain = all(one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for one in named.values())
        places = tuple(named) if is_plain and next(iter(named), "") not in _RECEIVERS else None
    lazy = inspect.isgeneratorfunction(said) or inspect.isasyncgenfunction(said)
    awaited = inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(said)
    return _Look(signature, None if kind in (Any, type(None)) else kind, places, awaited, lazy)
