"""Write the results of the campaign into the table of docs/internals/testing.md.

    python tools/campaign_report.py RESULTS [PAGE]

RESULTS has a line of JSON for each figure, as tests/crash/campaign_log.py writes them. The lines of
a row are added together. A row of which nothing is in RESULTS stays as it is on the page.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "internals" / "testing.md"
BEGIN = "<!-- campaign: written by make torture, make fuzz and make soak -->"
END = "<!-- end of campaign -->"
HEAD = "| test | count | result | date | extent |\n|---|---|---|---|---|\n"
ROWS = {
    "crash states": ("crash states read and recovered from", 4_000_000, "violations"),
    "seeded bugs": ("seeded protocol bugs caught", 20, "missed"),
    "faults": ("runs in which a call of the disk fails", 20_000, "surprises"),
    "system calls": ("real system calls failed by `strace`", 1_000, "surprises"),
    "kills": ("rounds of `kill -9`", 5_000, "lost"),
    "approvals": ("kills of who asks, acts and answers, with a counter of effects", 10_000, "doubled or lost"),
    "steps": ("kills of durable steps with a counter of effects", 10_000, "doubled or lost"),
    "storms": ("lives of apps stopped, continued and killed", 300, "lost"),
    "power losses": ("power losses behind FUSE", 1_000, "lost"),
    "bit flips": ("bits of a session flipped, one by one", 524_288, "wrong"),
    "fuzz": ("fuzzed inputs", 2_000_000, "crashes"),
    "simulation": ("simulated worlds (seeds)", 50_000, "violations"),
    "leases": ("simulated machines around a bucket (seeds)", 10_000, "violations"),
    "failovers": ("PostgreSQL primaries killed in mid flush, standby promoted", 200, "lost"),
    "interrupts": ("interrupts between two instructions", 100_000, "wrong"),
    "bucket kills": ("kills of a server of buckets in mid write", 20, "lost"),
    "bucket answers": ("answers of a server of buckets lost, wrong, slow or doubled", 60, "wrong"),
    "volume kills": ("kills of one of three replicated servers of volumes", 30, "lost"),
    "full disks": ("appends that find a real disk full", 300, "lost"),
    "secrets": ("secrets planted, by format, place and way", 19_000, "left in the bytes"),
    "descriptors": ("verbs called with 0 to 19 descriptors left", 1_300, "without a remedy, or broken afterwards"),
    "forks": ("forks of one session redacted, and erased, together", 20_000, "left as they were"),
    "soak": ("minutes of soak", 60, "not flat"),
}
"""Each row: its name, the size of a whole campaign, and the results counted as failures."""


def read_results(text: str) -> dict[str, dict[str, object]]:
    """Return the sums of the lines of each row."""
    found: dict[str, dict[str, object]] = {}
    for line in text.splitlines():
        one = json.loads(line)
        row = found.setdefault(one["row"], {"count": 0, "wrong": 0, "date": "", "note": ""})
        row["count"] += one["count"]
        row["wrong"] += one["wrong"]
        row["date"] = max(row["date"], one["date"])
        if one["note"] not in str(row["note"]).split("; "):
            row["note"] = "; ".join(filter(None, (str(row["note"]), one["note"])))
    return found


def row_text(name: str, found: dict[str, object]) -> str:
    """Return one row of the table."""
    title, whole, wrong = ROWS[name]
    count = found["count"]
    extent = "whole" if count >= whole else f"partial, of {whole:,}"
    note = f"; {found['note']}" if found["note"] else ""
    return f"| {title} | {count:,} | {found['wrong']:,} {wrong}{note} | {found['date']} | {extent} |"


def rows_of(page: str) -> dict[str, str]:
    """Return the rows of the page by name."""
    table = page.partition(BEGIN)[2].partition(END)[0]
    titles = {title: name for name, (title, _, _) in ROWS.items()}
    rows = {line.split("|")[1].strip(): line for line in table.splitlines() if line[:2] == "| "}
    return {titles[title]: line for title, line in rows.items() if title in titles}


def with_results(page: str, results: str) -> str:
    """Return the page with the results."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit("the page has no place for the table")
    rows = rows_of(page)
    rows |= {name: row_text(name, one) for name, one in read_results(results).items()}
    missing = "| {} | 0 | not run yet | – | partial, of {:,} |"
    lines = [rows.get(name) or missing.format(*ROWS[name][:2]) for name in ROWS]
    return f"{before}{BEGIN}\n\n{HEAD}{chr(10).join(lines)}\n\n{END}{after}"


def main(results: str, page: str | None = None) -> None:
    """Write the page anew."""
    place = PAGE if page is None else Path(page)
    text = Path(results).read_text(encoding="utf-8")
    place.write_text(with_results(place.read_text(encoding="utf-8"), text), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
