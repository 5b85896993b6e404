"""What people do to sessions, form by form, without a browser."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import sys

import pytest

from holdfast import errors
from holdfast.agent import Kit, resolve_model
from holdfast.apps.web._actions import Talks
from holdfast.apps.web._session import FORMATS
from holdfast.apps.web.app import make_app

ORIGIN = "http://127.0.0.1:8000"


def done(response):
    """Where a form led to."""
    assert response.status_code == 303
    return response.headers["location"]


def test_a_session_that_failed_has_a_badge_and_is_filtered_by(hf, trip, visitor):
    """The list offers the status, and shows those that have it in red."""
    with hf.session("broken-off") as s:
        s.append("turn_start", {})
        s.append("turn_end", {"reason": "failed"})
    page = visitor.get("/?status=failed").text
    assert '<span class="badge bad">failed</span>' in page
    assert "/s/broken-off" in page
    assert f"/s/{trip}" not in page


@pytest.mark.parametrize(("status", "word"), [("interrupted", "Continue"), ("failed", "Try again"), ("idle", None)])
def test_an_answer_that_did_not_end_can_be_gone_on_with(hf, visitor, status, word):
    """The page says what became of the answer and offers to go on; one that ended offers nothing."""
    with hf.session("cut") as s:
        s.user("Go")
        s.append("turn_start", {})
        if status == "interrupted":
            s.append("interrupted", {"reason": "killed"})
        else:
            s.append("turn_end", {"reason": "failed" if status == "failed" else "completed"})
    assert hf.info("cut").status == status
    shown = re.search(
        r'<form class="note-box go-on"[^>]*action="/s/cut/continue"( hidden)?>(.*?)</form>', visitor.get("/s/cut").text
    )
    assert (shown[1] is None) == (word is not None)
    assert word is None or word in shown[2]


def test_an_error_is_told_in_its_words(hf, visitor):
    """Not as JSON, not cut, and not as the faintest line of the page."""
    words = "the provider is overloaded (529: Overloaded)" + " more" * 60
    with hf.session("cut") as s:
        s.append("agent_error", {"agent": "helper", "error": {"code": "model_failed", "message": words}})
    line = re.search(r'<div class="note-box bad error-line".*?</div>', visitor.get("/s/cut").text)[0]
    assert words in line
    assert "model_failed" not in line


def test_labels(hf, trip, visitor):
    """Title, tags and pins change as the forms say, and the page before comes back."""
    back = f"/s/{trip}/timeline"
    assert done(visitor.submit(f"/s/{trip}/do/title", title=" New ", back=back)) == back
    assert "Renamed." in visitor.get(back).text
    visitor.submit(f"/s/{trip}/do/tag", tags="sea, sun ,two words")
    assert "New" in visitor.get("/?tag=two+words,sea").text
    assert "No session fits" in visitor.get("/?tag=two").text
    visitor.submit(f"/s/{trip}/do/untag", tag="two words")
    visitor.submit(f"/s/{trip}/do/untag", tag="travel")
    visitor.submit(f"/s/{trip}/do/pin")
    row = hf.info(trip)
    assert (row.title, set(row.tags), row.pinned) == ("New", {"sea", "sun"}, True)
    visitor.submit(f"/s/{trip}/do/unpin")
    assert not hf.info(trip).pinned


@pytest.mark.parametrize("back", ["//evil.example", "https://evil.example", "/\\evil.example", ""])
def test_a_form_leads_to_our_own_pages_only(trip, visitor, back):
    """Another site cannot be the page to come back to."""
    assert done(visitor.submit(f"/s/{trip}/do/pin", back=back)) == f"/s/{trip}"


def test_what_cannot_be_done_is_told(trip, visitor):
    """The reason and the remedy are on the page that comes back."""
    assert done(visitor.submit(f"/s/{trip}/do/tag", tags=" , ")) == f"/s/{trip}"
    assert "No tag was given. Write one or more" in visitor.get(f"/s/{trip}").text
    visitor.submit(f"/s/{trip}/do/restore")
    assert "No event was given." in visitor.get("/").text
    visitor.submit(f"/s/{trip}/do/fork", at="-1")
    assert "is no number of an event" in visitor.get("/").text
    assert visitor.submit(f"/s/{trip}/do/nonsense").status_code == 404
    visitor.submit("/s/nothing-here/do/delete")
    assert "nothing-here" in visitor.get("/").text


def test_archive(hf, trip, visitor):
    """A session is compressed and taken out again; it is read all the while."""
    visitor.submit(f"/s/{trip}/do/archive")
    assert hf.info(trip).archived
    assert "Plan a week" in visitor.get(f"/s/{trip}").text
    assert "Trip to Lisbon" in visitor.get("/?kept=archived").text
    assert "Trip to Lisbon" not in visitor.get("/?kept=active").text
    visitor.submit(f"/s/{trip}/do/unarchive")
    assert not hf.info(trip).archived


def test_delete_and_bring_back(hf, trip, visitor):
    """The note after it and the trash both bring it back."""
    assert done(visitor.submit(f"/s/{trip}/do/delete")) == "/"
    assert "Undo" in visitor.get("/").text
    assert trip in visitor.get("/trash").text
    assert done(visitor.submit("/trash/undelete", id=trip)) == f"/s/{trip}"
    assert hf.exists(trip)
    assert visitor.submit("/trash/undelete", id="never-was").status_code == 404
    assert visitor.submit("/trash/undelete", id="no id").status_code == 400


def test_fork_and_restore(hf, trip, visitor):
    """A fork has the events up to a moment; a step back is a new session of the agent."""
    forked = done(visitor.submit(f"/s/{trip}/do/fork", at="6", title="Else")).rpartition("/")[2]
    assert hf.lineage(forked).parents[0].session_id == trip
    assert hf.info(forked).title == "Else"
    restored = done(visitor.submit(f"/s/{trip}/do/restore", at="6")).rpartition("/")[2]
    assert hf.state(restored).parent.seq == 6


def test_merge(hf, trip, visitor):
    """Two become a new one; what is wrong with the wish is told."""
    forked = hf.fork(trip)
    with hf.session(forked) as s:
        s.user("More")
        s.assistant("of it")
    made = done(visitor.submit("/merge", a=trip, b=forked, turns="summary", title="Both"))
    assert hf.info(made.rpartition("/")[2]).title == "Both"
    assert "Merged into this new session." in visitor.get(made).text
    tree = visitor.get(f"{made}/branches").text
    short = hf.short_ids([trip, forked])
    both = [f'<a href="/s/{id}"><code>{short[id]}</code></a>' for id in (trip, forked)]
    assert f"merge of {both[0]} and {both[1]}" in tree  # by id, as titles of forks are alike
    assert len(re.findall(r'<path d="M\d+ \d+[VC]', tree)) == 3  # the fork, the merge, and its second parent
    assert visitor.submit("/merge", a=trip, b=forked, policy="none").status_code == 400
    assert visitor.submit("/merge", a=trip, b="missing").status_code == 404


def test_repair(hf, store_root, visitor):
    """Damage is explained in plain words and mended with one click."""
    with hf.session("hurt") as s:
        for number in range(30):
            s.user(f"message {number}")
    path = next(store_root.rglob("sessions/hurt/*.jsonl"))
    data = path.read_bytes()
    path.write_bytes(data.replace(b"message 12", b"massage 12"))
    page = visitor.get("/s/hurt/health").text
    assert "Something is damaged" in page
    assert "Repair it" in page
    assert "damaged" in visitor.get("/").text
    assert done(visitor.submit("/s/hurt/do/repair")) == "/s/hurt/health"
    page = visitor.get("/s/hurt/health").text
    assert "Repaired: 1 event could not be saved" in page
    assert "Every byte is as it was written" in page
    visitor.submit("/s/hurt/do/repair")
    assert "There was nothing to repair." in visitor.get("/s/hurt").text


def test_a_session_of_a_newer_version(hf, trip, visitor, monkeypatch):
    """It is said that it cannot be read here, and why."""

    def refuse(self, id, at=None):
        raise errors.TooNew("this session was written by a newer version")

    monkeypatch.setattr(type(hf), "state", refuse)
    shown = visitor.get(f"/s/{trip}/health").text
    assert "It cannot be read here" in shown
    assert "This session was written by a newer version. Install" in shown
    assert visitor.get(f"/s/{trip}/state").status_code == 409
    assert visitor.get("/s/missing/health").status_code == 404


@pytest.mark.parametrize("format", FORMATS)
def test_export(trip, visitor, format):
    """Every format is a file to keep, never a page to show."""
    response = visitor.get(f"/s/{trip}/export", params={"format": format})
    assert response.status_code == 200
    name = f"{trip}.{FORMATS[format][1]}"
    assert response.headers["content-disposition"] == f'attachment; filename="{name}"'
    assert response.headers["content-type"] == "application/octet-stream"
    assert "sandbox" in response.headers["content-security-policy"]
    assert response.content


def test_a_form_that_is_none_of_ours(trip, visitor):
    """With any number of fields it is refused in a sentence."""
    fields = {f"field{number}": "x" for number in range(100)}
    assert visitor.submit(f"/s/{trip}/do/title", **fields).status_code == 400


def test_what_is_not_there(trip, visitor):
    """Pages, formats, events and attachments that do not exist say so, with a way on."""
    for url in ("/nothing", f"/s/{trip}/export?format=exe", f"/s/{trip}/event/9999",
                f"/s/{trip}/media/3/0", "/s/..%2f..%2fetc", "/s/missing/live",
                f"/s/{trip}/event/{'9' * 5000}", f"/s/{trip}/media/1/{'9' * 5000}"):  # fmt: skip
        response = visitor.get(url)
        assert response.status_code == 404, url
        assert "To the sessions" in response.text
    assert "<code>holdfast list</code>" in visitor.get("/s/missing").text
    assert visitor.get("/new", headers={"x-part": "true"}).status_code == 200
    assert visitor.put("/", headers={"origin": "http://127.0.0.1:8000"}).status_code == 405


def test_attachments(hf, visitor):
    """A picture is shown in a sandbox; anything else is a file of no type."""
    with hf.session("shots") as s:
        event = s.user([
            {"type": "image", "source": {"media_type": "image/png",
                                         "data": base64.b64encode(b"\x89PNG").decode()}},
            {"type": "image", "source": {"media_type": "image/svg+xml", "data": "PHN2Zz4="}},
            {"type": "document", "source": {"media_type": "text/html", "data": "PGI+"}},
            {"type": "image", "source": {"media_type": "image/png", "data": "a"}},
        ])  # fmt: skip
    png, svg, html, bad = (visitor.get(f"/s/shots/media/{event.seq}/{n}") for n in range(4))
    assert (png.headers["content-type"], png.content) == ("image/png", b"\x89PNG")
    assert "sandbox" in png.headers["content-security-policy"]
    for one in (svg, html):
        assert one.headers["content-type"] == "application/octet-stream"
        assert one.headers["content-disposition"].startswith("attachment")
    assert bad.status_code == 404
    page = visitor.get("/s/shots").text
    assert page.count("<img") == 2
    assert "Download: document, text/html" in page


def test_events_as_files(hf, trip, visitor):
    """One event is shown whole, also one whose content is kept beside the log."""
    with hf.session("long") as s:
        event = s.user("x" * 600_000 + " the end")
    page = visitor.get(f"/s/long/event/{event.seq}").text
    assert "the end" in page
    assert "the end" in visitor.get(f"/s/long/event/{event.seq}/file").text
    shown = visitor.get("/s/long").text
    assert "the end" not in shown


def test_pages_of_a_long_session(hf, visitor):
    """Only the newest part is sent; earlier and later parts follow one another without a hole."""
    with hf.session("long") as s:
        for number in range(300):
            s.user(f"question {number}.")
            s.assistant(f"answer {number}.")
    page = visitor.get("/s/long").text
    assert "answer 299." in page
    assert "question 100." not in page
    seen, text = set(), page
    while True:
        seen |= {number for number in range(300) if f"question {number}." in text}
        if "stop=" not in text:
            break
        stop = text.partition("earlier?stop=")[2].partition('"')[0]
        text = visitor.get(f"/s/long/earlier?stop={stop}").text
    assert seen == set(range(300))
    middle = visitor.get("/s/long?at=200").text
    assert 'id="e200"' in middle
    assert "Show later" in middle
    assert "data-live" not in middle


def test_pages_of_a_long_timeline(hf, visitor):
    """The newest events come first to be seen; others by number or type."""
    with hf.session("long") as s:
        for number in range(400):
            s.user(f"question {number}.")
    newest = visitor.get("/s/long/timeline").text
    assert "question 399." in newest
    assert "Earlier events" in newest
    first = visitor.get("/s/long/timeline?from=0").text
    assert "question 3." in first
    assert "Later events" in first
    assert "Later events" in visitor.get("/s/long/timeline?type=user").text
    assert "No such event" in visitor.get("/s/long/timeline?type=nothing").text
    with hf.session("wide") as s:
        s.user("y" * 200_000)
        for number in range(200):
            s.user(f"question {number}.")
    assert "This is only its beginning." in visitor.get("/s/wide/timeline?from=0").text


def test_a_session_that_someone_else_has(hf, trip, visitor, store_root):
    """It is told who has it, and nothing is changed."""
    import subprocess
    import sys

    script = (
        "import sys, holdfast\n"
        "with holdfast.open(sys.argv[1]).session(sys.argv[2]) as s:\n"
        "    s.user('mine'); print('ready', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", script, os.fspath(store_root), trip],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        other.stdout.readline()
        visitor.submit(f"/s/{trip}/do/delete")
        assert 'class="note-box bad"' in visitor.get("/").text
        assert hf.exists(trip)
    finally:
        other.communicate(timeout=120)


def test_no_model(trip, visitor):
    """Talking without a model says what to do; a script is told in a sentence."""
    assert "there is no model here" in visitor.submit("/new", text="Hi").text.lower()
    headers = {"origin": "http://127.0.0.1:8000", "x-form-token": visitor.form_token}
    response = visitor.post(f"/s/{trip}/say", data={"text": "Hi"}, headers=headers)
    assert (response.status_code, response.text) == (400, "there is no model here. Set one.")
    empty = visitor.post(f"/s/{trip}/say", data={"text": " "}, headers=headers)
    assert "the message is empty" in empty.text
    assert visitor.post(f"/s/{trip}/stop", headers=headers).status_code == 204
    assert done(visitor.submit(f"/s/{trip}/stop")) == f"/s/{trip}"


def test_a_failure_of_ours(site, trip, monkeypatch, stranger):
    """A page that breaks says that the sessions are as they were, and nothing of the inside."""
    monkeypatch.setattr(type(site.hf), "trash", lambda self: 1 / 0)
    made = make_app(site)
    with type(stranger)(made, base_url=ORIGIN, raise_server_exceptions=False) as client:
        client.enter(site)
        response = client.get("/trash")
    assert response.status_code == 500
    assert "Your sessions are as they were." in response.text
    assert "ZeroDivision" not in response.text


@pytest.mark.parametrize(
    "failure",
    [
        (errors.KeyMissing("no key for this session"), 403),
        (errors.Damaged("bytes are not as written"), 409),
        (errors.StoreFull("no space is left"), 507),
        (errors.ModelFailed("the model is silent"), 502),
        (errors.HoldfastError("odd"), 500),
    ],
)
def test_failures_of_a_store(hf, trip, visitor, monkeypatch, failure):
    """Each kind has its status, its message and its remedy, on a page for people."""
    error, status = failure

    def refuse(self, id, **_):
        raise error

    monkeypatch.setattr(type(hf), "events", refuse)
    response = visitor.get(f"/s/{trip}")
    assert response.status_code == status
    assert error.message[1:] in response.text


def test_a_model_without_a_name_is_called_so(visitor, hf):
    """What an agent used and did not name is a row like the others, and no blank."""
    with hf.session("a") as session:
        session.user("hi")
        session.assistant("hello", usage={"input_tokens": 3, "output_tokens": 4})
    page = visitor.get("/activity").text
    assert "tokens of (no name) have no known price" in page
    assert '<th scope="row">(no name)</th>' in page


def test_empty_pages(visitor):
    """An empty store has a friendly word on every page."""
    assert "There are no sessions yet" in visitor.get("/").text
    assert "Nothing happened in this time" in visitor.get("/activity").text
    assert "The trash is empty" in visitor.get("/trash").text
    assert "Nothing was found" in visitor.get("/?q=word").text
    assert "No session fits" in visitor.get("/?tag=x").text


def test_a_session_by_its_id(trip, visitor):
    """The beginning of an id finds it, too, if it is long enough to mean something."""
    shown = visitor.get("/?q=trip-pl").text
    assert "Trip to Lisbon" in shown
    assert "<code>trip-planner</code>" in shown
    assert "<code>trip-planner</code>" not in visitor.get("/?q=tri").text


def test_health_of_the_store(site, visitor):
    """What was found is shown with what to do about it."""
    from holdfast.library.answers.store import Check

    site.checks = lambda: [Check("space", "warning", "little is free", "Free some.")]
    shown = visitor.get("/store").text
    assert "little is free" in shown
    assert "Free some." in shown


def test_nothing_is_deleted_while_it_answers(hf, site, trip, visitor, monkeypatch):
    """The reason is told, and the session stays."""
    monkeypatch.setattr(site.talks, "is_running", lambda _: True)
    visitor.submit(f"/s/{trip}/do/delete")
    assert "An answer is under way. Stop it first" in visitor.get("/").text
    assert hf.exists(trip)


def test_an_agent_that_is_not_installed(hf, site, trip, visitor, monkeypatch):
    """The package that is missing is named, with the command that installs it; nothing is recorded."""
    monkeypatch.delitem(sys.modules, "holdfast.agent._providers", raising=False)
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    monkeypatch.setattr(site, "talks", Talks(hf, lambda: Kit(make_model=lambda: resolve_model("openai:gpt-5"))))
    before = len(list(hf.events(trip)))
    shown = visitor.submit(f"/s/{trip}/say", text="Hi").text
    assert "needs the package pydantic_ai, which is not installed" in shown
    assert "holdfast[agent]" in shown
    assert len(list(hf.events(trip))) == before


async def test_an_answer_is_put_off_when_the_app_ends(hf, trip):
    """What nobody took back is told as interrupted, and can be gone on with."""
    from pydantic_ai.models.function import FunctionModel

    asked = asyncio.Event()

    async def never(_messages, _info):
        yield "I think"
        asked.set()
        await asyncio.Event().wait()

    talks = Talks(hf, lambda: Kit(make_model=lambda: FunctionModel(stream_function=never)))
    await talks.say(trip, "Are you there?")
    await asyncio.wait_for(asked.wait(), 60)
    await talks.close()
    assert not talks.is_running(trip)
    assert "interrupted" in [event.type for event in hf.events(trip)]
    with hf.session(trip, wait_ms=0):
        pass  # it was given back


def test_too_many_pages_follow(trip, visitor, monkeypatch):
    """The next one is told to come back later; it still shows what is there."""
    monkeypatch.setattr("holdfast.apps.web.app._STREAMS_MAX", 0)
    response = visitor.get(f"/s/{trip}/live")
    assert (response.status_code, response.headers["retry-after"]) == (503, "10")


def test_an_order_page_by_page(hf, site, visitor):
    """Every session comes once, in the order that was asked for, also far down the list."""
    for number in range(130):
        with hf.session(f"n{number:03}", title=f"Note {(number * 37) % 130:03}") as s:
            s.user("x")
    seen, after = [], "&"
    while after:
        text = visitor.get(f"/?sort=title{after}", headers={"x-part": "true"}).text
        seen += re.findall(r">(Note \d+)</a>", text)
        cursor = text.partition("after=")[2].partition('"')[0]
        after = f"&after={cursor}" if cursor else ""
    assert seen == sorted(seen)
    assert len(set(seen)) == 130


def test_the_folder_of_another_system(visitor, store_root):
    """The list says whose sessions lie there, and how to bring them in."""
    folder = store_root / "session-abc123"
    folder.mkdir(parents=True)
    line = '{"type": "user", "timestamp": 1701234567890, "data": {"content": "hi"}}'
    (folder / "events.jsonl").write_text(line)
    text = visitor.get("/").text
    assert "holds sessions of event-folder" in text
    assert f"holdfast import {store_root}" in text
    assert "There are no sessions yet" not in text
