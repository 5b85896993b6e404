"""The pages tell the truth: every example in them runs, every link between them leads somewhere.

A page is one story: its blocks run in order, in one namespace, in one empty directory with its own
store. `python` blocks are executed, `sh` and `bash` blocks by that shell; in `console` blocks each
`$ holdfast …` is run and what is printed below it is compared (`...` stands for anything). A block
that cannot run has a comment before it with the reason: `<!-- no-run: needs a provider's key -->`.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
TOP_PAGES = sorted(ROOT.glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "AGENTS.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r"^(?P<skip><!-- no-run: [^\n]+ -->\n)?```(?P<kind>python|console|bash|sh)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)(?:#[^)\s]*)?\)")


class Block(NamedTuple):
    """One example: its kind, its text and the line of the page where it begins."""

    kind: str
    body: str
    line: int


def blocks_of(text):
    """The examples of a page that are to be run."""
    return [
        Block(found["kind"], found["body"], text[: found.start("body")].count("\n"))
        for found in FENCE.finditer(text)
        if not found["skip"]
    ]


def commands_of(block):
    """Pairs of a command and what the page says it prints."""
    parts = re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]
    return [(command.strip(), expected) for command, _, expected in (p.partition("\n") for p in parts)]


def run_python(block, page, namespace):
    """Execute a block so that a failure points to the page's own line."""
    exec(compile("\n" * block.line + block.body, str(page), "exec"), namespace)


def run_console(block):
    """Run each `holdfast` command and compare what it prints with the page."""
    for command, expected in commands_of(block):
        program, *arguments = shlex.split(command)
        if program != "holdfast":
            continue
        outcome = subprocess.run(
            [str(Path(sys.executable).with_name("holdfast")), *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"},
        )
        assert outcome.returncode == 0, f"{command}: {outcome.stderr}"
        assert as_printed(expected, outcome.stdout), f"{command} printed:\n{outcome.stdout}"


def run_shell(block):
    """Let the shell run a block, which must not fail."""
    place = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    outcome = subprocess.run(
        [block.kind, "-euc", block.body], capture_output=True, text=True, check=False, env={**os.environ, "PATH": place}
    )
    assert outcome.returncode == 0, f"{block.body}{outcome.stderr}"
    assert outcome.stdout


def as_printed(expected, got):
    """Whether the output is the page's, up to `...` and white space; a page may show nothing."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return not expected.strip() or doctest.OutputChecker().check_output(expected, got, flags)


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if blocks_of(page.read_text(encoding="utf-8"))],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
@pytest.mark.req("S0-77", "S2-108")
def test_examples_of_a_page_run(page, tmp_path, monkeypatch):
    """Every example runs as written, in the order of the page."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_STORE", str(tmp_path / "store"))
    namespace = {"__name__": "__main__"}
    for block in blocks_of(page.read_text(encoding="utf-8")):
        if block.kind == "python":
            run_python(block, page, namespace)
        elif block.kind == "console":
            run_console(block)
        else:
            run_shell(block)


@pytest.mark.req("S0-84")
@pytest.mark.parametrize("page", ["README.md", "AGENTS.md"])
def test_first_pages_have_examples(page):
    """The first page, and that for coding agents, show code, so the check above has work to do."""
    kinds = [block.kind for block in blocks_of((ROOT / page).read_text(encoding="utf-8"))]
    assert "python" in kinds


@pytest.mark.parametrize("page", TOP_PAGES, ids=lambda page: page.name)
def test_links_of_top_pages_lead_somewhere(page):
    """Relative links of the top pages name files that exist; `make docs` checks those in docs/."""
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert missing == []


def test_navigation_lists_every_page_once():
    """Every page of docs/ can be reached from the navigation, and the navigation names no other."""
    config = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert sorted(leaves(config["project"]["nav"])) == sorted(pages)


def leaves(tree):
    """The pages of a navigation tree."""
    if isinstance(tree, str):
        return [tree]
    parts = tree.values() if isinstance(tree, dict) else tree
    return [leaf for part in parts for leaf in leaves(part)]


def test_blocks_are_found_with_their_lines():
    """A skipped block is left out, and a block knows the line it begins on."""
    text = "a\n<!-- no-run: why -->\n```python\n1/0\n```\n\n```python\nx = 1\n```\n"
    assert blocks_of(text) == [Block("python", "x = 1\n", 7)]


def test_a_wrong_output_is_noticed():
    """What the page says a command prints must be what it prints."""
    assert as_printed("a ... c\n", "a b c\n")
    assert not as_printed("a d\n", "a b\n")
    assert commands_of(Block("console", "$ holdfast list\nx\n$ make\n", 1)) == [("holdfast list", "x\n"), ("make", "")]
