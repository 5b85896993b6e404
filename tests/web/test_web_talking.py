"""Following sessions while they are written, and talking on them, in a real browser."""

from __future__ import annotations

import subprocess
import sys
import threading
from functools import partial

import pytest

import holdfast
from holdfast.agent import Kit
from holdfast.testing.model_server import AskForTool, Fail, Say, ScriptedModel

WRITER = """
import sys, holdfast
with holdfast.open(sys.argv[1]) as hf, hf.session(sys.argv[2]) as s:
    for line in sys.stdin:
        kind, _, text = line.strip().partition(" ")
        if kind == "call":
            call = s.tool_call(text, {"depth": 3})
        elif kind == "result":
            s.tool_result(call, text)
        else:
            getattr(s, kind)(text)
        print("done", flush=True)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A store with one session."""
    place = tmp_path_factory.mktemp("talks") / "store"
    with holdfast.open(place) as hf:
        for name in ("written-elsewhere", "talked-on"):
            with hf.session(name, title=name.replace("-", " ")) as s:
                s.user("Good morning")
                s.assistant("Good morning to you.")
        yield hf


@pytest.fixture(scope="module")
def model():
    """A model that a test gives its script."""
    scripts = []

    def answer(request):
        return scripts[-1](request)

    with ScriptedModel(answer, strict=False) as model:
        model.follow = scripts.append
        yield model


