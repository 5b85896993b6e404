"""When there are colours: what the user says, what the environment says, where it goes."""

from __future__ import annotations

import pytest

from holdfast.apps.cli._app import Flags, asked
from holdfast.apps.cli._screen import wants_colour

COLOURED = "\x1b[36mtrip-planner"


@pytest.mark.parametrize(
    ("choice", "is_terminal", "environment", "expected"),
    [
        (None, True, {}, True),
        (None, False, {}, False),
        ("auto", True, {}, True),
        ("auto", False, {"FORCE_COLOR": "1"}, True),
        ("always", False, {"NO_COLOR": "1"}, True),
        ("never", True, {"FORCE_COLOR": "1"}, False),
        (None, True, {"NO_COLOR": "1"}, False),
        (None, True, {"NO_COLOR": ""}, True),
        (None, False, {"FORCE_COLOR": "1"}, True),
        (None, False, {"FORCE_COLOR": "0"}, False),
        (None, False, {"FORCE_COLOR": ""}, False),
        (None, False, {"CLICOLOR_FORCE": "1"}, True),
        (None, True, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        (None, True, {"CLICOLOR": "0"}, False),
        (None, False, {"CLICOLOR": "1"}, False),
    ],
)
def test_who_decides(choice, is_terminal, environment, expected):
    """The option, then NO_COLOR, then what forces colours, then the place."""
    assert wants_colour(choice, is_terminal=is_terminal, environment=environment) is expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], Flags()),
        (["list", "--json"], Flags(as_json=True)),
        (["show", "--", "--json"], Flags()),
        (["list", "--color", "never"], Flags(colour="never")),
        (["list", "--color=always", "--no-pager"], Flags(colour="always", pager=False)),
        (["list", "--color", "purple"], Flags()),
        (["list", "--color"], Flags()),
    ],
)
def test_what_is_asked(words, expected):
    """The command line is understood as far as it can be, also if the rest of it is wrong."""
    assert asked(words) == expected


def test_a_pipe(run, trip):
    """Plain by itself; coloured if that is asked for, with nothing else changed."""
    plain = run("list").out
    assert "\x1b" not in plain
    for coloured in (
        run("list", "--color", "always").out,
        run("list", env={"FORCE_COLOR": "1"}).out,
        run("--color", "always", "list").out,
    ):
        assert COLOURED in coloured
        assert _without_colours(coloured) == plain
    assert "\x1b" not in run("list", "--color", "never", env={"FORCE_COLOR": "1"}).out


@pytest.mark.parametrize("arguments", [["show", "trip", "--full"], ["stats"], ["compare", "-", "-"]])
def test_only_colours_are_added(run, trip, arguments):
    """Without its colours the page is the plain one."""
    coloured = run(*arguments, "--color", "always").out
    assert "\x1b[" in coloured
    assert _without_colours(coloured) == run(*arguments).out


def test_failures_have_them_too(run):
    """The word before a failure is coloured as the rest would be."""
    assert run("show", "no-such", "--color", "always").err.startswith("\x1b[1;31merror: \x1b[0m")
    assert run("list", "--nonsense", "--color=always").err.startswith("\x1b[1;31merror: \x1b[0m")
    assert run("show", "no-such", "--color", "never").err.startswith("error: ")


def test_a_choice_that_is_none(run):
    """Another word is wrong usage."""
    outcome = run("list", "--color", "purple")
    assert outcome.code == 2
    assert "'auto', 'always', 'never'" in outcome.err


def test_a_terminal(tty, trip):
    """Colours on a terminal unless they are switched off."""
    assert COLOURED in tty("list").out
    assert "\x1b" not in tty("list", NO_COLOR="1").out
    assert "\x1b" not in tty("list", "--color", "never").out
    assert "\x1b" not in tty("list", TERM="dumb").out


def test_json_has_none(run, trip):
    """JSON stays JSON."""
    assert "\x1b" not in run("list", "--json", "--color", "always").out


def _without_colours(text):
    import re

    return re.sub(r"\x1b\[[0-9;]*m", "", text)
