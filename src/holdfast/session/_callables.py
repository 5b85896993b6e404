"""What is known of a function: its name, its arguments as data, its result as it returns it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import msgspec

from holdfast.errors import UsageError

_KNOWN_MAX = 512


def name_of(fn: Callable[..., Any]) -> str:
    """Return the name under which a function is recorded; UsageError if it has none."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    found = getattr(fn, "__qualname__", None) or getattr(type(fn), "__qualname__", "step")
    return str(found).replace("<locals>.", "")


def digest(name: str, given: Any, salt: str) -> str:
    """Return what tells other arguments apart without telling them, keyed with something of the log's own."""
    try:
        plain = msgspec.json.encode(given, enc_hook=_plain_object, order="deterministic")
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(
            f"the arguments of {name} cannot be written as JSON: {error}",
            remedy="Give the step plain data, or a `key` made from its arguments.",
        ) from error
    return blake2b(plain, key=salt.encode()[:64], digest_size=12).hexdigest()


def bound(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Arguments by their names, so that positional and named ones are the same."""
    signature = _signature(fn)
    if signature is None:
        return [args, kwargs]
    try:
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


def _cached(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Keep what is found out about a function; a lambda made anew each time is not kept long."""
    kept = functools.lru_cache(_KNOWN_MAX)(make)

    def find(fn: Any) -> Any:
        try:
            return kept(fn)
        except TypeError:  # a callable that cannot be hashed
            return make(fn)

    return find


@_cached
def _signature(fn: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(fn)
    except (TypeError, ValueError):
        return None  # written in C


def plain(value: Any) -> Any:
    return msgspec.to_builtins(value, str_keys=True, enc_hook=_plain_object)


def _plain_object(value: Any) -> Any:
    """Models of Pydantic have a plain form; of anything else a text would differ every time."""
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json")
    raise TypeError(f"{type(value).__name__} is no plain data")


def as_returned(value: Any, fn: Callable[..., Any]) -> Any:
    """What was stored, as the type that the function says it returns, where it names one."""
    kind = _return_type(fn)
    if kind is None:
        return value
    try:
        validate = getattr(kind, "model_validate", None)
        return validate(value) if validate else msgspec.convert(value, kind, str_keys=True)
    except (msgspec.ValidationError, TypeError, ValueError):
        return value


@_cached
def _return_type(fn: Callable[..., Any]) -> Any:
    while isinstance(fn, functools.partial):
        fn = fn.func
    if not getattr(fn, "__annotations__", {}).get("return"):
        return None
    from typing import get_type_hints

    try:
        kind = get_type_hints(fn).get("return")
    except Exception:  # noqa: BLE001 - a name that is only there for a type checker
        return None
    return None if kind in (Any, type(None)) else kind


def name_of_class(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
