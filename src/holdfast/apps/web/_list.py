"""The list of sessions: filtered, sorted, searched as you type, page after page."""

from __future__ import annotations

import datetime as dt
import re
import time
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from holdfast.apps.render.failures import strangers_hint
from holdfast.apps.render.search import FoundSession, gather, parents_in
from holdfast.apps.web._page import Site, page, site_of, wants_part
from holdfast.catalog import Hit
from holdfast.errors import NotFound, UsageError
from holdfast.library import Holdfast
from holdfast.model import STATUSES, SessionMetadata, fold_id, is_id

_ROWS = 50
_HITS_MAX = 2_000  # a third of a second; of more it is said that there are more
_NAMED_MAX = 1_000
_SNIPPETS = 3
_IDS = 5
_ID_CHARS_MIN = 4
# Word, and from how many to how many days ago a session changed last.
AGES: dict[str, tuple[str, float | None, float | None]] = {
    "": ("Any time", None, None),
    "day": ("Past day", 1, None),
    "week": ("Past week", 7, None),
    "month": ("Past month", 30, None),
    "year": ("Past year", 365, None),
    "older": ("Older", None, 30),
}
# Word, and what it is called in the library.
ORDERS: dict[str, tuple[str, str]] = {
    "": ("Best match, else newest", "updated"),
    "newest": ("Newest first", "updated"),
    "oldest": ("Oldest first", "updated:asc"),
    "created": ("Last begun", "created"),
    "title": ("By title", "title"),
    "messages": ("Most messages", "messages"),
    "tokens": ("Most tokens", "tokens"),
    "cost": ("Highest cost", "cost"),
    "size": ("Largest", "size"),
}
CHOICES = ("", *STATUSES[1:], STATUSES[0])
_FIELDS = ("q", "tag", "agent", "age", "status", "kept", "sort")
_PLAIN_END = re.compile(r"\w\Z")


class PageRequest(NamedTuple):
    """The parameters of a list, from the address of the page."""

    q: str = ""
    tag: str = ""
    agent: str = ""
    age: str = ""
    status: str = ""
    kept: str = ""
    sort: str = ""

    @classmethod
    def of(cls, request: Request) -> PageRequest:
        """Return the request from the query; invalid choices are ignored."""
        given = {name: request.query_params.get(name, "").strip()[:500] for name in _FIELDS}
        for name, known in (("age", AGES), ("status", CHOICES), ("sort", ORDERS)):
            given[name] = given[name] if given[name] in known else ""
        return cls(**given)

    @property
    def is_narrowed(self) -> bool:
        """Return whether some sessions may be left out."""
        return any(self[:6])

    def url(self, **changed: Any) -> str:
        """Return the address of this list with something changed."""
        fields = {**self._asdict(), **changed}
        given = {name: value for name, value in fields.items() if value}
        return f"/?{urlencode(given)}" if given else "/"

    def filters(self, now: dt.datetime) -> dict[str, Any]:
        """Return the arguments for ``hf.list`` and ``hf.search``."""
        _, since, until = AGES[self.age]
        return {
            "tags": [tag.strip() for tag in self.tag.split(",") if tag.strip()],
            "agent_id": self.agent or None,
            "since": None if since is None else now - dt.timedelta(days=since),
            "until": None if until is None else now - dt.timedelta(days=until),
            "status": self.status or None,
            "archived": {"archived": True, "active": False}.get(self.kept),
        }


class FoundRow(NamedTuple):
    """A session in which something was found, and the first places of it."""

    row: SessionMetadata
    hits: list[Hit]
    more: int  # how many places it has beyond these
    also_in: dict[str, str]  # sessions that have the same words, by id, with their titles


class SearchPage(NamedTuple):
    """Some of what was found, and how much that is in all."""

    rows: list[FoundRow]
    places: int
    sessions: int
    is_cut: bool  # whether there is more than was looked for
    is_shared: bool  # whether some sessions are named in the row of another
    next: int | None


