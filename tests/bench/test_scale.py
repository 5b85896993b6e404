"""The model of a large installation: its arithmetic, its simulation, and the page that shows it."""

from __future__ import annotations

import msgspec
import pytest


@pytest.fixture
def measured():
    from bench.model import Measured

    names = Measured.__struct_fields__
    return Measured(**dict.fromkeys(names, 100.0) | {"commit_ms": 1.0, "archive_ratio": 0.3})


@pytest.fixture
def plan(measured):
    from bench.model import Assumptions, Plan

    return Plan(measured, Assumptions())


def test_costs_of_batches_and_of_events_are_told_apart():
    """Two mixtures of both are enough."""
    from bench.model import Measured

    def cost(commits, events):
        both = commits * 3e-4 + events * 2e-5
        return {"app": both, "db": both * 2, "commits": commits, "wal": 0.0, "seconds": 1.0}

    costs = {"alone": cost(1_000, 1_000), "together": cost(50, 5_000)}
    costs |= {name: cost(0, 10) for name in ("index", "sessions", "renewals")}
    counts = {"alone": 1_000, "together": 5_000, "sessions": 10, "renewals": 10}
    rest = dict.fromkeys(("commit_ms", "log_bytes", "table_bytes", "index_bytes", "archive_ratio"), 1.0)
    found = Measured.of(costs, counts, **rest)
    assert found.app_batch_us == pytest.approx(300)
    assert found.app_event_us == pytest.approx(20)
    assert found.db_batch_us == pytest.approx(600)
    assert found.batch_events == 100


@pytest.mark.parametrize(
    ("alone", "together"),
    [((10, 10, 1.0), (10, 10, 1.0)), ((10, 10, 0.1), (1, 100, 5.0)), ((10, 10, 5.0), (1, 100, 0.1))],
)
def test_no_cost_is_below_nothing(alone, together):
    """Whatever a disturbed measurement gives."""
    from bench.model import _fit

    assert min(_fit(alone, together)) >= 0


def test_twice_the_load_needs_twice_as_much(measured):
    """Cores and bytes grow with the events; a million of them costs the same."""
    from bench.model import Assumptions, Plan

    once = Plan(measured, Assumptions())
    twice = Plan(measured, Assumptions(events_per_day=2_000_000_000))
    assert twice.db_cores == pytest.approx(2 * once.db_cores)
    assert twice.hot_tb == pytest.approx(2 * once.hot_tb)
    assert twice.usd_per_million() == pytest.approx(once.usd_per_million())


def test_a_simulation_is_the_same_at_every_run(plan):
    """And carries the load that it was given."""
    from bench.model import simulate

    found = simulate(plan, 1.0, serial=False, seconds=2.0)
    assert found == simulate(plan, 1.0, serial=False, seconds=2.0)
    assert found.events_s == pytest.approx(plan.peak_s / plan.databases, rel=0.3)


def test_commits_in_a_row_are_bounded_by_one_disk(plan):
    """They come one after the other, so batches grow and a flush takes longer."""
    from bench.model import simulate

    slow = {"databases": 20, "commit_ms": 20.0, "seconds": 8.0}
    row = simulate(plan, 1.0, serial=True, **slow)
    together = simulate(plan, 1.0, serial=False, **slow)
    assert row.commits_s < 60
    assert row.batch_events > together.batch_events
    assert row.p50_ms > together.p50_ms


def test_the_page_shows_what_the_kept_figures_give():
    """Nobody wrote a figure by hand: the tables are computed from bench/scale.json."""
    from bench import scale
    from bench.model import Assumptions

    with open(scale.PAGE, encoding="utf-8") as file:
        page = file.read()
    assert scale.page_with(page, scale.tables(scale.kept(), Assumptions())) == page


def test_the_page_shows_what_was_measured_with_very_many_sessions():
    """That table too is computed, from bench/multitude.json."""
    from bench import multitude

    with open(multitude.KEPT, "rb") as file:
        figures = msgspec.json.decode(file.read())
    with open(multitude.PAGE, encoding="utf-8") as file:
        page = file.read()
    assert multitude.page_with(page, multitude.table(figures)) == page


def test_kept_figures_are_plausible():
    """All of them are there and above nothing."""
    from bench import scale

    found = msgspec.structs.asdict(scale.kept())
    assert all(value >= 0 for value in found.values())
    assert found["commit_ms"] > 0
    assert found["table_bytes"] > found["log_bytes"] * 0.2
