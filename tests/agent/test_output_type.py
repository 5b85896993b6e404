"""Outputs of a type: asked for, checked, kept, and given back."""

from __future__ import annotations

import datetime as dt
import os
import signal
import subprocess
import sys
from dataclasses import dataclass

import pytest
from pydantic import BaseModel
from pydantic_ai import NativeOutput, TextOutput, ToolOutput

import holdfast
from holdfast.agent import Agent, ToolContext
from holdfast.errors import ModelFailed, UsageError


class City(BaseModel):
    """A city."""

    name: str
    founded: dt.date


@dataclass
class Fruit:
    """A fruit."""

    kind: str


ROME = {"name": "Rome", "founded": "0753-04-21"}
GIVEN = [("final_result", ROME)]


@pytest.mark.parametrize(
    ("output_type", "args", "value"),
    [
        (City, ROME, City(**ROME)),
        (Fruit, {"kind": "fig"}, Fruit("fig")),
        (int, {"response": 3}, 3),
        (list[City], {"response": [ROME]}, [City(**ROME)]),
        (City | Fruit, {"response": {"kind": "fig"}}, Fruit("fig")),
        ([City, Fruit], {"response": ROME}, City(**ROME)),
        (NativeOutput(City), ROME, City(**ROME)),
        (Fruit | None, {"response": None}, None),
    ],
)
def test_a_value_of_any_type(hf, script, output_type, args, value):
    """What the run gives is of the type, and the conversation ends with its JSON."""
    model = script([("final_result", args)])
    with hf.session("s") as session:
        result = Agent(model.model, output_type=output_type).run_sync("Which?", session=session)
        last = session.messages()[-1]
    assert (result.output, result.status, len(model.requests)) == (value, "completed", 1)
    assert last["role"] == "assistant"
    assert [tool.name for tool in model.infos[0].output_tools] == ["final_result"]
    assert not model.infos[0].allow_text_output


def test_a_call_by_another_name(hf, script):
    """The name and the words of a ToolOutput are what the model sees."""
    model = script([("city", ROME)])
    wanted = ToolOutput(City, name="city", description="The city.")
    assert Agent(model.model, output_type=wanted).run_sync("Which?").output == City(**ROME)
    assert model.infos[0].output_tools[0].description == "The city."


def found(name: str) -> City:
    """Found a city."""
    return City(name=name.title(), founded=dt.date(2000, 1, 1))


async def measure(context: ToolContext, name: str) -> int:
    """Measure something."""
    return len(name) + len(context.session.messages())


@pytest.mark.parametrize(
    ("output_type", "call", "value"),
    [
        (found, ("final_result", {"name": "rome"}), City(name="Rome", founded=dt.date(2000, 1, 1))),
        (measure, ("final_result", {"name": "rome"}), 7),
        ([found, Fruit], ("final_result_found", {"name": "rome"}), City(name="Rome", founded=dt.date(2000, 1, 1))),
        ([found, Fruit], ("final_result", {"kind": "fig"}), Fruit("fig")),
        (ToolOutput(measure, name="size"), ("size", {"name": "rome"}), 7),
        ([ToolOutput(City, name="city"), ToolOutput(Fruit, name="fruit")], ("fruit", {"kind": "fig"}), Fruit("fig")),
        ([ToolOutput(City), ToolOutput(Fruit)], ("final_result_Fruit", {"kind": "fig"}), Fruit("fig")),
        (ToolOutput(str), ("final_result", {"response": "7"}), "7"),
    ],
)
def test_a_function_or_a_call_of_its_own(hf, script, output_type, call, value):
    """A function gets what the model gives, and its result is the output; each ToolOutput is a call of its own."""
    model = script([call])
    with hf.session("s") as session:
        result = Agent(model.model, output_type=output_type).run_sync("Which?", session=session)
        assert session.messages()[-1]["role"] == "assistant"
    assert (result.output, len(model.requests)) == (value, 1)
    assert call[0] in [tool.name for tool in model.infos[0].output_tools]


def test_a_function_of_words_makes_the_output(script, texts):
    """What it refuses is told to the model, which answers once more."""

    def count(words: str) -> int:
        if not words.isdigit():
            raise ValueError("no number")
        return int(words)

    model = script("many", "12")
    assert Agent(model.model, output_type=[TextOutput(count), City]).run_sync("How many?").output == 12
    assert "no number" in texts(model.requests[1])[-1]


def test_a_result_without_a_form_in_json_is_what_people_see_of_it(script):
    """The value is the same for the process that made it and for a later one: made from the record."""

    def build(name: str):
        return {"name": name, "what": object}

    output = Agent(script([("final_result", {"name": "x"})]).model, output_type=build).run_sync("Build").output
    assert output == {"name": "x", "what": str(object)}


def test_a_result_that_is_not_of_the_type_it_says_is_told(script):
    """A function that is wrong about itself gives nothing."""

    def build(name: str) -> City:
        return name

    with pytest.raises(ModelFailed, match="in 3 tries"):
        Agent(script([("final_result", {"name": "x"})]).model, output_type=build).run_sync("Build")


def test_what_does_not_fit_is_told_to_the_model(hf, script, texts):
    """A wrong value and mere words are answered; the value that fits ends the run."""
    model = script([("final_result", {"name": "Rome"})], "It is Rome", GIVEN)
    with hf.session("s") as session:
        assert Agent(model.model, output_type=City).run_sync("Which?", session=session).output == City(**ROME)
    assert any("founded" in text and "Field required" in text for text in texts(model.requests[1]))
    assert "calling final_result" in texts(model.requests[2])[-1]


