"""kill -9 at random moments, on a real disk."""

from __future__ import annotations

import os

import pytest
from campaign_log import record
from kill_rounds import Rounds, check_session

from holdfast import Holdfast

ROUNDS = 20_000 if os.environ.get("CRASH_CAMPAIGN") == "full" else 500
ROUNDS_PER_SESSION = 10


@pytest.mark.slow
@pytest.mark.req("S2-104")
def test_kill_at_random_moments(store_root, capsys):
    """After 500 kills every append that returned is there; every session reads and goes on."""
    promises = []
    with Rounds(store_root) as rounds:
        for number in rounds.numbers(ROUNDS, lambda: sum(promises) > ROUNDS // 2):
            id = f"session-{number // ROUNDS_PER_SESSION}"
            promises.append(rounds.kill_one(number, id))
            if rounds.appended[id]:
                check_session(store_root, id, rounds.appended[id])
    with capsys.disabled():
        print(f" [{ROUNDS} kills, {sum(promises):,} promises] ", end="")  # noqa: T201 - a figure to see
    assert sum(promises) > ROUNDS // 2
    with Holdfast(store_root) as hf:
        for id in [id for id, tokens in rounds.appended.items() if tokens]:
            with hf.session(id, resume="always") as session:
                session.user("after all")
            assert hf.verify(id).ok
            check_session(store_root, id, rounds.appended[id])
    record("kills", ROUNDS)
