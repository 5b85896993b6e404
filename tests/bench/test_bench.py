"""The benchmark itself: its workload, its figures, its judge."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

USER = {"role": "user", "text": "u"}
DONE = {"role": "assistant", "text": "done", "calls": []}


def _calling(*ids):
    calls = [{"id": id, "name": "read", "input": {}} for id in ids]
    return {"role": "assistant", "text": "a", "calls": calls}


def _result(id, text="r"):
    return {"role": "tool", "id": id, "text": text}


def test_the_workload_is_the_same_in_every_run():
    """Sizes as promised, in turn, and the same texts each time."""
    from bench.workload import SIZES, plain_bytes, step

    assert [step(index).type for index in range(8)] == [*SIZES] * 2
    assert all(len(step(index).text) == SIZES[step(index).type] for index in range(40))
    assert 1_500 <= sum(plain_bytes(step(index)) for index in range(400)) / 400 <= 1_600
    assert step(123) == step(123)


def test_an_exponent_tells_flat_from_linear():
    """0 for a cost that stays, 1 for one that grows with n."""
    from bench.figures import exponent

    sizes = (100, 1_000, 10_000, 100_000)
    assert exponent([(n, 5.0) for n in sizes]) == pytest.approx(0)
    assert exponent([(n, 0.3 * n) for n in sizes]) == pytest.approx(1)


def test_a_line_says_whether_its_mark_was_reached():
    """The median of the rounds decides; a line without a mark is only told."""
    from bench.figures import line_of
    from bench.table import show

    met, missed = line_of("x", [1.0, 1.2, 9.0], 1.4), line_of("y", [1.0, 1.5, 1.6], 1.4)
    assert (met.met, missed.met, line_of("z", [1.0], None).met) == (True, False, None)
    assert met.spread == (1.0, 9.0)
    assert "missed" in show([met, missed]).splitlines()[1]


@pytest.mark.parametrize(
    ("history", "strict", "paired"),
    [
        ([], True, True),
        ([USER, _calling("1", "2"), _result("2"), _result("1"), DONE], True, True),
        ([USER, _calling("1", "2"), _result("1"), USER, _result("2")], False, True),
        ([USER, _calling("1"), USER, _result("1")], False, True),
        ([USER, _calling("1"), _result("1"), _result("1")], False, True),
        ([USER, _calling("1"), USER], False, False),
        ([USER, _calling("1")], False, False),
        ([USER, _result("1"), _calling("1")], False, False),
        ([USER, _result("9"), DONE], False, False),
        ([USER, _calling("1", "1"), _result("1"), _result("1")], False, True),
    ],
)
def test_the_judge_knows_both_rules(history, strict, paired):
    """Strict: at once, one for each, and no other. Pairing: a call before, a result after."""
    from bench.recovery import checker

    assert checker.is_strict(history) is strict
    assert checker.is_paired(history) is paired


def test_the_judge_counts_work_that_is_no_longer_told():
    """A completed call whose result is gone is lost; an orphaned result is not."""
    from bench.recovery import checker

    before = [USER, _calling("1", "2"), _result("1", "one"), _result("2", "two"), _result("9", "x")]
    assert checker.lost(before, [USER, _calling("1"), _result("1", "one")]) == 1
    assert checker.lost(before, before) == 0
    assert checker.starts_with_user([]) is True
    assert checker.starts_with_user([DONE]) is False


def test_histories_are_the_same_for_the_same_seed():
    """And most of them are broken, in many ways."""
    from bench.recovery import checker
    from bench.recovery.histories import generate

    histories = generate(300)
    assert histories == generate(300)
    assert sum(not checker.is_strict(history) for history in histories) > 200


@pytest.mark.parametrize("incomplete", ["mark", "drop"])
def test_our_repair_leaves_nothing_invalid_and_loses_nothing(incomplete):
    """On the histories of ``make bench-recovery``; the whole table takes longer."""
    from bench.recovery import checker
    from bench.recovery.histories import generate
    from bench.recovery.ours import repair

    for history in generate(600, seed=1):
        mended = repair(history, incomplete)
        assert checker.is_strict(mended)
        assert checker.starts_with_user(mended)
        assert checker.lost(history, mended) == 0
        assert repair(mended, incomplete) == mended


def test_a_call_that_is_approved_elsewhere_and_killed_acts_once():
    """Our program of ``make bench-approval`` pays once, and the model is told that the outcome is unknown."""
    from bench.approval.__main__ import run

    found = run("ours", sys.executable)
    assert found.effects == 1
    assert "unknown" in found.told


def test_the_page_that_compares_has_the_table_of_approvals():
    """Nobody wrote it by hand: it is the one of bench/APPROVAL.md."""
    table = (ROOT / "bench" / "APPROVAL.md").read_text(encoding="utf-8").partition("\n\n|")[2]
    page = (ROOT / "docs" / "explanation" / "comparison.md").read_text(encoding="utf-8")
    assert len(table.splitlines()) == 6
    assert table in page
