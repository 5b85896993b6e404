"""The web app on stores of the tests' own, and one browser for all tests of a process."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="starlette is not installed")
pytest.importorskip("jinja2", reason="jinja2 is not installed")

from starlette.testclient import TestClient

import holdfast
from holdfast.apps.web._actions import Talks
from holdfast.apps.web._page import Site
from holdfast.apps.web.app import make_app

TOOLS = Path(__file__).parents[2] / "tools"
WAIT_MS = 120_000  # a loaded machine takes its time
ORIGIN = "http://127.0.0.1:8000"


def _load(name):
    """A module of tools/."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(scope="session")
def demo_store():
    """The sessions that are shown in the documentation."""
    return _load("demo_store")


@pytest.fixture(scope="session")
def shooting(demo_store):
    """The script that takes the pictures."""
    return _load("shoot_web")


def no_kit():
    """No model: pages that need one say so."""
    raise holdfast.errors.UsageError("there is no model here", remedy="Set one.")


# -- without a browser ---------------------------------------------------------------------------


class Visitor(TestClient):
    """A client that came in by a link, and knows the token of its forms."""

    def enter(self, site):
        """Use a link."""
        response = self.get("/in", params={"token": site.door.link()}, follow_redirects=False)
        assert response.status_code == 303
        cookie = self.cookies[site.door.cookie]
        self.form_token = site.door.guest(cookie).form_token
        return response

    def submit(self, url, *, origin=ORIGIN, token=None, **fields):
        """A form, as a browser sends it."""
        fields["form_token"] = self.form_token if token is None else token
        headers = {} if origin is None else {"origin": origin}
        return self.post(url, data=fields, headers=headers, follow_redirects=False)


@pytest.fixture
def site(hf):
    """What the pages of that store need."""
    return Site(hf=hf, where="a place", talks=Talks(hf, no_kit))


@pytest.fixture
def stranger(site):
    """A client that has no link."""
    with Visitor(make_app(site), base_url=ORIGIN) as client:
        yield client


@pytest.fixture
def visitor(site, stranger):
    """One that came in."""
    stranger.enter(site)
    return stranger


@pytest.fixture
def trip(hf):
    """A session with everything that a conversation shows."""
    with hf.session("trip-planner", title="Trip to Lisbon", agent_id="planner") as s:
        s.tag("travel")
        s.user("Plan a week in Lisbon")
        s.thinking("Weather first.\nThen trains.")
        call = s.tool_call("Weather", {"city": "Lisbon", "days": 7})
        s.tool_result(call, {"content": "\n".join(f"day {day}: sunny" for day in range(40))})
        s.assistant("# Plan\n\nTake the **train**.", usage={"input_tokens": 1200}, model="gpt-5")
        s.variables["budget"] = 900
        s.memory.set("name", "Ada")
        s.todos.write([{"content": "book the train", "status": "pending"}])
        s.snapshot()
        s.variables["budget"] = 800
        s.user("And then?")
        s.assistant("Rest.")
    return "trip-planner"


# -- with one ------------------------------------------------------------------------------------


def chromium_path():
    """Debian's Chromium; installed when that can be done here."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if found is None and hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        # Another worker may be installing it at this moment; a fresh machine may know no packages.
        apt = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=200"]
        install = ["install", "--yes", "chromium"]
        for deed in (install, ["update"], install):
            subprocess.run([*apt, *deed], check=False, timeout=240)
            if shutil.which("chromium"):
                break
        found = shutil.which("chromium")
    return found


@pytest.fixture(scope="module")
def chromium(shooting):
    """One browser for all tests of a module.

    Not of the process: as long as it is there an event loop runs, and asynchronous tests cannot.
    """
    pytest.importorskip("playwright", reason="playwright is not installed")
    path = chromium_path()
    if path is None:
        pytest.skip("Chromium is not installed: apt-get install chromium")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHROMIUM", path)
        with shooting.browser() as browser:
            yield browser


class Watch:
    """What must not happen while pages are looked at."""

    def __init__(self, context, origin):
        self.bad = []
        self._origin = origin
        context.add_init_script(
            "window.__bad = []; document.addEventListener('securitypolicyviolation',"
            " (event) => window.__bad.push(`${event.violatedDirective} ${event.blockedURI}`));"
        )
        context.on("request", self._asked)
        context.on("console", self._said)
        context.on("weberror", lambda error: self.bad.append(f"error: {error.error}"))
        context.on("dialog", self._dialog)

    def _asked(self, request):
        if not request.url.startswith(f"{self._origin}/"):
            self.bad.append(f"asked for {request.url}")

    def _said(self, message):
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.bad.append(f"console: {message.text}")

    def _dialog(self, dialog):
        self.bad.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def check(self, page):
        """Nothing ran that should not, nothing was asked elsewhere."""
        assert page.evaluate("window.__bad") == []
        assert not page.evaluate("Boolean(window.__hit)")
        assert self.bad == []


@pytest.fixture(scope="module")
def visit(chromium, shooting):
    """A page of a browser that came in to an app on a library; closed and judged at the end."""

    @contextmanager
    def visit(hf, make_kit=no_kit, **options):
        with shooting.served(hf, make_kit) as (origin, site):
            context = chromium.new_context(base_url=origin, reduced_motion="reduce", **options)
            context.set_default_timeout(WAIT_MS)
            watch = Watch(context, origin)
            page = context.new_page()
            page.goto(f"/in?token={site.door.link()}")
            try:
                yield page, watch
                watch.check(page)
            finally:
                context.close()

    return visit
