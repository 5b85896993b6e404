"""The bench of the service: its load, its kill and its count, on a small scale."""

from __future__ import annotations

import pytest

import holdfast


@pytest.mark.slow
def test_a_small_load_survives_its_server(tmp_path):
    """Nothing acknowledged is lost, nothing is there twice, and readers miss nothing."""
    from bench.service import Service

    tmp_path.chmod(0o700)
    case = Service(quick=True)
    case.WRITERS, case.READERS = 8, 3
    case._requests, case._events = 40, 4
    case.measure(str(tmp_path))
    rates, (lost, doubled, missed) = case.lines()[:2], case.lines()[2:]
    assert all(line.ratio > 0 for line in rates)
    assert [line.ratio for line in (lost, doubled, missed)] == [0, 0, 0]
    assert lost.ours == "32 acknowledged"
    assert lost.met


def test_a_loss_is_counted(tmp_path, monkeypatch):
    """What was acknowledged and is not there is found, and so is what is there twice."""
    from bench import service

    monkeypatch.setattr(service, "_token", lambda store: "none")
    load = service._Load(str(tmp_path / "store"), 1, 0, 3)
    with holdfast.open(tmp_path / "store", space="load") as hf, hf.session("one") as session:
        for n in (0, 0, 1):
            session.append("note", {"n": n})
    load._ids, load.acknowledged = {0: "one"}, {(0, 0), (0, 1), (0, 2)}
    assert load.judge() == (1, 1)
