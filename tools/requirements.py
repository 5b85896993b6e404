"""Which tests show which requirement: make the page, or find what nobody shows.

    python tools/requirements.py RESULTS           writes docs/internals/requirements.md
    python tools/requirements.py RESULTS --check   writes nothing

RESULTS is what a whole run of the tests left with REQUIREMENTS_RESULTS (tests/noted.py). Both
fail when a requirement has no test that was collected and passed, when a test names one that does
not exist, and ``--check`` also when the page names a test that the run did not collect.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "docs" / "internals"
LIST = FOLDER / "requirements.txt"
PAGE = FOLDER / "requirements.md"
HEAD = """# Requirements

<!-- Written by tools/requirements.py (`make requirements`) from a run of all tests. -->

Holdfast was built from the designs of five earlier systems. Each line is one thing that they asked
for, and names the tests that carry its number (`@pytest.mark.req`), were collected, and passed.
Where the sources contradict each other, the last column names the resolution (B-…) by which ours
differs from what that line asked for.
"""
TABLE = ("| id | what | tests | differs |", "|---|---|---|---|")


def listed(text: str) -> dict[str, tuple[str, str]]:
    """By id: what is asked for, and the resolution if ours differs; sources have no number."""
    rows = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            number, _, rest = line.partition(" ")
            title, _, resolution = rest.partition(" | ")
            rows[number] = (title, resolution)
    return rows


def shown(text: str) -> tuple[dict[str, set[str]], set[str]]:
    """By id: the tests that passed, whatever their parameters; and all that were collected."""
    passed: dict[str, set[str]] = {}
    collected, failed = set(), set()
    for line in text.splitlines():
        one = json.loads(line)
        test = one["test"].partition("[")[0]
        collected.add(test)
        if one["outcome"] == "passed":
            for number in one["ids"]:
                passed.setdefault(number, set()).add(test)
        elif one["outcome"] == "failed":
            failed.add(test)
    return {number: tests - failed for number, tests in passed.items()}, collected


def complaints(rows: dict[str, tuple[str, str]], passed: dict[str, set[str]]) -> list[str]:
    """What is missing, and what should not be there."""
    missing = [number for number in rows if "-" in number and not passed.get(number)]
    unknown = sorted(number for number in passed if number[0] == "S" and number not in rows)
    return [f"{number} ({rows[number][0]}): no test shows it" for number in missing] + [
        f"{number}: {min(passed[number])} names it, and it does not exist" for number in unknown
    ]


def page(rows: dict[str, tuple[str, str]], passed: dict[str, set[str]]) -> str:
    """The page with a table for each source."""
    lines = [HEAD]
    for number, (title, resolution) in rows.items():
        if "-" not in number:
            lines += [
                f"\n## {number}: {title}\n",
                "| id | what | tests | differs |",
                "|---|---|---|---|",
            ]
            continue
        tests = "<br>".join(f"`{test}`" for test in sorted(passed.get(number, ())))
        lines.append(f"| {number} | {title} | {tests} | {resolution} |")
    return "\n".join(lines) + "\n"


def main(results: str, *options: str) -> int:
    """Make the page or check it; 1 if something is missing."""
    rows = listed(LIST.read_text("utf-8"))
    passed, collected = shown(Path(results).read_text("utf-8"))
    wrong = complaints(rows, passed)
    if "--check" in options:
        named = set(re.findall(r"`(tests/[^`]*)`", PAGE.read_text("utf-8")))
        wrong += [f"{PAGE.name}: there is no {test} any more" for test in sorted(named - collected)]
    else:
        PAGE.write_text(page(rows, passed), "utf-8")
    for one in wrong:
        print(one, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
