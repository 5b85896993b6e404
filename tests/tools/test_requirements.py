"""The table of requirements: what is missing fails, what was shown is on the page."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

PLACE = Path(__file__).parents[2] / "tools" / "requirements.py"


@pytest.fixture
def tool(tmp_path, monkeypatch):
    """The tool, with a short list of its own."""
    spec = importlib.util.spec_from_file_location("requirements_tool", PLACE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "list").write_text("# why\n\nS0 First\nS0-1 one thing\nS0-2 another | B-7\n")
    monkeypatch.setattr(module, "LIST", tmp_path / "list")
    monkeypatch.setattr(module, "PAGE", tmp_path / "page.md")
    module.run = tmp_path / "results"
    return module


def ran(*tests):
    """Results of tests: name, outcome, ids; what was skipped has a reason."""
    return "".join(
        json.dumps({"test": test, "outcome": outcome, "ids": ids, "reason": "no server"}) + "\n"
        for test, outcome, *ids in tests
    )


def test_every_requirement_with_its_tests_is_on_the_page(tool):
    """Tests of all parameters are one; a resolution is named."""
    tool.run.write_text(
        ran(
            ("tests/a.py::one[x]", "passed", "S0-1"),
            ("tests/a.py::one[y]", "passed", "S0-1"),
            ("tests/b.py::two", "passed", "S0-1", "S0-2", "B-7"),
        )
    )
    assert tool.main(tool.run) == 0
    page = tool.PAGE.read_text()
    assert "| S0-1 | one thing | `tests/a.py::one`<br>`tests/b.py::two` |  |" in page
    assert "| S0-2 | another | `tests/b.py::two` | B-7 |" in page
    assert tool.main(tool.run, "--check") == 0


@pytest.mark.parametrize("outcome", ["failed", "skipped"])
@pytest.mark.parametrize("beside", [(), (("tests/b.py::two[y]", "passed", "S0-2"),)])
def test_what_no_test_shows_fails(tool, capsys, outcome, beside):
    """A test that did not pass with every variant shows nothing."""
    tool.run.write_text(ran(("tests/a.py::one", "passed", "S0-1"), ("tests/b.py::two[x]", outcome, "S0-2"), *beside))
    assert tool.main(tool.run) == 1
    assert "S0-2 (another): no test shows it" in capsys.readouterr().err


def test_why_the_tests_of_a_requirement_were_skipped_is_told(tool, capsys):
    """A requirement whose tests were all skipped fails with their reasons; the page lists skips."""
    tool.run.write_text(ran(("tests/a.py::one", "passed", "S0-1"), ("tests/b.py::two[x]", "skipped", "S0-2")))
    assert tool.main(tool.run) == 1
    assert "tests/b.py::two was skipped: x: no server" in capsys.readouterr().err
    assert "| `tests/b.py::two` | x: no server |" in tool.PAGE.read_text()


def test_one_test_that_passed_whole_is_enough(tool):
    """Another one with a variant that this machine cannot run does not take it away."""
    tool.run.write_text(ran(("tests/a.py::one", "passed", "S0-1", "S0-2"), ("tests/b.py::two[x]", "skipped", "S0-2")))
    assert tool.main(tool.run) == 0


def test_what_does_not_exist_fails(tool, capsys):
    """A number that nobody asked for is a slip."""
    tool.run.write_text(ran(("tests/a.py::one", "passed", "S0-1", "S0-2", "S0-3")))
    assert tool.main(tool.run) == 1
    assert "S0-3: tests/a.py::one names it" in capsys.readouterr().err


def test_a_page_with_a_test_that_is_gone_fails(tool, capsys):
    """Whoever renames a test makes the page anew."""
    tool.run.write_text(ran(("tests/a.py::one", "passed", "S0-1", "S0-2")))
    tool.main(tool.run)
    tool.run.write_text(ran(("tests/a.py::new", "passed", "S0-1", "S0-2")))
    assert tool.main(tool.run, "--check") == 1
    assert "there is no tests/a.py::one any more" in capsys.readouterr().err
