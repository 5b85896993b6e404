"""Who comes in, and who does not."""

from __future__ import annotations

import json

import pytest
from starlette.testclient import TestClient

from holdfast.apps.web._page import Door, Note
from holdfast.apps.web.app import make_app

PAGES = ("/", "/activity", "/compare", "/trash", "/store", "/new", "/s/trip-planner",
         "/s/trip-planner/timeline", "/s/trip-planner/state", "/s/trip-planner/branches",
         "/s/trip-planner/health")  # fmt: skip
DEEDS = ("/new", "/merge", "/invite", "/trash/undelete", "/s/trip-planner/do/delete",
         "/s/trip-planner/do/title", "/s/trip-planner/say", "/s/trip-planner/stop",
         "/waiting/any")  # fmt: skip


def test_a_link_works_once(site, stranger):
    """The first browser is let in and its address has no token any more; the second is not."""
    token = site.door.link()
    first = stranger.get("/in", params={"token": token}, follow_redirects=False)
    assert (first.status_code, first.headers["location"]) == (303, "/")
    assert stranger.get("/").status_code == 200
    with TestClient(make_app(site), base_url="http://127.0.0.1:8000") as other:
        again = other.get("/in", params={"token": token}, follow_redirects=False)
        assert again.status_code == 401
        assert "set-cookie" not in again.headers
        assert "works once" in again.text


def test_the_cookie_is_for_this_browser_alone(site, stranger):
    """Scripts cannot read it, other sites cannot send it."""
    cookie = stranger.enter(site).headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "path=/" in cookie


@pytest.mark.parametrize("url", [*PAGES, "/s/trip-planner/live", "/s/trip-planner/export"])
def test_nothing_is_shown_to_a_stranger(trip, stranger, url):
    """Without the cookie every page is the same closed door."""
    response = stranger.get(url)
    assert response.status_code == 401
    assert "Lisbon" not in response.text


def test_a_made_up_cookie(site, trip, stranger):
    """A value that was never given out opens nothing, and neither does a wrong token."""
    stranger.cookies.set(site.door.cookie, "x" * 43)
    assert stranger.get("/").status_code == 401
    assert stranger.get("/in", params={"token": "é" * 20}).status_code == 401


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost@evil", ""])
def test_another_name_for_this_machine(visitor, host):
    """A name that was made to point here is refused: DNS rebinding."""
    response = visitor.get("/", headers={"host": host})
    assert response.status_code == 421
    assert "Sessions" not in response.text


@pytest.mark.parametrize("url", DEEDS)
def test_a_form_without_its_token(hf, trip, visitor, url):
    """A form that none of our pages made does nothing, even with the cookie."""
    for token in ("", "wrong", "é"):
        assert visitor.submit(url, token=token, id=trip, text="x", title="x").status_code == 403
    assert hf.info(trip).title == "Trip to Lisbon"


@pytest.mark.parametrize("url", DEEDS)
def test_a_form_of_another_site(hf, trip, visitor, url):
    """Another origin, or none, is refused, even with cookie and token."""
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9999", None):
        assert visitor.submit(url, origin=origin, id=trip, text="x").status_code == 403
    assert hf.exists(trip)


def test_what_a_page_may_do(visitor):
    """No inline script or style, nothing from elsewhere, in no frame, kept by nobody."""
    headers = visitor.get("/").headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("url", ["/static/", "/static/vendor/", "/static/vendor/../../app.py",
                                 "/static/%2e%2e/app.py", "/static/missing.js"])  # fmt: skip
def test_no_directory_is_listed(visitor, url):
    """Only the files that pages need are served, by their names."""
    assert visitor.get(url).status_code == 404


def test_a_body_that_is_too_long(trip, visitor):
    """It is refused before it is read."""
    assert visitor.submit("/new", text="x" * 2_000_000).status_code == 413


def test_a_link_for_another_browser(site, trip, visitor):
    """Who is in can let another browser in, once."""
    assert visitor.submit("/invite").headers["location"] == "/store"
    shown = visitor.get("/store").text
    token = shown.partition("/in?token=")[2].partition("<")[0]
    with TestClient(make_app(site), base_url="http://127.0.0.1:8000") as other:
        assert other.get("/in", params={"token": token}).status_code == 200
    assert token not in visitor.get("/store").text


def test_only_so_many_links_and_guests():
    """Old links and old guests end; memory does not grow with the number of visits."""
    door = Door()
    first = door.link()
    for _ in range(20):
        newest = door.link()
    assert door.enter(first) is None
    oldest = door.enter(newest)
    for _ in range(300):
        door.enter(door.link())
    assert door.guest(oldest) is None
    assert door.guest(None) is None


def test_notes_are_told_once():
    """What is left for a guest is told on the next page only, and only so much of it."""
    door = Door()
    guest = door.guest(door.enter(door.link()))
    for number in range(20):
        guest.tell(Note(str(number)))
    assert [note.text for note in guest.told()] == [str(number) for number in range(12, 20)]
    assert guest.told() == []


def test_who_came_and_what_was_done(site, trip, visitor, caplog):
    """Deeds and tries at the door leave a line each, without tokens and words; looking does not."""
    caplog.set_level("INFO", "holdfast.audit")
    visitor.get(f"/s/{trip}")
    visitor.submit(f"/s/{trip}/do/title", title="secret words")
    visitor.submit(f"/s/{trip}/do/delete", token="wrong")
    token = site.door.link()
    visitor.get("/in", params={"token": token}, follow_redirects=False)
    visitor.get("/in", params={"token": token}, follow_redirects=False)
    lines = [json.loads(record.message) for record in caplog.records]
    assert [(line["action"], line["session"], line["status"]) for line in lines] == [
        ("title", trip, 303),
        ("delete", trip, 403),
        ("enter", None, 303),
        ("enter", None, 401),
    ]
    assert "secret" not in caplog.text
    assert token not in caplog.text
