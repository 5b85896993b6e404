"""What the recording disk says that power loss leaves, once, by chance."""

from __future__ import annotations

from random import Random

from holdfast.testing import SimDisk


def moved_disk():
    """A directory made in one, moved to another, both synced, in the order of a careful program."""
    disk = SimDisk()
    root = disk.open_root()
    for name in ("hidden", "seen"):
        disk.make_directory(name, root)
    disk.sync_directory(root)
    hidden, seen = (disk.open_directory(name, root) for name in ("hidden", "seen"))
    disk.make_directory("branch", hidden)
    disk.rename("branch", hidden, "branch", seen)
    disk.sync_directory(seen)
    disk.sync_directory(hidden)
    return disk


def test_what_was_moved_does_not_come_back():
    """A directory whose move is synced has one name, not the old one as well."""
    disk = moved_disk()
    last = list(disk.crash_states("power"))[-1]
    assert sorted(last.paths) == ["/hidden", "/seen", "/seen/branch"]
    assert sorted(disk.lose_power(Random(1)).paths) == sorted(last.paths)


def test_losses_by_chance_are_states_that_can_be():
    """Each is one of all the states, the same chance gives the same, and synced bytes are there."""
    disk = SimDisk()
    root = disk.open_root()
    file = disk.open_log("log", root, create=True)
    disk.write(file, b"safe")
    disk.sync(file)
    disk.sync_directory(root)
    disk.write(file, b"not yet")
    every = {state.key for state in disk.crash_states("power")}
    found = [disk.lose_power(Random(seed)) for seed in range(60)]
    assert {state.content("/log")[:4] for state in found} == {b"safe"}
    assert len({state.key for state in found} & every) > 5
    again = [disk.lose_power(Random(seed)).key for seed in range(60)]
    assert again == [state.key for state in found]
