"""The cases of the bench: each can be run, and what is missing is said and left out."""

from __future__ import annotations

import sys

import pytest


def _lines(case, tmp_path):
    folder, scratch = tmp_path / "shared", tmp_path / "round"
    folder.mkdir()
    scratch.mkdir()
    if hasattr(case, "prepare"):
        case.prepare(str(folder))
    case.measure(str(scratch))
    return case.lines()


@pytest.fixture
def _no_peers(monkeypatch, tmp_path):
    from bench.recovery import peers

    monkeypatch.setattr(peers, "PYTHON", str(tmp_path / "python-of-nobody"))


def test_a_fork_and_an_archive_are_measured(tmp_path):
    """A ratio for each, and marks where they are promised."""
    from bench.branching import Archive, Fork

    for number, case in enumerate((Fork, Archive)):
        lines = _lines(case(quick=True), _made(tmp_path / str(number)))
        assert all(line.ratio > 0 for line in lines)
        assert lines[0].mark is not None
    assert lines[0].ratio < 0.5  # the archive is smaller on any machine


def test_steps_are_measured(tmp_path, monkeypatch):
    """What a step costs, and what passing known ones takes, on each store that is here."""
    from bench import server
    from bench.steps import Steps

    monkeypatch.setattr(server, "missing", lambda: "not needed")
    case = Steps(quick=True)
    case._pairs, case._known = 3, 20
    lines = _lines(case, tmp_path)
    assert [line.goal for line in lines] == [
        *("step-files", "step-always", "step-sqlite"),
        *("step-known-files", "step-known-sqlite"),
    ]
    assert all(line.ratio > 0 and line.mark for line in lines)


@pytest.mark.usefixtures("_no_peers")
def test_rivals_that_are_not_installed_are_left_out(tmp_path, capsys):
    """The reason is printed, and our own lines are there."""
    from bench.catalogue import Search

    case = Search(quick=True)
    case._sessions = 50
    case._queries = {name: queries[:5] for name, queries in case._queries.items()}
    lines = _lines(case, tmp_path)
    assert "without llm" in capsys.readouterr().err
    assert not any("llm" in line.what for line in lines)
    assert lines[0].goal == "search"
    assert lines[0].mark == 2


@pytest.mark.usefixtures("_no_peers")
def test_lists_of_a_small_crowd_are_measured(tmp_path):
    """Ratio, exponent and the figures of the large store."""
    from bench.catalogue import Lists

    case = Lists(quick=True)
    case._sizes, case._calls = (60, 80, 120), 2
    lines = {line.what.partition(" (")[0]: line for line in _lines(case, tmp_path)}
    assert any(what.startswith("exponent of a list") for what in lines)
    assert lines["120 sessions: prune, dry run, later calls"].ratio > 0
    assert lines["120 sessions: memory of the process after all that"].floor == "150 MB"


def test_without_a_server_postgres_has_no_lines(tmp_path, monkeypatch, capsys):
    """And the reason is printed."""
    from bench import server
    from bench.stores import Postgres

    monkeypatch.setattr(server, "missing", lambda: "there is none here")
    assert _lines(Postgres(quick=True), tmp_path) == []
    assert "without PostgreSQL: there is none here" in capsys.readouterr().err


def test_a_rival_that_fails_is_left_out(tmp_path, monkeypatch, capsys):
    """With the last thing that it said."""
    from bench import rivals
    from bench.recovery import peers

    monkeypatch.setattr(peers, "PYTHON", sys.executable)
    assert rivals.ask("agno", str(tmp_path), {}) is None  # not in this environment
    assert "without agno, SqliteDb: ModuleNotFoundError" in capsys.readouterr().err


def _made(folder):
    folder.mkdir()
    return folder


def test_pages_of_the_web_app(tmp_path):
    """Each page is told beside the question that it asks the library."""
    pytest.importorskip("starlette", reason="starlette is not installed")
    from bench.web import Pages

    case = Pages(quick=True)
    case._count, case._calls = 60, 1
    lines = _lines(case, tmp_path)
    assert lines[0].what.startswith("web app: list of 50")
    assert len(lines) == len(Pages.PAGES)
    assert all(line.ratio > 0 for line in lines)


def test_many_at_once_are_told_with_and_without_a_slow_disk():
    """Each promise has its line, by the rates of the same disk on both sides."""
    from bench.many import Processes, Together

    together = Together(quick=True)
    together._rates = {
        "sqlite": [700.0],
        "files": [1000.0],
        "floor": [1000.0],
        "slow sqlite": [2000.0],
        "slow files": [200.0],
        "slow floor": [100.0],
    }
    told = {line.goal: line.ratio for line in together.lines() if line.goal}
    assert told == {"many-rate": 0.7, "many-rate-slow": 20.0}
    processes = Processes(quick=True)
    processes._ours = {"synced": [80.0], "slow": [95.0], "written": [40.0]}
    processes._floor = {how: [100.0] for how in processes._ours}
    told = {line.goal: line.ratio for line in processes.lines() if line.goal}
    assert told == {"processes": 0.8, "processes-slow": 0.95}


def test_a_slow_disk_syncs_and_then_waits(monkeypatch, tmp_path):
    """The delay comes on top of what the disk itself takes, and not where there is none."""
    import os
    import time

    from bench.floor import SlowDisk, open_plain

    done = []
    monkeypatch.setattr(os, "fdatasync", lambda _: done.append("synced"))
    monkeypatch.setattr(time, "sleep", done.append)
    descriptor = open_plain(str(tmp_path))
    SlowDisk(0.0).sync(descriptor)
    SlowDisk(0.5).sync(descriptor)
    os.close(descriptor)
    assert done == ["synced", "synced", 0.5]


def test_every_cause_is_of_a_promise():
    """What is said where a mark is missed names a promise that there is."""
    from bench.goals import CAUSES, GOALS

    assert CAUSES.keys() <= GOALS.keys()
