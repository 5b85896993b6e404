"""The table of slash commands, which chat and editors share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent.commands import COMMANDS, offered_commands, read_command
from holdfast.apps.acp.agent import server as acp
from holdfast.apps.cli import _chat as chat


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("/title", ("title", "")),
        ("  /title  A trip \n", ("title", "A trip")),
        ("/clear", ("new", "")),
        ("/resume trip", ("sessions", "trip")),
        ("/usr/bin/env", None),
        ("//title", None),
        ("title", None),
        ("", None),
    ],
)
def test_what_is_a_command(line, read):
    """``/word`` and what follows it; neither a path nor two slashes nor other words."""
    assert read_command(line) == read


@given(st.text())
def test_any_line_can_be_read(line):
    """Whatever was typed is a command with a name of letters, or none."""
    found = read_command(line)
    assert found is None or (found[0].isascii() and found[0].isalpha())


@pytest.mark.parametrize("place", [chat, acp], ids=["chat", "acp"])
def test_every_place_offers_what_needs_a_session_alone(place):
    """In the words of the table, which are one for all places."""
    alone = {name for name, command in COMMANDS.items() if command.act is not None}
    assert {"title", "tag", "memory", "todos", "permissions", "waiting"} == alone
    assert alone <= place.COMMANDS.keys()
    assert all(COMMANDS[name] is command for name, command in place.COMMANDS.items())


def test_a_place_cannot_offer_what_is_not_in_the_table():
    """Then the table is what lacks."""
    with pytest.raises(AssertionError, match="nonsense"):
        offered_commands(["nonsense"])


def test_what_a_session_waits_for_is_told(hf):
    """Each question by its id, its tool and its reason."""
    with hf.session("s") as s:
        assert COMMANDS["waiting"].act(s, "") == "This session is waiting for nothing."
        s.append("suspended", {"id": "0123456789ab", "kind": "permission", "tool": "pay", "reason": "too much"})
        assert COMMANDS["waiting"].act(s, "") == "0123456789ab  pay: too much"
