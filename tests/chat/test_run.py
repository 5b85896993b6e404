"""``holdfast run``: one prompt, one answer, on a session that stays."""

from __future__ import annotations

import json

import pytest

from holdfast.testing.model_server import Fail


@pytest.mark.req("S3-44")
def test_one_answer_and_the_session_stays(run, hf):
    """The answer alone is on standard output; the next run goes on."""
    assert run("run", "hello", "there") == (0, "1: you said hello there\n", "")
    assert run("run", "again").out == "2: you said again\n"
    assert len(hf.list()) == 1


def test_json_for_programs(run, hf):
    """--json has the answer, the session and what it cost."""
    found = json.loads(run("run", "hello", "--json", "--new", "--session", "nightly").out)
    assert found["output"] == "1: you said hello"
    assert (found["session_id"], found["agent"]) == ("nightly", "assistant")
    assert found["model"] == "openai:scripted"
    assert found["usage"]["output_tokens"] > 0


def test_the_prompt_from_standard_input(run):
    """`-` reads the prompt, newlines and all."""
    assert run("run", "-", text="two\nlines").out == "1: you said two\nlines\n"


@pytest.mark.parametrize("words", [("-",), ("  ",)])
def test_an_empty_prompt(run, hf, words):
    """Nothing to say is wrong usage, and nothing is recorded."""
    done = run("run", *words, text="")
    assert done.code == 2
    assert "the prompt is empty" in done.err
    assert hf.list() == []


def test_a_failing_model_fails_the_run(run, model):
    """The exit code is 1 and the error is one sentence with a remedy."""
    model.follow(lambda request: Fail(400, "no"))
    done = run("run", "hello")
    assert done.code == 1
    assert done.out == ""
    assert done.err.startswith("error: ")
    assert "Traceback" not in done.err
