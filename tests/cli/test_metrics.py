"""``holdfast metrics``."""

from __future__ import annotations

import json
import stat

import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast.observe import METRICS, dashboard


def read(text):
    """What Prometheus's own reader makes of it."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_store_in_figures(run, trip, damaged):
    """Prometheus reads them; what is damaged is counted apart."""
    outcome = run("metrics")
    assert outcome.code == 0
    found = read(outcome.out)
    assert found["holdfast_up",] == 1
    assert found["holdfast_sessions",] == 2
    assert found["holdfast_sessions_by_state", ("state", "damaged")] == 1
    assert found["holdfast_sessions_by_state", ("state", "ok")] == 1


def test_as_json(run, trip):
    """The same for programs."""
    found = {one["name"]: one for one in json.loads(run("metrics", "--json").out)["metrics"]}
    assert found["holdfast_sessions"]["values"] == [{"labels": {}, "value": 1}]
    assert {METRICS[name].kind for name in found} == {"gauge"}


def test_a_file_for_cron(run, trip, tmp_path):
    """Written whole, again and again, for others to read; no word of a session is in it."""
    path = tmp_path / "holdfast.prom"
    for _ in range(2):
        outcome = run("metrics", "--textfile", str(path))
        assert (outcome.code, outcome.out, outcome.err) == (0, "", "")
    assert read(path.read_text())["holdfast_sessions",] == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [one.name for one in tmp_path.iterdir() if one.suffix != ""] == ["holdfast.prom"]
    assert trip not in path.read_text()


def test_a_folder_that_is_not_there(run, trip, tmp_path):
    """It is not made by a slip of the pen."""
    assert run("metrics", "--textfile", str(tmp_path / "no" / "x.prom")).code == 3


def test_a_store_that_cannot_be_used(run, store_root, tmp_path):
    """The file says so, as the exit code does; an alarm can be made of either."""
    store_root.chmod(0o770)
    outcome = run("metrics", "--textfile", str(tmp_path / "x.prom"))
    assert outcome.code == 1
    assert "can be written by others" in outcome.err
    assert read((tmp_path / "x.prom").read_text()) == {("holdfast_up",): 0}


def test_the_dashboard(run):
    """As it is; it is not mixed with figures."""
    assert run("metrics", "--dashboard").out == dashboard()
    assert run("metrics", "--dashboard", "--json").code == 2


@pytest.mark.parametrize("where", ["memory:", "none:"])
def test_stores_that_keep_nothing(run, where):
    """They have figures too."""
    assert "holdfast_sessions 0" in run("metrics", "--store", where).out