def list_page(request: Request) -> Response:
    """Return the list, or for a part of the page only its rows."""
    asked = PageRequest.of(request)
    site = site_of(request)
    values: dict[str, Any] = {"asked": asked, "ages": AGES, "orders": ORDERS, "statuses": CHOICES}
    values |= {"found": None, "rows": [], "strangers": ("", ""), "more": None}
    began = time.perf_counter()
    after = request.query_params.get("after", "")[:2_000]
    if asked.q:
        values["found"] = _search(site.hf, asked, int(after) if after.isascii() and after.isdecimal() else 0)
    else:
        values["rows"], values["more"] = _rows(site, asked, after)
        if not values["rows"] and not asked.is_narrowed:
            values["strangers"] = strangers_hint(site.hf)
    values["took_ms"] = round((time.perf_counter() - began) * 1000)
    if wants_part(request):
        is_next = "after" in request.query_params
        following = "part/found.html" if asked.q else "part/rows.html"
        response = page(request, following if is_next else "part/results.html", **values)
        if not is_next:
            response.headers["x-url"] = asked.url()  # without the fields that are empty
        return response
    return page(
        request,
        "list.html",
        **values,
        total=site.hf.catalog_health().sessions,
        tags=sorted({tag for row in values["rows"] for tag in (*row.tags, *row.auto_tags)}),
        agents=sorted({row.agent_id for row in values["rows"] if row.agent_id}),
    )


def trash_page(request: Request) -> Response:
    """Show the deleted sessions that can be restored."""
    return page(request, "trash.html", trashed=site_of(request).hf.trash.list()[:500])


def _rows(site: Site, asked: PageRequest, after: str) -> tuple[list[SessionMetadata], str | None]:
    rows = site.hf.list(
        _ROWS, after=after or None, sort=ORDERS[asked.sort][1], **asked.filters(dt.datetime.now(dt.UTC))
    )
    return list(rows), rows.next


def _search(hf: Holdfast, asked: PageRequest, start: int) -> SearchPage:
    """Return sessions by what was said in them, best first; a word that is being typed may go on."""
    # Behind a quote or a bracket a star would be part of something else, or an error.
    query = f"{asked.q}*" if _PLAIN_END.search(asked.q) else asked.q
    wanted = asked.filters(dt.datetime.now(dt.UTC))
    try:
        hits = hf.search(query, limit=_HITS_MAX + 1, **wanted)
    except UsageError:
        hits = []
    found = {one.session_id: one for one in gather(hits[:_HITS_MAX], parents_in(hf))}
    sessions = {hit.session_id for hit in hits[:_HITS_MAX]}
    is_shared = len(found) < len(sessions)
    # Sessions whose id begins like this come first; a few letters would be too many of them.
    if len(asked.q) >= _ID_CHARS_MIN and is_id(asked.q):
        begin = fold_id(asked.q)
        named = [
            row for row in hf.list(_NAMED_MAX, text=asked.q, **wanted) if fold_id(row.session_id).startswith(begin)
        ]
        first = {row.session_id: FoundSession(row.session_id, row.title, [], {}) for row in named[:_IDS]}
        sessions |= first.keys()
        found = first | found
    if asked.sort:
        places = {row.session_id: place for place, row in enumerate(hf.list(None, sort=ORDERS[asked.sort][1]))}
        found = {one: found[one] for one in sorted(found, key=lambda one: places.get(one, len(places)))}
    shown = list(found.values())[start : start + _ROWS]
    following = start + _ROWS if start + _ROWS < len(found) else None
    rows = [row for one in shown if (row := _found_row(hf, one)) is not None]
    return SearchPage(rows, len(hits[:_HITS_MAX]), len(sessions), len(hits) > _HITS_MAX, is_shared, following)


def _found_row(hf: Holdfast, one: FoundSession) -> FoundRow | None:
    try:
        row = hf.info(one.session_id)
    except NotFound:  # deleted since it was found
        return None
    return FoundRow(row, one.hits[:_SNIPPETS], max(len(one.hits) - _SNIPPETS, 0), one.also_in)
