"""Runs one seed of the simulation and prints what it did.

    python replay_seed.py SEED [leases] [BUG]

The last word is the digest of every call in order; two runs of one seed print the same.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "crash")]


def main(seed, *others):
    from seeded_bugs import with_bug
    from simulated_leases import LeaseLife
    from simulated_life import Life

    life = (LeaseLife if "leases" in others else Life)(int(seed))
    bug = next((word for word in others if word != "leases"), None)
    with with_bug(bug) if bug else nullcontext():
        try:
            life.run()
        finally:
            world = life.world
            print(  # noqa: T201 - what it is for
                f"seed {seed}: {world.steps:,} calls, {world.kills} kills, {world.losses} power"
                f" losses, {world.faults} faults, trace {life.digest}"
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
