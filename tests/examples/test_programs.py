"""Every program in examples/ runs, does what it says, and goes on when it runs again."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import runpy
import subprocess
import sys
import warnings
from pathlib import Path
from unittest import mock

import pytest

from holdfast.testing import StoreContract
from holdfast.testing.model_server import AskForTool, Say, ScriptedModel

EXAMPLES = Path(__file__).parents[2] / "examples"


def last_words(request):
    """The last message of a request as text."""
    return str(request.messages[-1])


def in_a_process(program, words):
    """Run a program as a user would; what it prints."""
    done = subprocess.run(
        [sys.executable, program, *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "error"},
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def right_here(program, words):
    """The same in this process, which loads the model engine once: that takes longest."""
    out = io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        mock.patch.object(sys, "argv", [str(program), *words]),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")
        runpy.run_path(str(program), run_name="__main__")
    return out.getvalue()


@pytest.fixture
def example(store_root, tmp_path, monkeypatch):
    """Run an example on a scripted model; what it prints."""
    monkeypatch.chdir(tmp_path)
    settings = {"HOLDFAST_STORE": str(store_root), "HOLDFAST_MODEL": "openai:scripted"}
    for name, value in {**settings, "OPENAI_API_KEY": "none"}.items():
        monkeypatch.setenv(name, value)

    def example(name, *words, script=None, run=right_here):
        with ScriptedModel(script or [Say("unused")]) as model:
            monkeypatch.setenv("OPENAI_BASE_URL", model.openai_url)
            printed = run(EXAMPLES / f"{name}.py", words)
            assert model.refused == []
            example.requests = model.requests
        return printed

    return example


def test_every_example_is_tested():
    """No program in examples/ is without a test, here or in test_redis_store.py."""
    tested = {"simple", "advanced", "manual_control", "delegation", "custom_storage", "redis_store"}
    assert {path.stem for path in EXAMPLES.glob("*.py")} == tested


@pytest.mark.req("S0-55")
@pytest.mark.req("S0-56")
def test_simple(example):
    """The first run starts empty and is saved; the second has the earlier conversation."""
    first = example("simple", "My name is Alice", script=[Say("Hello Alice")], run=in_a_process)
    assert "Hello Alice" in first
    assert "2 messages" in first
    second = example("simple", "What is my name?", script=[Say("Alice")], run=in_a_process)
    assert "4 messages" in second
    assert "My name is Alice" in str(example.requests[0].messages)


@pytest.mark.req("S0-57")
def test_manual_control(example):
    """Only what was saved is there the next time."""
    assert example("manual_control", "Remember 7", script=[Say("seven")]).splitlines() == [
        "nothing was saved before",
        "seven",
        "saved",
    ]
    assert "left unsaved" in example("manual_control", "forget 8", script=[Say("eight")])
    assert example("manual_control", "And?", script=[Say("nine")]).startswith("loaded\n")
    seen = str(example.requests[0].messages)
    assert "Remember 7" in seen
    assert "forget 8" not in seen


def test_advanced(example):
    """Tools run after their permission, and leave variables, todos and a readable log."""
    script = [
        AskForTool("find_restaurants", {"city": "Lisbon"}),
        AskForTool("book_table", {"restaurant": "Taberna do Mar", "guests": 2}),
        Say("Your table is booked."),
    ]
    out = example("advanced", script=script)
    assert "[allowed book_table" in out
    assert "Your table is booked." in out
    assert "variables: {'booking': {'restaurant': 'Taberna do Mar', 'guests': 2}}" in out
    assert "todos: ['Go to Taberna do Mar']" in out
    told = [line.split()[1] for line in out.splitlines()[-5:]]
    assert sorted(told) == ["permission", "tool_call", "tool_call", "tool_result", "tool_result"]
    assert told.index("permission") < 4  # decided before the second result


@pytest.mark.req("S3-43")
def test_delegation(example):
    """The child's work is in the log under its name, and not in the parent's conversation."""

    def script(request):
        text = last_words(request)
        if "sunny" in text and "Lisbon is sunny" not in text:
            return Say("Lisbon is sunny.")
        if "look it up" in text:
            return AskForTool("weather", {"city": "Lisbon"})
        if "Lisbon is sunny" in text:
            return Say("Take sunglasses.")
        return AskForTool("ask_researcher", {"task": "look it up"})

    out = example("delegation", script=script)
    assert out.splitlines()[0] == "Take sunglasses."
    assert "delegation: lead -> researcher" in out
    assert "delegation_complete: lead -> researcher" in out
    assert "tool_call: researcher" in out
    assert "conversation: ['user', 'assistant', 'user', 'assistant']" in out


@pytest.mark.req("S0-60")
def test_custom_storage(example):
    """A store of one's own keeps a session and gives it back."""
    out = example("custom_storage")
    assert "restored: True ['My name is Alice', 'Hello Alice']" in out
    assert "my-app/sessions/trip-planner/log" in out


def _custom_storage():
    spec = importlib.util.spec_from_file_location("custom_storage", EXAMPLES / "custom_storage.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.req("S0-60")
class TestBucketStore(StoreContract):
    """The example's store keeps the whole store contract."""

    def make_store(self):
        found = _custom_storage()
        return found.BucketStore(found.Bucket(), prefix="contract")
