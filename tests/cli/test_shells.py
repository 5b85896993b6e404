"""Completion in real shells: verbs, options, ids with their titles, tags and formats."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.apps.cli._completion import SHELLS, script

BIN = str(Path(sys.executable).parent)
EVIL = ["two words", "$(touch owned)", "`touch owned`", "a;b", "it's", "*", "\x1b[2J", 'q"q', "ü"]


def needs(shell):
    """A test in that shell, where it is installed."""
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed")


@pytest.fixture
def tagged(library, trip):
    """A session whose tags would like to be run."""
    with library.session("evil", title="Title: with\ta tab") as s:
        for tag in EVIL:
            s.tag(tag)
        s.user("x")


def in_shell(shell, code, store_root, tmp_path):
    """What a program in that shell prints, with the command in its path."""
    settings = {"HOLDFAST_STORE": str(store_root), "PATH": f"{BIN}:{os.environ['PATH']}"}
    words = {"bash": ["bash", "--norc", "--noprofile"], "zsh": ["zsh", "-f"], "fish": ["fish", "-N"]}
    done = subprocess.run(
        [*words[shell], "-c", code],
        env={**os.environ, **settings},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.stderr == ""
    return done.stdout


# What bash does when Tab is pressed after these words.
BASH = """
eval "$(holdfast completion bash)"
compopt() { :; }  # only works while a line is edited
offer() {
    COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
    _holdfast_completion holdfast; printf '%s\\n' "${COMPREPLY[@]}"; echo --
}
"""


@needs("bash")
def test_bash(store_root, tmp_path, tagged):
    """Verbs, options, ids, tags, formats and values are offered."""
    calls = [
        "holdfast com",
        "holdfast list --no-",
        "holdfast show tr",
        "holdfast list --tag tr",
        "holdfast list --agent ''",
        "holdfast export trip-planner --format anth",
        "holdfast import --format gem",
        "holdfast list --status w",
        "holdfast acp pr",
        "holdfast schema sho",
        "holdfast help und",
    ]
    code = BASH + "\n".join(f"offer {line}" for line in calls)
    offers = [part.split() for part in in_shell("bash", code, store_root, tmp_path).split("--\n")]
    assert offers[:-1] == [
        ["compare", "completion"],
        ["--no-pager"],
        ["trip-planner"],
        ["travel"],
        ["planner"],
        ["anthropic"],
        ["gemini-cli"],
        ["waiting"],
        ["proxy", "prompt"],
        ["show", "show-event", "show-state"],
        ["undelete"],
    ]


@needs("bash")
def test_bash_gets_tags_that_it_cannot_run(store_root, tmp_path, tagged):
    """An offer is one word that means the tag, whatever the tag would like to be."""
    code = (
        BASH
        + """
