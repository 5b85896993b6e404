"""The manual pages: one for each command, made of its help, and such that `man` likes them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import click
import pytest

from holdfast.apps.cli import cli
from holdfast.apps.cli._app import VERBS
from holdfast.apps.cli.acp import PARTS
from holdfast.apps.cli.help import manual, pages


@pytest.fixture(scope="module")
def made():
    """Every page by the name of its file."""
    return dict(pages())


def test_there_is_a_page_for_each_command(made):
    """One for the command, one for each verb, one for each part of a verb."""
    wanted = {"holdfast.1", *(f"holdfast-{name}.1" for name in VERBS)}
    wanted |= {f"holdfast-acp-{part}.1" for part in PARTS}
    assert wanted <= set(made)


@pytest.mark.parametrize("name", VERBS)
def test_a_page_has_what_the_help_has(made, name):
    """What it does, each option, and each example."""
    text = _plain(made[f"holdfast-{name}.1"])
    command = cli.get_command(click.Context(cli), name)
    for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "EXIT STATUS"):
        assert f".SH {heading}\n" in text
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert all(option in text for option in parameter.opts)
    examples = command.epilog.partition("Examples:\n")[2].partition("\n\n")[0].splitlines()
    for line in examples:
        assert re.split(" {2,}", line.strip())[0] in text


def test_the_first_page_lists_the_others(made):
    """Verbs in their sections, the environment, exit codes."""
    text = _plain(made["holdfast.1"])
    for word in ("BROWSE", "MAINTAIN", "ENVIRONMENT", "NO_COLOR", "HOLDFAST_PAGER", "EXIT STATUS"):
        assert word in text
    assert all(f"holdfast-{name}" in text for name in VERBS)


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_troff_has_nothing_to_say(made):
    """No page makes groff warn, and what it shows is what was meant."""
    text = "".join(made.values())
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8", "-Kutf8", "-P-c"], input=text.encode(), capture_output=True, check=True
    )
    assert done.stderr == b""
    shown = re.sub(r".\x08", "", done.stdout.decode())
    assert "holdfast list --json | jq -r '.sessions[].session_id'" in shown
    assert "holdfast search '\"could not connect\" -debug'" in shown


def test_what_troff_would_obey():
    """A line that begins with a dot or a quote, and backslashes, are text."""
    command = click.Command("x", help=".so /etc/passwd\n\n'quoted \\n \\fBword…", epilog="")
    page = manual(click.Context(command, info_name="x"), "1")
    assert "\n\\&.so /etc/passwd\n" in page
    assert "\n\\(aqquoted \\en \\efBword\\[u2026]\n" in page


def test_installing(run, tmp_path, made):
    """Every page is written where `man` looks for it; again is fine."""
    for _ in range(2):
        outcome = run("man", "--install", env={"XDG_DATA_HOME": str(tmp_path / "share")})
        assert outcome.code == 0
        assert f"wrote {len(made)} pages" in outcome.out
    folder = tmp_path / "share" / "man" / "man1"
    assert {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()} == made


def test_a_pipe_gets_the_page(run, made):
    """The page of a command as it is; a misspelt one is wrong usage."""
    assert run("man", "show").out == made["holdfast-show.1"]
    assert run("man").out == made["holdfast.1"]
    assert run("man", "acp", "proxy").out == made["holdfast-acp-proxy.1"]
    outcome = run("man", "shwo")
    assert outcome.code == 2
    assert "did you mean show?" in outcome.err


def test_a_terminal_gets_it_from_man(tty, tmp_path):
    """On a terminal the system's program shows the page; without one the page is printed."""
    fake = tmp_path / "bin" / "man"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\necho "MAN $*"; wc -l\n')
    fake.chmod(0o755)
    shown = tty("man", "show", PATH=f"{fake.parent}:{os.environ['PATH']}")
    assert shown.code == 0
    assert re.match(r"MAN -l -\n\d+\n", shown.out)
    assert ".TH" in tty("man", "show", PATH="/nonexistent").out


def _plain(page):
    """The page with the escapes of troff taken back."""
    text = page.replace("\\-", "-").replace("\\(aq", "'").replace("\\(dq", '"').replace("\\&", "")
    text = re.sub(r"\\f[BR]", "", text).replace("\\e", "\\")
    return re.sub(r"\\\[u([0-9A-F]+)\]", lambda found: chr(int(found[1], 16)), text)
