"""JSON from elsewhere, where a file may say anything: taken only if an append would take it."""

from __future__ import annotations

import re
from typing import Any, Never

from holdfast.errors import InvalidData, TooLarge
from holdfast.model._data import check_value
from holdfast.model._limits import Limits

__all__ = ["decode_strict"]

# Half of a pair, as an escape. Only where one occurs can a lone one be.
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def decode_strict(raw: bytes, limits: Limits) -> Any:
    """The value of foreign JSON bytes, if it is one that an append would take.

    Raises InvalidData for what is not UTF-8 or not JSON, a key that occurs twice in one map, NaN
    and infinity in any spelling, NUL, lone surrogates, too deep nesting and too long integers;
    TooLarge for more bytes than a blob may have. Takes time and memory in proportion to the bytes.
    """
    if len(raw) > limits.blob_bytes_max:
        raise TooLarge(
            f"one value has {len(raw):,} bytes, at most {limits.blob_bytes_max:,} are allowed",
            limit="blob_bytes_max",
            needed_bytes=len(raw),
        )
    value = _parse(raw, limits)
    check_value(value, limits, "the value")
    return value


def _parse(raw: bytes, limits: Limits) -> Any:
    import json

    def parse_int(digits: str) -> int:
        if len(digits.lstrip("-")) > limits.integer_digits_max:
            raise InvalidData(f"an integer has more than {limits.integer_digits_max} digits")
        return int(digits)

    try:
        value = json.loads(
            raw.decode(),
            object_pairs_hook=_make_map,
            parse_int=parse_int,
            parse_constant=_refuse_constant,
        )
        if _SURROGATE.search(raw):
            json.dumps(value, ensure_ascii=False).encode()
    except InvalidData:
        raise
    except RecursionError as error:
        raise InvalidData(f"nested more than {limits.depth_max} levels deep") from error
    except ValueError as error:
        raise InvalidData(f"not valid JSON: {error}") from error
    return value


def _make_map(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise InvalidData(f"the key {key[:40]!r} occurs twice in one map")
        found[key] = value
    return found


def _refuse_constant(name: str) -> Never:
    raise InvalidData(f"{name} is not JSON")