offer holdfast list --tag '' > /dev/null
for one in "${COMPREPLY[@]}"; do
    eval "words=($one)"
    printf '%s|%s\\n' ${#words[@]} "${words[0]}"
done
"""
    )
    (tmp_path / "a-file").touch()
    lines = in_shell("bash", code, store_root, tmp_path).splitlines()
    offered = {line.partition("|")[2] for line in lines}
    assert {line.partition("|")[0] for line in lines} == {"1"}
    assert offered >= set(EVIL) - {"\x1b[2J"}
    assert "\x1b[2J" not in offered  # nobody could see what it is
    assert not (tmp_path / "owned").exists()


@needs("zsh")
def test_zsh(store_root, tmp_path, tagged):
    """The script is taken, and ids come with their titles."""
    code = """
compdef() { :; }
_describe() { local -a all; all=("${(@P)${3}}"); print -l -- $all; }
compadd() { print -l -- "${(@P)@[-1]}"; }
eval "$(holdfast completion zsh)"
words=(holdfast show ''); CURRENT=3; _holdfast_completion
words=(holdfast list --tag tr); CURRENT=4; _holdfast_completion
words=(holdfast com); CURRENT=2; _holdfast_completion
"""
    code = code.replace("_describe() {", "_describe() { set -- x x $3;")
    lines = in_shell("zsh", code, store_root, tmp_path).splitlines()
    assert "trip-planner:Trip to Lisbon" in lines
    assert "evil:Title: with␉a tab" in lines
    assert "travel" in lines
    assert "completion:Generate shell completion scripts." in lines


@needs("fish")
def test_fish(store_root, tmp_path, tagged):
    """Offers with descriptions, as fish itself asks for them."""
    code = """
holdfast completion fish | source
complete -C 'holdfast show '
complete -C 'holdfast list --tag tr'
complete -C 'holdfast com'
complete -C 'holdfast list --tag '
"""
    lines = in_shell("fish", code, store_root, tmp_path).splitlines()
    assert "trip-planner\tTrip to Lisbon" in lines
    assert "travel" in lines
    assert "completion\tGenerate shell completion scripts." in lines
    assert "$(touch owned)" in lines
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_installing(run, tmp_path, monkeypatch, shell):
    """The script is written where the shell looks for it; again is fine."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    for _ in range(2):
        outcome = run("completion", shell, "--install")
        assert outcome.code == 0
        (name,) = [line for line in outcome.out.splitlines() if line.startswith("wrote ")]
        path = Path(name.removeprefix("wrote "))
        assert path.read_text(encoding="utf-8") == script(shell) == run("completion", shell).out
        assert path.is_relative_to(tmp_path)


@needs("fish")
def test_fish_finds_it(run, store_root, tmp_path, tagged):
    """What was installed is used without another word."""
    home = tmp_path / "config"
    assert run("completion", "fish", "--install", env={"XDG_CONFIG_HOME": str(home)}).code == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(home))
        code = "set -p fish_complete_path $XDG_CONFIG_HOME/fish/completions\n"
        code += "complete -C 'holdfast show tr'"
        assert "trip-planner" in in_shell("fish", code, store_root, tmp_path)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("import ", "file,"),
        ("list --store ", "dir,"),
        ("import --format ", "plain,auto"),
        ("import --scan --tool cod", "plain,codex"),
        ("help sna", "plain,snapshots"),
        ("help acp ", ""),
        ("schema tag-", "plain,tag-suggest"),
        ("list --tag tr", "plain,travel"),
        ("stats --agent pl", "plain,planner"),
        ("--no", "plain,--no-pager"),
        ("sn", "plain,snapshots"),
    ],
)
def test_offers(run, trip, line, expected):
    """What is offered where a file, a folder, a format, a name or an option is due."""
    words = f"holdfast {line}"
    place = len(words.split()) - (not words.endswith(" "))
    env = {"_HOLDFAST_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(place)}
    assert run(env=env).out.partition("\n")[0] == expected


def test_which_shell(run):
    """Without a name the shell is that of the environment; one that is not known is asked for."""
    assert run("completion", env={"SHELL": "/usr/bin/fish"}).out == script("fish")
    outcome = run("completion", env={"SHELL": "/bin/tcsh"})
    assert outcome.code == 2
    assert "bash, zsh, fish" in outcome.err


def test_another_store(shell, store_root, tmp_path, trip):
    """The store that the line names is looked into, before or after the verb."""
    lines = [f"holdfast --store {store_root} show tr", f"holdfast show --store {store_root} tr"]
    for line in lines:
        env = {
            "HOLDFAST_STORE": str(tmp_path / "none"),
            "_HOLDFAST_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": "4",
        }
        assert shell(env=env).out == "plain,trip-planner\n"


def test_a_store_that_cannot_be_opened(shell, tmp_path):
    """Nothing is offered, and nothing is said: somebody is typing."""
    env = {
        "HOLDFAST_STORE": "ftp://example.com",
        "_HOLDFAST_COMPLETE": "zsh_complete",
        "COMP_WORDS": "holdfast show ",
        "COMP_CWORD": "2",
    }
    outcome = shell(env=env)
    assert outcome.out.strip() == ""
    assert outcome.err == ""


def test_many_sessions(library, store_root):
    """Beyond what is looked at, ids are still found by how they begin, without their titles."""
    import click

    from holdfast.apps.cli import _completion

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_completion, "_LOOKED_AT_MAX", 2)
        for name in ("old-one", "b", "c"):
            with library.session(name, title="Its title") as s:
                s.user("x")
        context = click.Context(click.Command("show"))
        context.params = {"store": str(store_root)}
        offered = _completion.offered(context, "id", "old")
    assert [(item.value, item.help) for item in offered] == [("old-one", None)]


def test_completion_loads_little(trip, store_root):
    """Offering verbs loads none of them, and offering ids no heavy library."""
    code = (
        "import os, sys\nfrom holdfast.apps.cli import cli\n"
        "cli.main([], standalone_mode=False)\nprint(' '.join(sys.modules), file=sys.stderr)"
    )
    for words, verbs in (("holdfast s", set()), ("holdfast show t", {"show"})):
        env = {
            **os.environ,
            "_HOLDFAST_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
            "HOLDFAST_STORE": str(store_root),
        }
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        loaded = set(done.stderr.split())
        assert not loaded & {"rich", "textual", "asyncio", "pydantic", "cryptography"}
        named = {name.rpartition(".")[2] for name in loaded if name.startswith("holdfast.apps.cli.")}
        assert {name for name in named if not name.startswith("_")} == verbs