@pytest.fixture(scope="module")
def page(visit, library, model):
    """A page of a browser that came in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", model.openai_url)
        patch.setenv("OPENAI_API_KEY", "none")
        patch.setattr("holdfast.apps.web._actions._REST_MS", 100)
        kit = partial(Kit.configured, None, model="openai:scripted", agent="helper")
        with visit(library, kit) as (page, _):
            yield page


def sees(page, text, within="main"):
    """Wait until a text is shown."""
    page.locator(within, has_text=text).first.wait_for()


def test_live_follow(page, library):
    """What another process records appears by itself: streamed words, calls, results."""
    page.goto("/s/written-elsewhere")
    sees(page, "Following live")
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, library.store.path, "written-elsewhere"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip

    def write(line):
        writer.stdin.write(f"{line}\n")
        writer.stdin.flush()
        assert writer.stdout.readline() == "done\n"

    try:
        write("user How deep is the lake?")
        sees(page, "How deep is the lake?", "article.user")
        write("call sonar")
        page.locator("#open-end details.tool", has_text="sonar").locator("summary").click()
        sees(page, "No result is recorded", "#open-end")
        write("result forty metres")
        sees(page, "forty metres", "#entries details.tool")
        write("delta About for")
        sees(page, "About for", "#open-end article.assistant")
        sees(page, "writing", "#open-end")
        write("delta ty metres,")
        sees(page, "About forty metres,", "#open-end article.assistant")
        write("assistant About forty metres, I think.")
        sees(page, "I think.", "#entries article.assistant")
        assert page.locator("#open-end article").count() == 0
        assert page.locator("article", has_text="About forty metres").count() == 1
    finally:
        writer.stdin.close()
        writer.wait(120)
        writer.stdout.close()


def test_a_chat(page, library, model):
    """A message is answered on the page, word by word, and all of it is recorded."""
    model.follow(lambda request: Say("It is **noon** by the harbour clock."))
    page.goto("/s/talked-on")
    page.keyboard.press("m")
    page.locator("#text:focus").wait_for()
    page.keyboard.type("What time is it?")
    page.keyboard.press("Enter")
    sees(page, "What time is it?", "article.user")
    page.locator("#entries article.assistant strong", has_text="noon").wait_for()
    page.locator("#stop").wait_for(state="hidden")
    assert page.locator("#text").input_value() == ""
    assert [e.data["content"] for e in library.events("talked-on", types=("assistant",))][-1] == (
        "It is **noon** by the harbour clock."
    )


def test_a_failed_answer_is_tried_again(page, library, model):
    """The failure is told once, in words; one click asks the model again."""
    model.follow(lambda request: Fail(529, "Overloaded"))
    page.goto("/s/talked-on")
    page.locator("#text").fill("Are you there?")
    page.keyboard.press("Enter")
    sees(page, "overloaded (529: Overloaded)", "#entries .error-line")
    again = page.get_by_role("button", name="Try again")
    again.wait_for()
    assert page.locator("#trouble").is_hidden()
    model.follow(lambda request: Say("Here I am."))
    again.click()
    sees(page, "Here I am.", "#entries article.assistant")
    again.wait_for(state="hidden")


def test_a_new_chat(page, library, model):
    """It begins with the first message, and has a page of its own at once."""
    model.follow(lambda request: Say("Ahoy."))
    page.goto("/new")
    page.get_by_label("First message").fill("Say ahoy")
    page.get_by_role("button", name="Begin").click()
    page.wait_for_url("**/s/**")
    sees(page, "Ahoy.", "#entries article.assistant")
    assert library.list(1)[0].agent_id == "helper"


def test_stop(page, library, model):
    """An answer is stopped; what was said is kept, and the next one can begin."""
    model.follow(lambda request: Say("begin " + "word " * 4_000, pause_s=0.05))
    page.goto("/s/talked-on")
    page.get_by_label("Message to the agent").fill("Tell me a story")
    page.get_by_role("button", name="Send").click()
    sees(page, "begin word", "#open-end")
    page.get_by_role("button", name="Stop", exact=True).click()
    page.locator("#stop").wait_for(state="hidden")
    sees(page, "cut off", "#entries article .who")
    model.follow(lambda request: Say("Calm again."))
    page.get_by_label("Message to the agent").fill("Thank you")
    page.get_by_role("button", name="Send").click()
    sees(page, "Calm again.", "#entries article")


def test_a_word_while_it_works(page, library, model):
    """What is sent while an answer comes is heard in the same turn; *Stop and say* cuts the answer off for it."""
    held = threading.Event()

    def answer(request):
        said = str(request.messages[-1])
        if "Count slowly" in said:
            held.wait(60)
            return Say("begin " + "word " * 4_000, pause_s=0.05)
        return Say("Aye, in French." if "in French" in said else "Quiet now.")

    model.follow(answer)
    page.goto("/s/talked-on")
    page.get_by_label("Message to the agent").fill("Count slowly")
    page.get_by_role("button", name="Send").click()
    page.locator("#interrupt").wait_for()
    held.set()
    sees(page, "begin word", "#open-end")
    page.get_by_label("Message to the agent").fill("be quiet")
    page.get_by_role("button", name="Stop and say").click()
    sees(page, "Quiet now.", "#entries article.assistant")
    sees(page, "be quiet", "#entries article.user")
    page.locator("#interrupt").wait_for(state="hidden")
    words = [event.data for event in library.events("talked-on", types=("steer",))]
    assert [(one["content"], one.get("interrupt")) for one in words] == [("be quiet", True)]
    turns = list(library.events("talked-on", types=("turn_start", "turn_end")))
    assert [event.type for event in turns[-2:]] == ["turn_start", "turn_end"]
    assert turns[-1].data["reason"] == "completed"


def test_permission(page, library, model):
    """A tool that needs it is asked for below the conversation, also after a reload; the answer lets it go on."""
    answers = iter([AskForTool("read_file", {"path": "<b>notes</b>"}), Say("Noted.")])
    model.follow(lambda request: next(answers))
    page.goto("/s/talked-on")
    page.get_by_label("Message to the agent").fill("Read my notes")
    page.get_by_role("button", name="Send").click()
    question = page.get_by_role("article", name="May it use read_file?")
    question.wait_for()
    assert "<b>notes</b>" in question.inner_text()
    page.reload()
    question.wait_for()
    assert page.get_by_role("link", name="Waiting 1").count() == 1
    question.get_by_role("button", name="Allow once").click()
    sees(page, "Noted.", "#entries article")
    page.locator("article.question").wait_for(state="detached")
    [approved] = library.events("talked-on", types=("tool_result",))
    assert "notes" in str(approved.data)


def test_an_answer_from_elsewhere_lets_the_talk_go_on(page, library, model):
    """Allowed at the command or by another program, the agent of the page goes on by itself."""
    answers = iter([AskForTool("read_file", {"path": "more"}), Say("Read on.")])
    model.follow(lambda request: next(answers))
    page.goto("/s/talked-on")
    page.get_by_label("Message to the agent").fill("Read more")
    page.get_by_role("button", name="Send").click()
    page.get_by_role("article", name="May it use read_file?").wait_for()
    [one] = library.waiting(session="talked-on")
    library.answer(one.id, False, because="not now")
    sees(page, "Read on.", "#entries article")


def test_a_model_that_fails(page, model):
    """The reason is shown as text, and the page goes on working."""
    model.follow(lambda request: Fail(400, "<img src=x onerror=alert(1)> no such model"))
    page.goto("/s/talked-on")
    page.get_by_label("Message to the agent").fill("Are you there?")
    page.get_by_role("button", name="Send").click()
    sees(page, "no such model", "#entries .error-line")
    assert page.locator(".error-line img").count() == 0


def test_two_messages_at_once(page, library, model):
    """A second message while an answer is under way is heard before the next step, in the same turn."""
    gate = threading.Event()

    def slow(request):
        gate.wait(120)
        return Say("And the second." if "Second" in str(request.messages[-1]) else "At last.")

    model.follow(slow)
    page.goto("/s/talked-on")
    before = len(list(library.events("talked-on", types=("turn_start",))))
    for text in ("First", "Second"):
        page.get_by_label("Message to the agent").fill(text)
        page.get_by_role("button", name="Send").click()
        page.locator("#interrupt").wait_for()
    sees(page, "hears it before its next step", "#say")
    gate.set()
    sees(page, "And the second.", "#entries article")
    assert len(list(library.events("talked-on", types=("turn_start",)))) == before + 1


def test_a_session_is_given_back(page, library, model):
    """Some time after an answer the session rests, and others may write to it."""
    model.follow(lambda request: Say("Here."))
    page.goto("/s/talked-on")
    page.get_by_label("Message to the agent").fill("Still there?")
    page.get_by_role("button", name="Send").click()
    sees(page, "Here.", "#entries article")
    for _ in range(2_400):
        if not library.info("talked-on").open:
            break
        page.wait_for_timeout(50)
    assert not library.info("talked-on").open
    model.follow(lambda request: Say("Again."))
    page.get_by_label("Message to the agent").fill("And now?")
    page.get_by_role("button", name="Send").click()
    sees(page, "Again.", "#entries article")


def test_the_inbox_follows_its_questions(page, library):
    """One that comes appears, one that is answered elsewhere goes, and what is typed about another stays."""

    def ask(id, number):
        with library.session(id) as s:
            s.append("tool_call", {"id": "c1", "tool": f"pay_{number}", "params": {"amount": number}, "begun": False})
            s.append("suspended", {"id": f"{number:012x}", "kind": "permission", "call": "c1", "tool": f"pay_{number}"})

    page.goto("/waiting")
    sees(page, "Nothing waits for you")
    ask("bill-1", 1)
    sees(page, "pay_1", "article.question")
    sees(page, "1", '[data-go="w"] .count')
    page.locator("#q-000000000001 summary").click()
    field = page.locator("#a-000000000001")
    field.fill('{"amount": 7}')
    ask("bill-2", 2)
    sees(page, "pay_2", "article.question")
    library.answer("000000000002", False)
    page.locator("#q-000000000002").wait_for(state="detached")
    assert field.input_value() == '{"amount": 7}'
    assert field.evaluate("(field) => field === document.activeElement")
    library.answer("000000000001", False)
    sees(page, "Nothing waits for you")
