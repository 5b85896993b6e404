"""The pages of the bench: every promise is told, what fails is told, and pictures are pictures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest


@pytest.fixture
def sections():
    from bench.figures import line_of
    from bench.kept import section

    met = line_of("append p50 (floor)", [1.0, 1.5, 1.2], None, ours="3 us", floor="2 us")
    chart = (("100", 3.0), ("1000", 3.1))
    flat = line_of("exponent", [0.01], None)._replace(chart=chart)
    slow = line_of("times longer", [12.0], None)._replace(chart=(("Holdfast", 5.0), ("x & y", 60.0)))
    lines = [met.shows("append"), flat.shows("growth"), slow.shows("append-rival")]
    return {"append": section(lines, 5, 1.0), "load": section([], 0, 1.0, "OSError: a | b")}


def test_every_promise_has_a_row(sections):
    """Also one that was not measured; hard ones are set off."""
    from bench.goals import GOALS
    from bench.table import promises

    rows = promises(sections).splitlines()
    assert len(rows) >= 2 + len(GOALS)
    assert "| **append p50 against encode + one write** | ≤ 2x | 1.200x |" in rows[2]
    assert "| met |" in rows[2]
    assert any("not measured" in row for row in rows)
    assert "| missed |" in next(row for row in rows if "fastest rival against ours" in row)


def test_a_section_that_failed_is_told_beside_the_others(sections):
    """With its reason, which breaks no table."""
    from bench.table import whole

    page = whole(sections)
    assert "## append" in page
    assert "It failed: OSError: a   b" in page


def test_the_cause_of_a_gap_is_told_only_where_there_is_one(sections, monkeypatch):
    """A promise that is kept needs no excuse."""
    from bench import goals, table

    monkeypatch.setattr(table, "CAUSES", {"append-rival": "too slow", "append": "never said"})
    said = table.promises(sections)
    assert f"- **{goals.GOALS['append-rival'].what}**: too slow" in said
    assert "never said" not in said


def test_sections_are_kept_one_by_one(sections, tmp_path):
    """One that is measured again takes the place of what it was, and no other."""
    from bench.figures import line_of
    from bench.kept import keep, kept, section

    path = str(tmp_path / "results.json")
    assert kept(path) == {}
    assert keep(sections, path) == sections == kept(path)
    again = {"load": section([line_of("x", [1.0, 2.0], 3)], 2, 0.5)}
    assert keep(again, path) == sections | again == kept(path)


def test_charts_are_readable_pictures(sections, tmp_path, monkeypatch):
    """Well formed, with the words of the figures in them."""
    from bench import charts

    monkeypatch.setattr(charts, "FOLDER", str(tmp_path))
    charts.draw(sections)
    names = ["bench-growth.svg", "bench-marks.svg", "bench-rivals.svg"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    for path in tmp_path.iterdir():
        assert ET.fromstring(path.read_text()).tag.endswith("svg")
    assert "x &amp; y" in (tmp_path / "bench-rivals.svg").read_text()


def test_the_page_shows_what_is_kept():
    """Nobody wrote a figure by hand: the table on the page is that of bench/results.json."""
    from bench import table
    from bench.kept import kept

    with open(table.PAGE, encoding="utf-8") as file:
        page = file.read()
    assert table.page_with(page, table.promises(kept())) == page


class _Broken:
    """A section whose second round fails."""

    def __init__(self):
        self.ended = self.rounds = 0

    def measure(self, folder):
        self.rounds += 1
        if self.rounds == 2:
            raise OSError("no\nmore")

    def finish(self):
        self.ended = True
        raise OSError("not even this")

    def lines(self):
        from bench.figures import line_of

        return [line_of("x", [1.0], None)]


class _Whole(_Broken):
    def measure(self, folder):
        self.rounds += 1


def test_a_section_that_fails_takes_no_other_with_it(tmp_path, monkeypatch):
    """It keeps the rounds before, its reason is told, and it is ended all the same."""
    from bench import __main__ as bench

    monkeypatch.setattr(bench, "SCRATCH", str(tmp_path))
    broken, sound = _Broken(), _Whole()
    found = bench.run({"broken": broken, "sound": sound}, 3)
    assert found["broken"].failed == "OSError: no"
    assert (found["broken"].rounds, found["sound"].rounds) == (1, 3)
    assert len(found["broken"].lines) == len(found["sound"].lines) == 1
    assert broken.ended
    assert not found["sound"].failed


def _answer(spent, factor=1):
    sizes = {str(n): [n * 100 * factor, n * 120, n * 90] for n in (100, len(spent))}
    return {"spent": spent, "sizes": sizes, "floor": [1_000] * 4}


def test_rows_of_others_are_condensed_and_told():
    """Times, syncs, bytes and growth; a failure is a row too."""
    from bench import adapters_table as table

    store = {"shipped": _answer([5_000] * 300), "unsynced": _answer([2_000] * 400), "counted": [1.1]}
    side = {"spent": [2_000_000] * 200, "sizes": {"100": 100_000, "200": 400_000}, "written": 9}
    kept = {
        "stores/openai-sqlite": table.condensed(store),
        "stores/agno": table.condensed({"failed": "no answer | at all"}),
        "adapters/langgraph-sqlite": table.condensed({"theirs": side, "ours": {**side, "syncs": 2}}),
        "adapters/adk-sqlite": {"failed": "no"},
    }
    page = table.whole(kept)
    assert "| OpenAI Agents, SQLiteSession | sqlite | 5 | 5.00x | 1.10 | 2.0 | 2.0x |" in page
    assert "failed: no answer   at all" in page
    assert "| LangGraph | sqlite | `SqliteSaver` | 2.00 | 2.00 | 1.00 | 2,000 | 2,000 |" in page
    assert "above 1.1 on sqlite 2.0" in page
    assert kept["stores/openai-sqlite"]["unsynced"]["growth"] == 0


def test_a_rival_answers_or_is_given_up(tmp_path):
    """Asked in turns, in a process of its own; a store that is not there is a failure it tells."""
    from bench.rivals.asking import Rival

    rival = Rival(sys.executable)
    task = {"folder": str(tmp_path), "texts": ["a", "b"], "count": 4, "seconds": 5}
    try:
        found = rival.ask({**task, "store": "whole-file", "durable": False}, 30)
        assert len(found["spent"]) == 4
        stay = {**task, "store": "plain", "durable": True, "stay": "one"}
        assert len(rival.ask(stay, 30)["spent"]) == len(rival.ask(stay, 30)["spent"]) == 4
        assert "ModuleNotFoundError" in rival.ask({**task, "store": "agno", "durable": True}, 30)["failed"]
    finally:
        rival.end()
    assert rival.ask(task, 5)["failed"]


def test_a_rival_that_says_nothing_is_ended(tmp_path):
    """After its time, with what it started."""
    from bench.rivals.asking import Rival

    rival = Rival(sys.executable, "base64", "-e")  # says nothing before its input has ended
    assert rival.ask({}, 0.2) == {"failed": "no answer within 0 seconds"}


def test_names_of_others_are_known():
    """Each has a kind and an environment, and an adapter a rival of its kind."""
    from bench.adapters import CASES
    from bench.rivals.stores import STORES

    kinds = {"files", "sqlite", "postgres"}
    assert {store.kind for store in STORES.values()} == kinds
    assert {case.kind for case in CASES.values()} == kinds
    assert json.dumps(sorted(STORES))


def test_pages_show_what_was_measured():
    """The figures of README.md and of the comparison are those of the last run, to the letter."""
    from bench import adapters_table

    root = Path(__file__).parents[2]
    kept = json.loads((root / "bench" / "peers.json").read_text("utf-8"))
    for page, made in adapters_table.PAGES.items():
        text = (root / page).read_text("utf-8")
        assert adapters_table.page_with(text, made(kept)) == text
        assert "| **Holdfast** |" in made(kept)


@pytest.mark.parametrize(("what", "most"), [("ms to save one of 10,000", 50), ("ms to load a session of 10,000", 100)])
def test_a_save_and_a_load_took_less_than_asked_for(what, most):
    """In the last run whose figures are kept; a test of its own would only measure the machine."""
    from bench.kept import kept

    [line] = [line for one in kept().values() for line in one.lines if line.what.startswith(what)]
    assert 0 < line.ratio <= most
