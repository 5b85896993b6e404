"""The inbox as a page: what sessions of any program wait for, answered by plain forms."""

from __future__ import annotations

import datetime as dt

import pytest

pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed")

from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from holdfast import Result
from holdfast.agent import Agent, Suspend, Tool
from holdfast.errors import UsageError


def edit_file(path: str, old_string: str, new_string: str) -> str:
    """Edit."""
    return "edited"


def ask_person() -> str:
    """Ask."""
    raise Suspend("Which train?")


def sleep() -> str:
    """Sleep."""
    raise Suspend(until=dt.datetime.now(dt.UTC) + dt.timedelta(days=1))


EDIT = ("edit_file", {"path": "a<b>.py", "old_string": "one\ntwo", "new_string": "one\n<i>2</i>"})


def ask(hf, *calls, id="work"):
    """A session of some program that waits; its questions."""
    model = FunctionModel(lambda *_: ModelResponse(parts=[TextPart("Now."), *[ToolCallPart(*call) for call in calls]]))
    tools = [Tool(edit_file, needs_permission=True), Tool(ask_person), Tool(sleep)]
    with hf.session(id, title="The work") as s:
        Agent(model, name="coder", tools=tools, permission="suspend", hf=hf).run_sync("go", session=s)
    return hf.waiting(session=id)


def answer_of(hf, one):
    """What was answered, as who gives another answer is told."""
    with pytest.raises(UsageError, match="answered already") as told:
        hf.answer(one.id, Result("another"))
    return str(told.value)


def test_a_change_is_shown_as_a_diff_and_nothing_in_it_is_markup(hf, visitor):
    """Lines that go and come, the other arguments beside them, the number of questions in every header."""
    [one] = ask(hf, EDIT)
    for url in ("/waiting", "/s/work", "/s/work/questions"):
        page = visitor.get(url).text
        assert "<del>-two</del><ins>+&lt;i&gt;2&lt;/i&gt;</ins>" in page
        assert "a&lt;b&gt;.py" in page
        assert f'action="/waiting/{one.id}"' in page
    assert '<span class="count" title="1 question">1</span>' in visitor.get("/").text


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"do": "allow"}, "allowed by"),
        ({"do": "deny", "because": "not today"}, "denied by"),
        ({"do": "edit", "text": '{"path": "b.py"}'}, "allowed with other arguments by"),
    ],
)
def test_an_answer_is_a_form(hf, visitor, form, told):
    """Allow, deny with a reason, other arguments: kept durably, for whoever runs the agent."""
    [one] = ask(hf, EDIT)
    response = visitor.submit(f"/waiting/{one.id}", back="/s/work", **form)
    assert (response.status_code, response.headers["location"]) == (303, "/s/work")
    assert "Whoever runs its agent goes on with it." in visitor.get("/waiting").text
    assert (hf.waiting(), hf.inbox.due()) == ([], ["work"])
    assert told in answer_of(hf, one)
    assert "nobody has gone on with it yet" in visitor.get("/s/work").text


def test_a_tool_that_asks_is_answered_in_words(hf, visitor):
    """What is written is the result of the call; a time is only told."""
    asked, _ = sorted(ask(hf, ("ask_person", {}), ("sleep", {})), key=lambda one: one.kind)
    page = visitor.get("/waiting").text
    assert "Which train?" in page
    assert "sleep: until" in page
    assert visitor.submit(f"/waiting/{asked.id}", do="result", text="the 9:11").status_code == 303
    assert "answered by" in answer_of(hf, asked)


def test_arguments_that_are_no_json_are_shown_again(hf, visitor):
    """Nothing is answered, and what was typed is not lost."""
    [one] = ask(hf, EDIT)
    response = visitor.submit(f"/waiting/{one.id}", do="edit", text="{no json")
    assert response.status_code == 400
    assert "arguments are not valid JSON" in response.text
    assert "{no json</textarea>" in response.text
    assert [found.id for found in hf.waiting()] == [one.id]


def test_what_cannot_be_answered_is_told(hf, visitor):
    """An id that is not there, an answered one, and a word that is no answer."""
    [one] = ask(hf, EDIT)
    for url, form in (("/waiting/none", {"do": "allow"}), (f"/waiting/{one.id}", {"do": "perhaps"})):
        assert visitor.submit(url, **form).status_code == 303
    page = visitor.get("/waiting").text
    assert "No open question begins with" in page
    assert "is no answer to this question" in page
    assert visitor.submit(f"/waiting/{one.id}", token="wrong", do="allow").status_code == 403
    assert len(hf.waiting()) == 1
