"""Other frameworks at the same work: one module for each, run in an environment of its own.

``python -m bench.rivals.NAME`` reads a task as JSON from standard input and answers with JSON on
standard output; the modules import nothing of Holdfast. A rival that is not there, or fails, is
left out, and the reason is printed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

__all__ = ["NAMES", "ask", "median_ns", "serve"]

NAMES = {
    "adk": "Google ADK, SqliteSessionService",
    "agno": "agno, SqliteDb",
    "langgraph": "LangGraph, PostgresSaver",
    "llm": "llm, logs",
    "openai_agents": "OpenAI Agents, SQLiteSession",
}
_SECONDS_MAX = 240

Task = dict[str, Any]


def ask(name: str, folder: str, task: Task) -> Any:
    """Return a rival's answer to a task; None, after printing the reason, if there is none."""
    from bench.child import ROOT
    from bench.recovery.peers import PYTHON

    if not os.path.exists(PYTHON):
        return _skip(name, "python -m bench.recovery.peers installs it")
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        try:
            done = subprocess.run(
                [PYTHON, "-m", f"bench.rivals.{name}"],
                cwd=ROOT,
                input=json.dumps({**task, "folder": scratch}).encode(),
                capture_output=True,
                timeout=_SECONDS_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return _skip(name, f"no answer within {_SECONDS_MAX} seconds")
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        return _skip(name, said[-1] if said else f"exit code {done.returncode}")
    return json.loads(done.stdout)


def _skip(name: str, why: str) -> None:
    print(f"without {NAMES[name]}: {why}", file=sys.stderr)


def serve(work: Callable[[Task], Any]) -> None:
    """Run the task from standard input, and print the answer."""
    task = json.load(sys.stdin)
    # Libraries may print, which must not mix with the answer.
    answer, sys.stdout = sys.stdout, sys.stderr
    json.dump(work(task), answer)
    answer.flush()


def median_ns(work: Callable[[], Any], calls: int = 30) -> int:
    """Return the median nanoseconds of a call, after one that is not counted."""
    work()
    spent = []
    for _ in range(calls):
        begin = time.perf_counter_ns()
        work()
        spent.append(time.perf_counter_ns() - begin)
    return sorted(spent)[len(spent) // 2]
