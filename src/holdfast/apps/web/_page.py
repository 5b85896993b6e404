"""What every page has: the store, who looks at it, and how values become text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from holdfast.apps.render.words import ago, clock, counted, day_time, price, short, size
from holdfast.apps.web._access import Door, Guest
from holdfast.apps.web._markdown import as_html
from holdfast.apps.web._states import in_words
from holdfast.model import VERSION
from holdfast.security import neutralise
from holdfast.session import now_ms

if TYPE_CHECKING:
    from holdfast.apps.web._talks import Talks
    from holdfast.library import Holdfast


@dataclass
class Site:
    """The one web app of a process: what its pages need."""

    hf: Holdfast
    where: str
    """The store's place, as people write it."""
    talks: Talks
    door: Door = field(default_factory=Door)
    checks: Callable[[], Sequence[Any]] = tuple
    """How the store is: things with name, state, finding and remedy."""
    templates: Environment = field(init=False)

    def __post_init__(self) -> None:
        self.templates = _environment()


def site_of(request: Request) -> Site:
    """The app that a request came to."""
    site: Site = request.app.state.site
    return site


def guest_of(request: Request) -> Guest:
    """Who asks; only guests come as far as a page."""
    guest: Guest = request.state.guest
    return guest


def page(request: Request, template: str, status: int = 200, /, **values: Any) -> Response:
    """A page, or a part of one, as a response. Blocking: rendering takes its time."""
    site, guest = site_of(request), getattr(request.state, "guest", None)
    token = guest.form_token if guest else ""
    is_part = template.startswith("part/")
    text = site.templates.get_template(template).render(
        **values,
        site=site,
        path=request.url.path,
        form_token=token,
        notes=guest.told() if guest and not is_part else (),
        csrf=lambda: Markup('<input type="hidden" name="form_token" value="%s">') % token,
        now=now_ms(),
    )
    # A browser may keep a whole page for a moment, so that going back shows it as it was.
    return HTMLResponse(text, status)


def wants_part(request: Request) -> bool:
    """Whether the script of our pages asks, which puts the answer into the page that is shown."""
    return request.headers.get("x-part") == "true"


def back_to(url: str) -> Response:
    """After something was done: look at this page."""
    return RedirectResponse(url, 303)


def session_url(id: str, part: str = "", **query: Any) -> str:
    """The address of a session, or of a part of it."""
    given = {name: value for name, value in query.items() if value is not None}
    path = f"/s/{quote(id, safe='')}" + (f"/{part}" if part else "")
    return f"{path}?{urlencode(given)}" if given else path


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("holdfast.apps.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    made.filters |= {
        "clock": clock,
        "day_time": day_time,
        "iso": _iso,
        "price": price,
        "short": short,
        "size": size,
        "markdown": as_html,
        "words": in_words,
        "ticks": _ticks,
        "duration": _duration,
    }
    made.globals |= {
        "ago": ago,
        "counted": counted,
        "session_url": session_url,
        "version": VERSION,
    }
    return made


def _visible(value: Any) -> Any:
    """Text as people may see it: nothing in it turns lines around or hides. Markup is ours."""
    return neutralise(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _ticks(text: str) -> Markup:
    """A sentence in which what stands between backticks is code."""
    parts = neutralise(text).split("`")
    if len(parts) % 2 == 0:
        return escape(neutralise(text))
    marked = (
        Markup("<code>%s</code>") % one if n % 2 else escape(one) for n, one in enumerate(parts)
    )
    return Markup("").join(marked)


def _iso(time_ms: int) -> str:
    return day_time(time_ms).replace(" ", "T")


def _duration(ms: float | None) -> str:
    """``850 ms``, ``4.2 s``, ``12 min``, ``3.5 h``; nothing if unknown."""
    if ms is None:
        return ""
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 120_000:
        return f"{ms / 1000:.1f} s"
    return f"{ms / 60_000:.0f} min" if ms < 7_200_000 else f"{ms / 3_600_000:.1f} h"
