"""Worlds from seeds: processes that write, read, index, archive and tidy up, and all that fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from campaign_log import FULL, record
from seeded_bugs import BUGS, COURTESY, LEASE_BUGS, patched, with_bug
from simulated_leases import LeaseLife
from simulated_life import Life

HERE = Path(__file__).parent
SEEDS = 50_000 if FULL else 180
FIRST = int(os.environ.get("SIMULATION_SEED", "0"))
PARTS = 500 if FULL else 6
LEASE_SEEDS = 10_000 if FULL else 30
LEASE_PARTS = 100 if FULL else 2
TRIES = 90


def first_failing(kind, name):
    """The first seed that shows a mistake, and what it shows; None if none of the first does."""
    with with_bug(name):
        for seed in range(TRIES):
            life = kind(seed)
            try:
                life.run()
            except Exception as error:  # noqa: BLE001 - whatever a mistake leads to is a find
                return seed, life.digest, repr(error)
    return None


@pytest.mark.req("S2-104")
@pytest.mark.parametrize("part", range(PARTS))
def test_every_seed_keeps_the_contract(part):
    """Whoever is killed, whatever fails, however the clock jumps: no promise is broken."""
    seeds = range(FIRST + part, FIRST + SEEDS, PARTS)
    kills = losses = faults = 0
    for seed in seeds:
        world = Life(seed).run().world
        kills, losses = kills + world.kills, losses + world.losses
        faults += world.faults
    assert min(kills, losses, faults) > 0
    record("simulation", len(seeds))


@pytest.mark.req("S2-104")
@pytest.mark.parametrize("part", range(LEASE_PARTS))
def test_every_seed_keeps_the_contract_around_a_bucket(part):
    """Leases run out, requests are lost or come late, no two clocks agree: nothing is lost."""
    seeds = range(FIRST + part, FIRST + LEASE_SEEDS, LEASE_PARTS)
    kills = faults = fenced = 0
    for seed in seeds:
        life = LeaseLife(seed).run()
        kills, faults = kills + life.world.kills, faults + life.world.faults
        fenced += life.fenced
    assert min(kills, faults, fenced) > 0
    record("leases", len(seeds))


def test_a_lease_proves_nothing():
    """Whoever takes a lease that another one holds harms nobody: the fence is in the data."""
    with patched(COURTESY):
        assert sum(LeaseLife(seed).run().fenced for seed in range(12)) > 10


@pytest.mark.parametrize("kind", [Life, LeaseLife])
def test_a_seed_is_a_whole_report(kind):
    """The same seed does the same calls with the same bytes, in this process and in another one."""
    digests = [kind(seed).run().digest for seed in (3, 3, 4)]
    assert digests[0] == digests[1] != digests[2]
    command = [sys.executable, str(HERE / "replay_seed.py"), "3"]
    command += ["leases"] if kind is LeaseLife else []
    for salt in ("1", "2"):  # the order of sets differs between them
        environment = {**os.environ, "PYTHONHASHSEED": salt}
        told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
        assert told.stdout.split()[-1] == digests[0]


@pytest.mark.parametrize(
    ("kind", "name"), [*((Life, name) for name in BUGS), *((LeaseLife, name) for name in LEASE_BUGS)]
)
def test_a_mistake_is_found_and_its_seed_repeats_it(kind, name):
    """A version with a mistake breaks a promise within a few seeds, each time in the same way."""
    found = first_failing(kind, name)
    assert found is not None, "no seed shows it"
    seed, digest, told = found
    with with_bug(name):
        again = kind(seed)
        with pytest.raises(Exception) as failure:  # noqa: PT011 - it must be the same as before
            again.run()
    assert (again.digest, repr(failure.value)) == (digest, told)
    kind(seed).run()  # without the mistake that seed is sound