@pytest.mark.parametrize("step", ["words", [("final_result", {"name": "Rome"})]])
def test_a_model_that_never_gives_a_value_fails(hf, script, step):
    """After three tries, with the tries on record."""
    model = script(step)
    with hf.session("s") as session, pytest.raises(ModelFailed, match="in 3 tries"):
        Agent(model.model, output_type=City).run_sync("Which?", session=session)
    assert len(model.requests) == 3


def test_a_text_where_that_is_one_of_the_types(script):
    """With str among the types an answer in words is the output."""
    assert Agent(script("Hello").model, output_type=[str, City]).run_sync("Hi").output == "Hello"
    assert Agent(script("Hello").model, output_type=str).run_sync("Hi").output == "Hello"


def test_the_conversation_goes_on_after_a_value(hf, script):
    """The next prompt gets a value of its own, not the one before."""
    model = script(GIVEN, [("final_result", ROME | {"name": "Roma"})])
    with hf.session("s") as session:
        agent = Agent(model.model, output_type=City)
        assert agent.run_sync("Which?", session=session).output.name == "Rome"
        assert agent.run_sync("In Italian?", session=session).output.name == "Roma"


async def test_a_stream_tells_the_value(script):
    """Whoever reads along gets the JSON."""
    stream = Agent(script(GIVEN).model, output_type=City).run_stream("Which?")
    assert "".join([piece async for piece in stream]) == '{"name":"Rome","founded":"0753-04-21"}'
    assert stream.result.output == City(**ROME)


def test_a_delegate_with_a_type(hf, script):
    """Who asked it gets the JSON."""
    helper = Agent(script(GIVEN).model, name="helper", output_type=City)
    model = script([("ask_helper", {"task": "Which?"})], "done")
    with hf.session("s") as session:
        Agent(model.model, delegates=[helper]).run_sync("Ask", session=session)
        ended = next(e for e in session.events() if e.type == "delegation_complete")
    assert '"Rome"' in ended.data["result"]


PROGRAM = """
import os, signal, sys
import holdfast
from pydantic import BaseModel
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from holdfast.agent import Agent

class City(BaseModel):
    name: str

def answer(messages, info):
    return ModelResponse(parts=[ToolCallPart("final_result", {"name": "Rome"}, "c1")])

def book(name: str) -> City:
    with open(sys.argv[3], "a") as file:
        print(name, file=file)
    if sys.argv[2] == "inside":
        os.kill(os.getpid(), signal.SIGKILL)
    return City(name=name)

with holdfast.open(sys.argv[1]).session("s") as session:
    def until(record):
        def recorded(*args, **more):
            done = record(*args, **more)
            if sys.argv[2] in [event.type for event in (done if isinstance(done, list) else [done])]:
                os.kill(os.getpid(), signal.SIGKILL)
            return done
        return recorded
    session.append, session.extend = until(session.append), until(session.extend)
    Agent(FunctionModel(answer), output_type=book if sys.argv[3:] else City).run_sync("Which?", session=session)
"""


@pytest.mark.parametrize("died_at", ["tool_call", "tool_result", "assistant"])
def test_a_value_survives_the_process(store_root, script, died_at):
    """Killed after the model gave it, at any event: the next process gives it back, and asks no model."""
    died = subprocess.run([sys.executable, "-c", PROGRAM, os.fspath(store_root), died_at], check=False)
    assert died.returncode == -signal.SIGKILL
    model = script("never asked")
    with holdfast.open(store_root).session("s") as session:
        result = Agent(model.model, output_type=Place).run_sync(None, session=session)
    assert (result.output, model.requests) == (Place(name="Rome"), [])


@pytest.mark.parametrize(("died_at", "done"), [("tool_call", 0), ("inside", 1), ("tool_result", 1)])
def test_a_function_is_not_called_again_after_a_kill(  # noqa: PLR0917 - what it needs
    store_root, script, texts, tmp_path, died_at, done
):
    """Its result is found; of a call that was cut off the model is told that its outcome is not known."""
    effects = tmp_path / "effects"
    effects.touch()
    command = [sys.executable, "-c", PROGRAM, os.fspath(store_root), died_at, os.fspath(effects)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL

    def book(name: str) -> Place:
        raise AssertionError(name)

    model = script("It may be booked.")
    with holdfast.open(store_root).session("s") as session:
        result = Agent(model.model, output_type=[book, str]).run_sync(None, session=session)
    assert len(effects.read_text().split()) == done
    if died_at == "tool_result":
        assert (result.output, model.requests) == (Place(name="Rome"), [])
    else:
        assert any("whether this call took effect is unknown" in text for text in texts(model.requests[0]))


class Place(BaseModel):
    """What the next process calls it."""

    name: str


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        object(),
        [TextOutput(str.upper), TextOutput(str.lower)],
        [ToolOutput(City, name="a"), ToolOutput(int, name="a")],
    ],
)
def test_what_is_no_type_is_refused(script, wrong):
    """Before there is an agent."""
    with pytest.raises(UsageError, match="output_type"):
        Agent(script("x").model, output_type=wrong)


def test_a_tool_of_the_same_name_is_refused(script):
    """The call that ends the run is the only one of its name."""

    def final_result() -> str:
        """Clash."""

    with pytest.raises(UsageError, match="final_result"):
        Agent(script("x").model, tools=[final_result], output_type=City)
