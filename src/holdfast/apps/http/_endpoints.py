"""One row for each thing that can be asked: the server and its description are made of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.apps.http._requests import Nothing
from holdfast.apps.http.tokens import Scope

if TYPE_CHECKING:
    from starlette.responses import Response

    from holdfast.apps.http._call import Call

JSON = "application/json"
EVENT_STREAM = "text/event-stream"


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A method on a path, who may use it, what it takes and what it gives.

    ``work`` runs on a thread; ``stream`` on the event loop, and gives the response itself. With
    ``writes`` the session of the path is open for writing meanwhile, and what was recorded is on
    the medium before the answer.
    """

    method: str
    path: str
    summary: str
    scope: Scope | None = "read"
    query: type = Nothing
    body: type | None = None
    takes_bytes: bool = False
    answer: Any = None
    status: int = 200
    media: str = JSON
    keyed: bool = False
    """Whether ``Idempotency-Key`` makes it safe to ask again."""
    writes: bool = False
    work: Callable[[Call], Any] | None = None
    stream: Callable[[Call], Awaitable[Response]] | None = None

    @property
    def name(self) -> str:
        """What it is called in the description and in the audit log."""
        parts = [part for part in self.path.split("/") if part and part != "v1"]
        words = [part.strip("{}") if "{" in part else part for part in parts]
        return "_".join([self.method.lower(), *words]).replace(".", "_")
