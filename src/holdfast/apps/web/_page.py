"""The parts that every page shares: the store, the guest, and how values become text."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from holdfast.apps.gate.secret import same_secret
from holdfast.apps.render.questions import as_editable, as_sentence
from holdfast.apps.render.words import ago, clock, counted, day_time, latency, price, short, size
from holdfast.formats import markdown_html
from holdfast.model import VERSION
from holdfast.security import neutralise
from holdfast.session import now_ms

if TYPE_CHECKING:
    from holdfast.apps.web._actions import Talks
    from holdfast.errors import HoldfastError
    from holdfast.library import Holdfast

# Admission: links that work once, and the cookies that they are exchanged for.
_LINKS_MAX = 16
_GUESTS_MAX = 256
_NOTES_MAX = 8


@dataclass(frozen=True)
class Note:
    """Something that the next page tells once; ``undo`` is the session that can be brought back."""

    text: str
    kind: str = "good"
    undo: str = ""

    @classmethod
    def of(cls, error: HoldfastError) -> Note:
        """Return the note on a failure."""
        return cls(f"{error.message[:1].upper()}{error.message[1:]}. {error.remedy}", "bad")


@dataclass
class Guest:
    """A browser that came in. ``form_token`` must be in every form that it sends."""

    form_token: str
    _notes: list[Note] = field(default_factory=list)

    def tell(self, note: Note) -> None:
        """Leave a note for the next page."""
        self._notes = [*self._notes, note][-_NOTES_MAX:]

    def told(self) -> list[Note]:
        """Return the notes that were left; once."""
        notes, self._notes = self._notes, []
        return notes

    def sent(self, form_token: str) -> bool:
        """Return whether a form came from a page that this guest was shown, in constant time."""
        return same_secret(form_token, self.form_token)


class Door:
    """Links and cookies, kept as digests only: what is read from memory opens nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._links: list[str] = []
        self._guests: dict[str, Guest] = {}
        self.cookie = f"holdfast-web-{secrets.token_hex(4)}"
        """Its name; cookies know no ports, and several apps may run."""

    def link(self) -> str:
        """Return a new token that lets one browser in, once; the oldest of too many end."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._links = [*self._links, _digest(token)][-_LINKS_MAX:]
        return token

    def enter(self, token: str) -> str | None:
        """Return the value of the cookie for a token that was not used yet; None for any other."""
        given = _digest(token)
        with self._lock:
            # All are compared, so that the time tells nothing.
            found = [link for link in self._links if same_secret(given, link)]
            if not found:
                return None
            self._links.remove(found[0])
            value = secrets.token_urlsafe(32)
            while len(self._guests) >= _GUESTS_MAX:
                self._guests.pop(next(iter(self._guests)))
            self._guests[_digest(value)] = Guest(secrets.token_urlsafe(32))
            return value

    def guest(self, cookie: str | None) -> Guest | None:
        """Return the guest with this cookie."""
        return self._guests.get(_digest(cookie)) if cookie else None


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


class PageStreams:
    """The number of pages that follow something, and whether they must end."""

    def __init__(self) -> None:
        self.count = 0
        self.ending = asyncio.Event()


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("holdfast.apps.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    made.filters |= {"clock": clock, "day_time": day_time, "price": price, "short": short, "size": size}
    made.filters |= {"markdown": as_html, "words": in_words, "ticks": _ticks, "duration": latency}
    made.filters |= {"editable": as_editable, "sentence": as_sentence}
    made.filters["iso"] = lambda time_ms: day_time(time_ms).replace(" ", "T")
    made.globals |= {"ago": ago, "counted": counted, "session_url": session_url, "version": VERSION}
    return made


@dataclass
class Site:
    """The one web app of a process: what its pages need."""

    hf: Holdfast
    where: str  # the store's place, as people write it
    talks: Talks
    door: Door = field(default_factory=Door)
    streams: PageStreams = field(default_factory=PageStreams)
    checks: Callable[[], Sequence[Any]] = tuple  # how the store is: things with name, state, finding and remedy
    templates: Environment = field(default_factory=_environment)


def site_of(request: Request) -> Site:
    """Return the app that a request came to."""
    site: Site = request.app.state.site
    return site


def guest_of(request: Request) -> Guest:
    """Return the guest of a request; only guests reach a page."""
    guest: Guest = request.state.guest
    return guest


def page(request: Request, template: str, status: int = 200, /, **values: Any) -> Response:
    """Return a page, or a part of one, as a response. Blocking: rendering takes its time."""
    site, guest = site_of(request), getattr(request.state, "guest", None)
    token = guest.form_token if guest else ""
    # A note is shown once; a part of a page has no place for it, and would swallow it.
    is_part = template.startswith("part/")
    text = site.templates.get_template(template).render(
        **values,
        site=site,
        path=request.url.path,
        form_token=token,
        notes=guest.told() if guest and not is_part else (),
        waiting_count=site.hf.inbox.count() if guest and not is_part else 0,
        csrf=lambda: Markup('<input type="hidden" name="form_token" value="%s">') % token,
        now=now_ms(),
    )
    # A browser may keep a whole page for a moment, so that going back shows it as it was.
    return HTMLResponse(text, status)


def going_on(site: Site, id: str, status: str, *, asks: bool) -> dict[str, str] | None:
    """Return the offer for an unfinished answer: a word, and an explanation; else None.

    ``asks`` says that questions of it are open.
    """
    if status in ("waiting", "suspended") and not asks and site.hf.inbox.due(session=id):
        return {"word": "Go on", "about": "What it waited for has come, and nobody has gone on with it yet."}
    if status == "interrupted":
        return {"word": "Continue", "about": "The answer was interrupted."}
    if status != "failed":
        return None
    remedy = neutralise(site.talks.remedy(id))
    return {"word": "Try again", "about": f"The answer failed. {remedy}".strip()}


def wants_part(request: Request) -> bool:
    """Return whether the script of our pages asks; it inserts the answer into the current page."""
    return request.headers.get("x-part") == "true"


def back_to(url: str) -> Response:
    """Redirect to this page after an action."""
    return RedirectResponse(url, 303)


def session_url(id: str, part: str = "", **query: Any) -> str:
    """Return the address of a session, or of a part of it."""
    given = {name: value for name, value in query.items() if value is not None}
    path = f"/s/{quote(id, safe='')}" + (f"/{part}" if part else "")
    return f"{path}?{urlencode(given)}" if given else path


def _visible(value: Any) -> Any:
    """Return text as people may see it: nothing in it turns lines around or hides. Markup is ours."""
    return neutralise(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _ticks(text: str) -> Markup:
    """Return a sentence in which what stands between backticks is code."""
    parts = neutralise(text).split("`")
    if len(parts) % 2 == 0:
        return escape(neutralise(text))
    marked = (Markup("<code>%s</code>") % one if n % 2 else escape(one) for n, one in enumerate(parts))
    return Markup("").join(marked)


def in_words(value: Any) -> str:
    """Return a value of a state as people read it: a todo by its mark and text, the rest as it is."""
    is_todo = isinstance(value, dict) and "status" in value
    return todo_in_words(value) if is_todo else value_in_words(value)


def todo_in_words(todo: dict[str, Any]) -> str:
    """Return a todo by its mark and text."""
    status = str(todo.get("status", ""))
    mark = {"completed": "✓", "in_progress": "▸", "pending": "○"}.get(status, status)
    text = todo.get("content") or todo.get("text")
    return f"{mark} {text}" if isinstance(text, str) else value_in_words(todo)


def value_in_words(value: Any) -> str:
    """Return a value as text: text unchanged, counts with their names, everything else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and value and all(isinstance(one, int) for one in value.values()):
        return ", ".join(f"{name} {one:,}".replace("_", " ") for name, one in value.items())
    return msgspec.json.encode(value, enc_hook=raw_in_words).decode()


def raw_in_words(value: Any) -> str:
    """Return a text for a value that JSON cannot express: recorded bytes that cannot be decoded, as they are."""
    return bytes(value).decode("utf-8", "replace") if isinstance(value, msgspec.Raw) else str(value)


def as_html(text: str) -> Markup:
    """Return Markdown as HTML that cannot do harm. Never raises."""
    return Markup(markdown_html(text))  # noqa: S704 - all text in it is escaped
