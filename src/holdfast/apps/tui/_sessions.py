"""The sessions that the list shows: pages of them, filtered and sorted. Blocking; no widgets."""

from __future__ import annotations

import gc
from concurrent.futures import Future
from threading import Thread
from typing import Any, NamedTuple

from holdfast.library import Holdfast
from holdfast.model import SessionMetadata

FIRST_PAGE = 100
_PAGE = 1_000
_FIELDS = ("tag", "status", "agent", "model", "parent")
# All are kept by the catalogue: none needs more than the page that is shown.
ORDERS = ("updated", "created", "title", "messages", "tokens", "cost", "size")


class ListRequest(NamedTuple):
    """The parameters of a list: filters and order."""

    words: tuple[str, ...] = ()
    fields: tuple[tuple[str, str], ...] = ()
    order: int = 0

    @property
    def is_newest_first(self) -> bool:
        """Return whether it is the plain list, in which new sessions come to the top."""
        return not (self.words or self.order)

    def filters(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.words:
            found["text"] = " ".join(self.words)
        if self.order:
            found["sort"] = ORDERS[self.order]
        for name, value in self.fields:
            if name == "tag":
                found["tags"] = [*found.get("tags", []), value]
            else:
                found["agent_id" if name == "agent" else name] = value
        return found


def parse(text: str, order: int = 0) -> ListRequest:
    """Parse a filter such as ``lisbon tag:travel status:waiting``: words, and fields known to the store."""
    words, fields = [], []
    for word in text.split():
        name, colon, value = word.partition(":")
        if colon and value and name in _FIELDS:
            fields.append((name, value))
        else:
            words.append(word.casefold())
    return ListRequest(tuple(words), tuple(fields), order)


class SessionPages:
    """Asks a store for pages. Each method may take its time; call them in a thread."""

    def __init__(self, library: Holdfast) -> None:
        self._library = library
        self._ahead: Future[tuple[list[SessionMetadata], Any]] | None = None

    def ask_ahead(self) -> None:
        """Ask for the first page of the plain list, in a thread; `first` gives it, once."""
        ahead: Future[tuple[list[SessionMetadata], Any]] = Future()

        def ask() -> None:
            try:
                ahead.set_result(self.following(ListRequest(), None, FIRST_PAGE))
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                ahead.set_exception(error)

        self._ahead = ahead
        Thread(target=ask, name="holdfast-first-page", daemon=True).start()

    def at_hand(self, asked: ListRequest) -> tuple[list[SessionMetadata], Any] | None:
        """Return the result of `first` if it was prefetched and has arrived. Never waits."""
        ahead = self._ahead
        # A failed one is repeated in a thread, which reports its error.
        if ahead is None or not ahead.done() or ahead.exception() is not None:
            return None
        return self.first(asked) if asked == ListRequest() else None

    def first(self, asked: ListRequest, limit: int = FIRST_PAGE) -> tuple[list[SessionMetadata], Any]:
        """Return the first that fit, and where the next page begins; None at the end."""
        # It counts once: by the next time others may have written.
        ahead, self._ahead = self._ahead, None
        if ahead is not None and asked == ListRequest() and limit == FIRST_PAGE:
            return ahead.result()
        return self.following(asked, None, limit)

    def following(self, asked: ListRequest, after: Any, limit: int = _PAGE) -> tuple[list[SessionMetadata], Any]:
        page = self._library.list(limit, after=after, **asked.filters())
        return list(page), page.next

    def total(self) -> int:
        return self._library.catalog_health().sessions

    def foreign_tool(self) -> str | None:
        """Return the tool whose sessions are in the place of the store, if it has none of its own."""
        place = self._library.foreign.strangers()
        return None if place is None else place.tool


def renewed(old: list[SessionMetadata], head: list[SessionMetadata], *, more: bool) -> list[SessionMetadata]:
    """Return the rows in the order of the store, with what its newest page says now.

    One that the page would have to hold, and does not, is gone; so is all the rest if there are no
    ``more`` than the page has.
    """
    if not more:
        return head
    known = {row.session_id for row in head}
    edge = head[-1].updated_at
    return [*head, *(r for r in old if r.session_id not in known and r.updated_at <= edge)]


class Start:
    """Begins when it is made, before the libraries that draw are loaded; the app ends it.

    Hardly anything of what they make is ever let go, so looking for garbage among it takes a tenth
    of the time until the list is there, and finds nothing.
    """

    def __init__(self, library: Holdfast) -> None:
        self.pages = SessionPages(library)
        self.pages.ask_ahead()
        self._rests = gc.isenabled()
        gc.disable()

    def end(self) -> None:
        """Collect as before; what is there now stays and is not looked at again."""
        if self._rests:
            self._rests = False
            gc.freeze()
            gc.enable()
