"""The reference pages are complete: nothing public is missing from them."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

import holdfast
from holdfast import errors
from holdfast.apps.cli import cli
from holdfast.apps.cli.schema import DOCUMENTS, schema_of
from holdfast.model import BODIES
from holdfast.replay import State

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def rows_of(page):
    """The rows of all tables of a page, by each name in their first cell; the first row counts."""
    lines = (REFERENCE / page).read_text(encoding="utf-8").splitlines()
    cells = [line.strip("|").split("|") for line in lines if line.startswith("| `")]
    return {name: row for row in cells[::-1] for name in re.findall(r"`([^`]+)`", row[0])}


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_is_listed(name):
    """The page has each error with its code, status, exit code, bases and remedy."""
    kind = getattr(errors, name)
    row = [cell.strip() for cell in rows_of("errors.md")[name]]
    _, code, status, exit, bases, meaning, remedy = row
    assert (status, exit) == (str(kind.status), str(kind.exit))
    assert code == f"`{kind.code}`"
    assert re.findall(r"`(\w+)`", bases) == [base.__name__ for base in kind.__bases__ if base is not Exception]
    assert meaning == kind.__doc__.partition("\n")[0]
    assert remedy == kind.remedy


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_json_document_is_listed(name):
    """The page has each document with what prints it and its members."""
    _, printed_by, members, _ = (cell.strip() for cell in rows_of("json-output.md")[name])
    assert printed_by.replace("`", "") == DOCUMENTS[name][0]
    schema = schema_of(name)
    part = schema["$defs"][schema["$ref"].rpartition("/")[2]]
    assert re.findall(r"`(\w+)`", members) == list(part["properties"])


@pytest.mark.parametrize("name", BODIES)
def test_every_event_type_is_listed(name):
    """The page has each event type with all of its members."""
    shared = {"metadata", "usage", "raw"}
    members = set(re.findall(r"`(\w+)\??`", rows_of("events.md")[name][1]))
    assert set(BODIES[name].__struct_fields__) - shared <= members


def described(prefix):
    """The attributes that the page on Python describes, such as `hf.list(…)`."""
    lines = (REFERENCE / "python.md").read_text(encoding="utf-8").splitlines()
    first_cells = [line.split(" | ")[0] for line in lines if line.startswith("| `")]
    return set(re.findall(rf"`{prefix}(\w+)", " ".join(first_cells)))


def public(kind):
    """The public attributes of a class."""
    return {name for name in dir(kind) if not name.startswith("_")}


def test_every_public_name_is_described():
    """The page has every name that `import holdfast` gives."""
    assert {name for name in holdfast.__all__ if not name.startswith("_")} - described("") == set()


def test_every_method_of_holdfast_is_described():
    """The page has every public method of `Holdfast`, and none that does not exist."""
    assert public(holdfast.Holdfast) == described(r"hf\.")


def test_every_method_of_session_is_described():
    """The page has every public method of `Session` but those for its parts and other rooms."""
    for_other_rooms = {"close_for_all", "key", "live_state", "log_recovery", "orphaned", "retain"}
    for_other_rooms |= {"is_memory_dirty", "steps", "store", "tell_repaired", "turns"}
    for_other_rooms |= {"forgo", "untold_repairs"}
    assert public(holdfast.Session) - for_other_rooms <= described(r"s\.")


def test_every_member_of_a_state_is_described():
    """The table of `State` has each of its public members, and none that does not exist."""
    page = (REFERENCE / "python.md").read_text(encoding="utf-8")
    section = page.partition("### What a state holds")[2].partition("\n### ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    named = {name for cell in cells for name in re.findall(r"`(\w+)", cell)}
    assert named == public(State)


@pytest.mark.parametrize("name", cli.list_commands(click.Context(cli)))
def test_every_verb_is_described_with_its_options(name):
    """The page has each verb of the command with all of its options, and invents none."""
    shared = {"--store", "--json", "--help", "--color", "--no-pager"}
    command = cli.get_command(click.Context(cli), name)
    options = {max(one.opts, key=len) for one in command.params if isinstance(one, click.Option)}
    row = " ".join(rows_of("command.md")[name])
    assert set(re.findall(r"`(--[a-z-]+)", row)) == options - shared
