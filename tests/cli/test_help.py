"""Every verb explains itself, and the pages say the same."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from holdfast.apps.cli import cli
from holdfast.apps.cli._app import MODULES, VERBS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "command.md"


def verb(name):
    """The command of a verb."""
    return cli.get_command(click.Context(cli), name)


@pytest.mark.parametrize("name", VERBS)
def test_help_of_a_verb(run, name):
    """The help has what it does, its options, and examples that name it."""
    outcome = run(name, "--help")
    assert outcome.code == 0
    assert f"Usage: holdfast {name}" in outcome.out
    assert "Examples:" in outcome.out
    assert f"  holdfast {name}" in outcome.out.partition("Examples:")[2]
    assert "--store URL" in outcome.out
    assert max(map(len, outcome.out.splitlines())) <= 100


@pytest.mark.parametrize(
    ("words", "parts"),
    [(["acp"], "proxy, agent, prompt, doctor, install"), (["serve", "token"], "create, list")],
    ids=lambda words: "-".join(words) if isinstance(words, list) else "",
)
def test_a_verb_of_verbs_alone(run, words, parts):
    """It is told in a sentence what it needs; the page is for who asks for it."""
    outcome = run(*words)
    assert (outcome.code, outcome.out) == (2, "")
    first, remedy = outcome.err.splitlines()
    assert first.startswith(f"error: holdfast {' '.join(words)} needs one of: {parts}")
    assert remedy == f"  See `holdfast {' '.join(words)} --help`."


@pytest.mark.parametrize("name", VERBS)
def test_the_list_of_verbs_says_the_same(name):
    """The line in `holdfast --help` is the verb's own first line."""
    assert verb(name).short_help == VERBS[name]


def test_there_is_a_module_for_each_verb():
    """Every module has a verb, and every verb a module, of its own name or of its subject's."""
    folder = Path(cli.main.__code__.co_filename).parent
    modules = {path.stem for path in folder.glob("[a-z]*.py")}
    assert modules == {MODULES.get(name, name) for name in VERBS}


@pytest.mark.parametrize("name", [*VERBS, None])
def test_the_reference_has_every_option(name):
    """Each option of each verb is on the reference page, under the verb's heading."""
    text = PAGE.read_text(encoding="utf-8")
    part = text if name is None else text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    shared = {"--store", "--help", "--version", "--color", "--no-pager"} if name else set()
    command = cli if name is None else verb(name)
    options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
    named = set(re.findall(r"`(--[a-z-]+)", part))
    assert options - shared <= named
    assert part


def test_the_reference_has_every_exit_code():
    """The page names each exit code."""
    text = PAGE.read_text(encoding="utf-8")
    for code in (0, 1, 2, 3, 4, 130):
        assert f"| {code} |" in text
