"""The report of the campaign: every row is on the page, and figures come from what tests left."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def report():
    """The tool, as a module."""
    spec = importlib.util.spec_from_file_location("report", ROOT / "tools" / "campaign_report.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_every_row_with_nothing_wrong(report):
    """A test of the campaign that is not in the table, or ended badly, fails the build."""
    rows = report.rows_of(report.PAGE.read_text(encoding="utf-8"))
    assert rows.keys() == report.ROWS.keys()
    for name, line in rows.items():
        _, _, count, result, date, extent, _ = (part.strip() for part in line.split("|"))
        if result == "not run yet":
            assert count == "0"
            continue
        assert result.startswith("0 "), line
        assert date.startswith("20"), line
        assert (extent == "whole") == (int(count.replace(",", "")) >= report.ROWS[name][1]), line


def test_figures_are_added_up_and_other_rows_stay(report, tmp_path):
    """Lines of a row are one figure; what was not run keeps the figure that it had."""
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.BEGIN}\n{report.END}\nafter\n")
    results = tmp_path / "results"
    line = {"row": "kills", "count": 3000, "wrong": 0, "date": "2026-01-02", "note": ""}
    results.write_text("".join(json.dumps(line) + "\n" for _ in range(2)))
    report.main(str(results), str(page))
    kept = report.rows_of(page.read_text())
    assert "| 6,000 | 0 lost | 2026-01-02 | whole |" in kept["kills"]
    assert "not run yet" in kept["soak"]
    line |= {"row": "soak", "count": 2, "wrong": 1, "note": "memory grew"}
    results.write_text(json.dumps(line) + "\n")
    report.main(str(results), str(page))
    again = report.rows_of(page.read_text())
    assert again["kills"] == kept["kills"]
    assert "| 2 | 1 not flat; memory grew | 2026-01-02 | partial, of 60 |" in again["soak"]
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("after\n")
    with pytest.raises(SystemExit, match="no place"):
        report.with_results("nothing", "")
