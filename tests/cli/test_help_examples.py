"""The examples of every command's help: run as they stand, on a store that has what they name."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest

import holdfast
from holdfast.apps.cli import cli
from holdfast.apps.cli._app import VERBS
from holdfast.apps.cli.acp import PARTS

REMARK = re.compile(r" {2,}(?=[^'\"]*$)")
# Run and finished in an instant. Others talk to a model, an editor or a browser, or stay until
# they are ended: of those it is checked that the command line is one.
RUN = frozenset(
    """
    list search show stats snapshots recover export import fork compare merge restore title tag pin
    verify repair copy archive prune delete undelete config reindex doctor help completion man
    schema
    """.split()  # noqa: SIM905 - a list of words is easier to read and to change
)
STAYS = ("--watch", "--suggest", "postgresql:", "--turns summary")
COMMANDS = [*((name,) for name in VERBS), *(("acp", part) for part in PARTS)]


def examples(words):
    """The examples in the help of a command, without the remarks beside them."""
    command, context = cli, click.Context(cli, info_name="holdfast")
    for word in words:
        command = command.get_command(context, word)
        context = click.Context(command, parent=context, info_name=word)
    listed = command.epilog.partition("Examples:\n")[2].partition("\n\n")[0]
    return [REMARK.split(line.strip(), maxsplit=1)[0] for line in listed.splitlines()]


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A store with the sessions that examples name."""
    root = tmp_path_factory.mktemp("examples") / "store"
    root.mkdir(mode=0o700)
    with holdfast.open(root) as library:
        with library.session("trip-planner", title="Trip to Lisbon", agent_id="planner") as s:
            s.tag("travel")
            for number in range(4):
                s.user(f"Plan day {number} in Lisbon")
                s.tool_result(s.tool_call("Read", {"path": "notes.md"}), "sunny")
                s.assistant("Take the train to Sintra.")
        library.fork("trip-planner", at=8, new_id="01jx000")
        with library.session("01jx000") as s:
            for number in range(4):
                s.user(f"And day {number}?")
                s.assistant("The same.")
        with library.session("01jy000") as s:
            s.user("Something else")
    return root


@pytest.fixture
def place(template, tmp_path, monkeypatch):
    """A folder with everything that examples name beside sessions; the user's own home is there."""
    shutil.copytree(template, tmp_path / "store", dirs_exist_ok=True)
    shutil.copytree(template, tmp_path / "old")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOLDFAST_PASSPHRASE", "not a secret at all")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home").mkdir()
    (tmp_path / "old-logs").mkdir()
    log = tmp_path / "store" / "sessions" / "01jy000" / "events.jsonl"
    shutil.copy(log, tmp_path / "old-logs" / "events.jsonl")
    return tmp_path


def prepare(run, verb):
    """What the examples of a verb need to have happened."""
    if verb == "undelete":
        run("delete", "01jy000", "trip-planner", "--yes")
    if verb == "import":
        run("export", "trip-planner", "--format", "codex", "--install")
        run("export", "trip-planner", "--format", "bundle", "--seal", "-o", "trip.holdfast")
        Path("messages.json").write_text(run("recover", "trip-planner").out, encoding="utf-8")


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_examples(run, place, words):
    """Every example does what it is there for, or is at least a command line that is taken."""
    found = examples(words)
    assert found
    prepare(run, words[0])
    done = 0
    for line in found:
        head, _, rest = line.partition(" > ")
        command, _, filter_ = head.partition(" | jq ") if "$(" not in head else (head, "", "")
        call = shlex.split(command if "$(" in head else command.rpartition(" | ")[2])
        arguments = [os.path.expanduser(word) for word in call[_last(call, "holdfast") + 1 :]]
        verb = arguments[2 if arguments[:1] == ["--store"] else 0] if arguments else ""
        if verb not in RUN or any(sign in line for sign in STAYS):
            check_taken(arguments)
            continue
        outcome = run(*arguments, store=place / "store")
        assert outcome.code == 0, (line, outcome.err)
        assert outcome.out or outcome.err or " -o " in line
        if filter_ and shutil.which("jq"):
            jq = ["jq", *shlex.split(filter_)]
            subprocess.run(jq, input=outcome.out, text=True, check=True, capture_output=True)
        if rest:
            (place / rest).write_text(outcome.out, encoding="utf-8")
        done += 1
    assert done or words[0] not in RUN


def _last(words, word):
    """Where the word stands for the last time."""
    return len(words) - 1 - words[::-1].index(word)


def check_taken(arguments):
    """Fails if the command line is wrong; runs nothing."""
    command, context, rest = cli, None, list(arguments)
    name = "holdfast"
    while True:
        context = command.make_context(name, rest, parent=context)
        if not isinstance(command, click.Group):
            return
        rest = [*context._protected_args, *context.args]
        if not rest:
            return
        name, command, rest = command.resolve_command(context, rest)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_says_the_same_in_three_ways(run, words):
    """`holdfast help X`, `holdfast X --help` and `holdfast X -h` print one page."""
    page = run("help", *words).out
    assert page.startswith(f"Usage: holdfast {' '.join(words)} ")
    assert page == run(*words, "--help").out == run(*words, "-h").out


def test_help_of_all(run):
    """Without a command it is the list of all, in sections."""
    page = run("help").out
    assert page == run("--help").out
    for heading in ("Chat:", "Browse:", "Branch:", "Connect:", "Maintain:", "Help:", "Options:"):
        assert f"\n{heading}\n" in page


@pytest.mark.parametrize(("words", "meant"), [(["lisst"], "list"), (["acp", "prxy"], "proxy"), (["list", "x"], None)])
def test_help_of_nothing(run, words, meant):
    """A command that is not there is wrong usage, with the nearest one if there is one."""
    outcome = run("help", *words)
    assert outcome.code == 2
    assert f"there is no command '{' '.join(words)}'" in outcome.err
    assert (f"did you mean {meant}?" in outcome.err) is (meant is not None)
