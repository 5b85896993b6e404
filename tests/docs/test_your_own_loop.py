"""The programs of the page "Your own loop" run as they stand, and never act twice.

Each runs in a process of its own, with the provider's own library, against a scripted model that
books whenever the conversation does not tell it of a booking.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.testing.model_server import AskForTool, Say, ScriptedModel

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "your-own-loop.md"
PROGRAMS = {
    "OpenAI, chat completions": ("openai", "openai"),
    "OpenAI, Responses": ("openai", "openai-responses"),
    "Anthropic": ("anthropic", "anthropic"),
    "Gemini": ("google.genai", "gemini"),
}
KILLED = """
import os, signal
from pathlib import Path

def book_flight(to):
    with Path("bookings.txt").open("a") as bookings:
        bookings.write(f"{to}\\n")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def block_after(words):
    """The first program after some words of the page."""
    return PAGE.read_text(encoding="utf-8").partition(words)[2].split("```python\n")[1].split("```")[0]


def traveller(request):
    """A model that books unless it is told that it did, or may have done so."""
    told = json.dumps(request.messages)
    if "interrupted" in told:
        return Say("It may be booked already; please look.")
    if "Booked a flight" in told:
        return Say("Done.")
    return AskForTool("book_flight", {"to": "Rome"})


@pytest.fixture(params=PROGRAMS)
def loop(request, tmp_path):
    """Run one of the programs in its own folder; gives how it ended."""
    library, provider = PROGRAMS[request.param]
    pytest.importorskip(library)
    (tmp_path / "program.py").write_text(block_after(f"## {request.param}\n"), encoding="utf-8")

    def run(model, *words, travel=None):
        module = travel or block_after("in `travel.py`:")
        (tmp_path / "travel.py").write_text(module, encoding="utf-8")
        keys = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")
        urls = {"OPENAI_BASE_URL": model.openai_url, "ANTHROPIC_BASE_URL": model.url}
        return subprocess.run(
            [sys.executable, "program.py", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            env=os.environ
            | dict.fromkeys(keys, "any")
            | urls
            | {"GOOGLE_GEMINI_BASE_URL": model.url, "HOLDFAST_STORE": str(tmp_path / "store")},
        )

    run.provider = provider
    run.folder = tmp_path
    return run


def test_a_program_books_once_and_goes_on(loop):
    """The program calls the tool, answers, and the next run has the whole conversation."""
    with ScriptedModel(traveller) as model:
        first = loop(model, "Book a flight to Rome")
        second = loop(model, "Thank you")
    assert (first.returncode, first.stdout) == (0, "Done.\n"), first.stderr
    assert (second.returncode, second.stdout) == (0, "Done.\n"), second.stderr
    assert model.refused == []
    assert (loop.folder / "bookings.txt").read_text() == "Rome\n"
    with holdfast.open(loop.folder / "store") as hf:
        told = hf.recover("trip", loop.provider)
        assert told.issues == []
        assert hf.state("trip").usage.output_tokens > 0
        assert [(use.name, use.calls) for use in hf.stats().tools] == [("book_flight", 1)]
        hits = hf.search("Rome", tool="book_flight")
        assert sorted(hit.role for hit in hits) == ["tool_call", "tool_result"]
    assert len(model.requests) == 3
    assert model.requests[-1].messages == told.messages[: len(model.requests[-1].messages)]


def test_a_program_that_is_killed_in_its_tool_does_not_act_again(loop):
    """Kill -9 after the side effect: the next run tells the model, and there is one booking."""
    with ScriptedModel(traveller) as model:
        killed = loop(model, "Book a flight to Rome", travel=KILLED)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        with holdfast.open(loop.folder / "store") as hf:
            (pending,) = hf.state("trip").pending_calls.values()
            assert (pending.tool, pending.begun) == ("book_flight", True)
        again = loop(model, "Book a flight to Rome")
    assert again.returncode == 0, again.stderr
    assert again.stdout == "It may be booked already; please look.\n"
    assert model.refused == []
    assert (loop.folder / "bookings.txt").read_text() == "Rome\n"
    assert sum("Book a flight" in json.dumps(one) for one in model.requests[-1].messages) == 1
