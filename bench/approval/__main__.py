"""``python -m bench.approval``: the program of each framework, killed in its tool; writes APPROVAL.md and the page."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from typing import NamedTuple

from bench.approval.programs.paying import DIES
from bench.child import ROOT, SCRATCH
from bench.recovery.peers import PYTHON as _PEERS

_PATH = os.path.join(ROOT, "bench", "APPROVAL.md")
_PAGE = os.path.join(ROOT, "docs", "explanation", "comparison.md")
_BEGIN, _END = "<!-- approvals: written by make bench-approval -->", "<!-- end of approvals -->"
_PROGRAMS = {
    "ours": ("**Holdfast**", "holdfast"),
    "langgraph": ("LangGraph, `SqliteSaver`", "langgraph"),
    "openai_agents": ("OpenAI Agents, `SQLiteSession`", "openai-agents"),
    "pydantic_dbos": ("Pydantic AI on DBOS", "dbos"),
}
_SECONDS_MAX = 120
_TIMES = 5
_HEAD = """\
# A call that is approved in another process, then killed

Written by `make bench-approval`; do not edit. The same program in each framework, written as its documentation
shows, in `bench/approval/programs`: a tool that makes a payment asks for approval, and the process ends; a second
process approves it and is killed with `kill -9` inside the tool, just after the payment; a third process continues.
*Lines* are those of the program, without imports, blank lines, docstrings, and the script that replaces the model.
*Effects* is the number of payments made. Each is run five times; "or" joins the outcomes that were seen, and
*nothing* is a program that waits for the approval again.

"""


class Outcome(NamedTuple):
    """The outcome of one program."""

    lines: int
    effects: int
    told: str
    """What the model was finally told about the call."""


def main() -> int:
    """Run them, print and write the table; return 1 if ours paid twice or did not report the unknown outcome."""
    parser = argparse.ArgumentParser(prog="bench.approval", description="One approval, killed on the way.")
    parser.add_argument("--only", nargs="+", choices=_PROGRAMS, default=list(_PROGRAMS))
    parser.add_argument("--python", default=_PEERS, help="where the other frameworks are installed")
    chosen = parser.parse_args()
    rows: list[str] = []
    ours: list[Outcome] = []
    for name in chosen.only:
        python = sys.executable if name == "ours" else chosen.python
        version = _version(python, _PROGRAMS[name][1])
        if version is None:
            rows.append(f"| {_PROGRAMS[name][0]}: not installed here, so not compared | | | |")
            continue
        # Some frameworks write the approval down while the tool runs already: what is left of it differs.
        found = sorted({run(name, python) for _ in range(_TIMES)})
        ours = found if name == "ours" else ours
        effects, told = (" or ".join(dict.fromkeys(map(str, each))) for each in list(zip(*found, strict=True))[1:])
        rows.append(f"| {_PROGRAMS[name][0]} {version} | {found[0].lines} | {effects} | {told} |")
        print(rows[-1], flush=True)
    if chosen.only == list(_PROGRAMS):
        _write(rows)
    return int(any(one.effects != 1 or "unknown" not in one.told for one in ours))


def run(name: str, python: str) -> Outcome:
    """Ask, approve and be killed, continue: each in a separate process."""
    os.makedirs(SCRATCH, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="approval-", dir=SCRATCH, ignore_cleanup_errors=True) as store:
        _phase(name, python, store, "ask", 0)
        _phase(name, python, store, "approve", -signal.SIGKILL)
        said = _phase(name, python, store, "go_on", 0)
        with open(os.path.join(store, "paid"), encoding="utf-8") as file:
            effects = len(file.readlines())
    told = [line for line in said.splitlines() if line.startswith("Result: ")]
    return Outcome(count_lines(name), effects, told[-1].removeprefix("Result: ") if told else "nothing")


def _phase(name: str, python: str, store: str, what: str, code: int) -> str:
    environment = {key: value for key, value in os.environ.items() if key != DIES}
    if code:
        environment[DIES] = "1"
    command = [python, "-m", f"bench.approval.programs.{name}", store, what]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=_SECONDS_MAX, check=False
    )
    if done.returncode != code:
        raise RuntimeError(f"{name} {what} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def count_lines(name: str) -> int:
    """Return the number of lines that a user has to write for a program."""
    with open(os.path.join(ROOT, "bench", "approval", "programs", f"{name}.py"), encoding="utf-8") as file:
        program = file.read().partition("# The program\n")[2]
    lines = (line.strip() for line in program.splitlines())
    return sum(bool(line) and not line.startswith(('"""', "#")) for line in lines)


def _version(python: str, package: str) -> str | None:
    code = f"from importlib.metadata import version; print(version({package!r}))"
    if not os.path.exists(python):
        return None
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def _write(rows: Iterable[str]) -> None:
    table = "| | lines | effects | the model is told |\n|---|--:|--:|---|\n" + "\n".join(rows) + "\n"
    with open(_PATH, "w", encoding="utf-8") as file:
        file.write(_HEAD + table)
    with open(_PAGE, encoding="utf-8") as file:
        page = file.read()
    before, _, rest = page.partition(_BEGIN)
    with open(_PAGE, "w", encoding="utf-8") as file:
        file.write(f"{before}{_BEGIN}\n\n{table}\n{_END}{rest.partition(_END)[2]}")


if __name__ == "__main__":
    sys.exit(main())
