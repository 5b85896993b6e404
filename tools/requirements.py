"""The tests of each requirement: write the page, or find requirements without a test.

    python tools/requirements.py RESULTS           writes docs/internals/requirements.md
    python tools/requirements.py RESULTS --check   writes nothing

RESULTS is what a whole run of the tests left with REQUIREMENTS_RESULTS (tests/noted.py). A test
shows a requirement when every one of its variants ran and passed. Both fail when a requirement has
no such test, and say why its tests were skipped if they were; when a test names one that does not
exist; and ``--check`` also when the page names a test that the run did not collect.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parents[1] / "docs" / "internals"
LIST = FOLDER / "requirements.txt"
PAGE = FOLDER / "requirements.md"
HEAD = """# Requirements

<!-- Written by tools/requirements.py (`make requirements`) from a run of all tests. -->

Holdfast was built from the designs of five earlier systems. Each line is one thing that they asked
for, and names the tests that carry its number (`@pytest.mark.req`) and passed with all their
variants. Tests that carry a number and were skipped where this page was written, in whole or
in part, are listed at its end with the reason.
Where the sources contradict each other, the last column names the resolution (B-…) by which ours
differs from what that line asked for.
"""
TABLE = ("| id | what | tests | differs |", "|---|---|---|---|")


def listed(text: str) -> dict[str, tuple[str, str]]:
    """Return, by id, the requirement and its resolution if ours differs; sources have no number."""
    rows = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            number, _, rest = line.partition(" ")
            title, _, resolution = rest.partition(" | ")
            rows[number] = (title, resolution)
    return rows


class Run(NamedTuple):
    """The results of a run for the tests with requirement ids; a test includes all its variants."""

    marked: dict[str, set[str]]
    """The tests of each requirement, by its id."""
    failed: set[str]
    skipped: dict[str, set[str]]
    """The reasons for which variants of a test were skipped, by test."""

    def shown(self, number: str) -> set[str]:
        """Return the tests that demonstrate a requirement: those of which every variant passed."""
        return self.marked.get(number, set()) - self.failed - self.skipped.keys()


def read(text: str) -> Run:
    """Parse the lines of a run's results."""
    run = Run({}, set(), {})
    for line in text.splitlines():
        one = json.loads(line)
        test, _, variant = one["test"].partition("[")
        for number in one["ids"]:
            run.marked.setdefault(number, set()).add(test)
        if one["outcome"] == "failed":
            run.failed.add(test)
        elif one["outcome"] == "skipped":
            which = f"{variant.removesuffix(']')}: " if variant else ""
            run.skipped.setdefault(test, set()).add(which + one.get("reason", "no reason"))
    return run


def complaints(rows: dict[str, tuple[str, str]], run: Run) -> list[str]:
    """Return the tests that are missing, and those that should not be there."""
    found = []
    for number, (title, _) in rows.items():
        if "-" in number and not run.shown(number):
            found.append(f"{number} ({title}): no test shows it")
            found += [
                f"    {test} was skipped: {reason}"
                for test in sorted(run.marked.get(number, ()))
                for reason in sorted(run.skipped.get(test, ()))
            ]
    unknown = sorted(number for number in run.marked if number[0] == "S" and number not in rows)
    return found + [f"{number}: {min(run.marked[number])} names it, and it does not exist" for number in unknown]


def page(rows: dict[str, tuple[str, str]], run: Run) -> str:
    """Return the page with a table for each source, and what was skipped."""
    lines = [HEAD]
    for number, (title, resolution) in rows.items():
        if "-" not in number:
            lines += [f"\n## {number}: {title}\n", "| id | what | tests | differs |", "|---|---|---|---|"]
            continue
        tests = "<br>".join(f"`{test}`" for test in sorted(run.shown(number)))
        lines.append(f"| {number} | {title} | {tests} | {resolution} |")
    if run.skipped:
        lines += ["\n## Skipped\n", "| test | why |", "|---|---|"]
        for test, reasons in sorted(run.skipped.items()):
            why = "<br>".join(sorted(reasons)).replace("|", "\\|")
            lines.append(f"| `{test}` | {why} |")
    return "\n".join(lines) + "\n"


def main(results: str, *options: str) -> int:
    """Write the page or check it; return 1 if something is missing."""
    rows = listed(LIST.read_text("utf-8"))
    run = read(Path(results).read_text("utf-8"))
    wrong = complaints(rows, run)
    if "--check" in options:
        collected = set().union(*run.marked.values())
        named = set(re.findall(r"`(tests/[^`]*)`", PAGE.read_text("utf-8")))
        wrong += [f"{PAGE.name}: there is no {test} any more" for test in sorted(named - collected)]
    else:
        PAGE.write_text(page(rows, run), "utf-8")
    for one in wrong:
        print(one, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
