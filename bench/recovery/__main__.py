"""``python -m bench.recovery [--count N]``: every repair function on the same broken histories."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import holdfast
from bench.child import ROOT
from bench.recovery import checker, ours
from bench.recovery.histories import Item, generate
from bench.recovery.peers import PYTHON as _PEERS

_PATH = os.path.join(ROOT, "bench", "RECOVERY.md")
_RIVALS = {
    "strands": ("strands-agents", "`_fix_broken_tool_use`"),
    "litellm": ("litellm", "`sanitize_messages_for_tool_calling`"),
    "pydantic_ai": ("pydantic-ai-slim", "`repair_messages`"),
    "openai_agents": ("openai-agents", "`drop_orphan_function_calls`"),
    "deepagents": ("deepagents", "`PatchToolCallsMiddleware`"),
}
_HEAD = """\
# Recovery

Written by `make bench-recovery`; do not edit. {count:,} generated histories (seed in
`bench/recovery/histories.py`): 2 to 5 turns of 1 to 3 parallel calls with 1 to 3 faults (a message
deleted, doubled or swapped, head or tail cut, a result with a wrong id, an id used twice, a user's
message in between, a late result), followed by a new prompt. {broken:,} of them break the strict rule.

*Strict*: each assistant turn with calls is followed directly by exactly one result per call, and
there are no other results (Anthropic, Bedrock). *Pairing*: every call has a later result, every
result an earlier call. *Lost*: calls whose result was in the history and is missing afterwards. The
checker is `bench/recovery/checker.py`; it shares no code with any of the functions. The functions
are run alone, with their own form of messages; the adapters that follow them may repair a little
more. The columns count histories that are still invalid, that change when they are repaired again,
that do not begin with a user message, and that raised an error.

| function | strict | pairing | not idempotent | begins without a user | lost | raised |
|---|--:|--:|--:|--:|--:|--:|
"""


class Score(NamedTuple):
    """The results for the broken histories; losses are counted over all histories."""

    strict: int
    pairing: int
    restless: int
    headless: int
    lost: int
    raised: int


def main() -> int:
    """Compare, print, write the table; return 1 if ours leaves anything invalid."""
    parser = argparse.ArgumentParser(prog="bench.recovery", description="Repair functions compared.")
    parser.add_argument("--count", type=int, default=4_000, help="histories; at least 3,000 to compare")
    histories = generate(parser.parse_args().count)
    broken = [history for history in histories if not checker.is_strict(history)]
    own = {
        f"Holdfast {holdfast.__version__} `sanitize`, incomplete={incomplete!r}": _score(
            broken, _ours(broken, incomplete)
        )
        for incomplete in ("mark", "drop")
    }
    rows = [_row(name, score, len(broken)) for name, score in own.items()]
    rows += [_rival_row(name, broken) for name in _RIVALS]
    rows.append(_row("nothing", _score(broken, [_twice(list, one) for one in broken]), len(broken)))
    text = _HEAD.format(count=len(histories), broken=len(broken)) + "\n".join(rows) + "\n"
    with open(_PATH, "w", encoding="utf-8") as file:
        file.write(text)
    print("\n".join(rows))
    return int(any(score.strict or score.headless or score.raised for score in own.values()))


def _ours(broken: list[list[Item]], incomplete: str) -> list[dict[str, Any]]:
    return [_twice(lambda one: ours.repair(one, incomplete), history) for history in broken]


def _twice(repair: Callable[[list[Item]], list[Item]], history: list[Item]) -> dict[str, Any]:
    once = repair(history)
    return {"once": once, "twice": repair(once)}


def _rival_row(name: str, broken: list[list[Item]]) -> str:
    package, function = _RIVALS[name]
    version = _version(package)
    if version is None:
        return f"| {package}: not installed here, so not compared | | | | | | |"
    command = [_PEERS, "-m", f"bench.recovery.rivals.{name}"]
    done = subprocess.run(command, input=json.dumps(broken), cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
        print(f"{package} failed: {reason[0]}", file=sys.stderr)
        return f"| {package} {version}: failed to run, so not compared | | | | | | |"
    score = _score(broken, json.loads(done.stdout))
    return _row(f"{package} {version} {function}", score, len(broken))


def _version(package: str) -> str | None:
    code = f"from importlib.metadata import version; print(version({package!r}))"
    if not os.path.exists(_PEERS):
        return None
    done = subprocess.run([_PEERS, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def _score(broken: list[list[Item]], answers: list[dict[str, Any]]) -> Score:
    fine = [
        (before, answer["once"], answer["twice"])
        for before, answer in zip(broken, answers, strict=True)
        if "error" not in answer
    ]
    return Score(
        strict=sum(not checker.is_strict(once) for _, once, _ in fine),
        pairing=sum(not checker.is_paired(once) for _, once, _ in fine),
        restless=sum(once != twice for _, once, twice in fine),
        headless=sum(not checker.starts_with_user(once) for _, once, _ in fine),
        lost=sum(checker.lost(before, once) for before, once, _ in fine),
        raised=len(answers) - len(fine),
    )


def _row(name: str, score: Score, count: int) -> str:
    share = f" ({100 * score.strict / count:.1f} %)" if score.strict else ""
    cells = [f"{score.strict:,}{share}", *(f"{value:,}" for value in score[1:])]
    return f"| {name} | {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
