"""All guards around an application, in the order in which they belong."""

from __future__ import annotations

from collections.abc import Callable, Collection

from starlette.types import ASGIApp, Scope

from holdfast.apps.gate.callers import LOOPBACK, HostCheck, OriginCheck
from holdfast.apps.gate.limits import BodyLimit, Buckets, RateLimit
from holdfast.apps.gate.responses import NOTHING_RUNS, SafeHeaders

__all__ = ["guarded"]


def guarded(
    app: ASGIApp,
    *,
    hosts: Collection[str] = LOOPBACK,
    origins: Collection[str] = (),
    need_origin: bool = False,
    policy: str = NOTHING_RUNS,
    body_bytes_max: int | Callable[[Scope], int] = 1 << 20,
    buckets: Buckets | None = None,
    client_of: Callable[[Scope], str] | None = None,
) -> ASGIApp:
    """The application behind every guard; without ``buckets`` nobody is too quick.

    What is refused has the safe headers too, and is refused before a byte of the body is read.
    """
    inner: ASGIApp = BodyLimit(app, body_bytes_max)
    inner = OriginCheck(inner, origins, need_origin=need_origin)
    if buckets is not None:
        inner = RateLimit(inner, buckets, client_of)
    return SafeHeaders(HostCheck(inner, hosts), policy)
