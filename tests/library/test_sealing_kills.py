"""Sealing, unsealing, rotating and erasing, killed at every step: all opens, and it goes on."""

from __future__ import annotations

import base64
import os

import pytest
from sealed_sessions import KEY, OTHER, QUICK, SECRET, told

import holdfast
from holdfast.errors import NotFound
from holdfast.storage import FileStore
from holdfast.testing import SimDisk

pytestmark = pytest.mark.unmeasured

ROOT = "/store"
FULL = os.environ.get("CRASH_CAMPAIGN") == "full"
SMALL = holdfast.Limits(blob_bytes_min=500)


def opened(disk, *keys):
    """The library on a simulated disk, its catalogue in memory."""
    store = FileStore(ROOT, disk=disk)
    store.catalog_place = lambda: None
    return holdfast.open(store, key=list(keys) or [KEY], limits=SMALL, config={"seal": False})


def base(*, sealed):
    """A disk with a session, a fork of it, an agent, a payload and a snapshot, all at rest."""
    disk = SimDisk()
    disk.make_directory("store", disk.open_root())
    with opened(disk) as hf:
        with hf.session("a", **QUICK, agent_id="bot", seal=sealed) as s:
            s.user(f"about {SECRET}")
            s.tool_result("c1", {"content": SECRET * 100})
            s.memory.set("word", SECRET, scope="persistent")
            s.snapshot()
            s.assistant("yes")
        hf.fork("a", new_id="b")
        if sealed:
            hf.keys.encrypt()
        known = {id: told(hf, id) for id in ("a", "b")}
    return SimDisk(disk.image()), known


def bytes_of(disk):
    """Everything that has a name on the disk."""
    image = disk.image()
    named = {inode for names in image.entries.values() for inode in names.values()}
    return b"\0".join(data for inode, data in image.contents.items() if inode in named)


def readable(data, *secrets):
    """The secrets that are to be found, also in base64."""
    return [one for one in secrets if one in data or base64.b64encode(one)[:-4] in data]


WORKS = {
    "encrypt": (False, lambda hf: hf.keys.encrypt(), (KEY,)),
    "decrypt": (True, lambda hf: hf.keys.decrypt(), (KEY,)),
    "rotate": (True, lambda hf: hf.keys.rotate(OTHER), (KEY, OTHER)),
    "rotate data": (True, lambda hf: hf.keys.rotate(data=True), (KEY,)),
    "rotate both": (True, lambda hf: hf.keys.rotate(OTHER, data=True), (KEY, OTHER)),
}


@pytest.mark.parametrize("mode", ["kill", "power"])
@pytest.mark.parametrize("name", WORKS)
def test_killed_at_every_step_everything_opens_and_it_goes_on(name, mode):
    """The same events with the old key or the new; done again, it ends as if nothing had been."""
    sealed, work, keys = WORKS[name]
    disk, known = base(sealed=sealed)
    with opened(disk) as hf:
        work(hf)
    states = {state.key: state for state in disk.crash_states(mode, settled=("lock",), step=4000)}
    assert len(states) > 10
    # Power loss leaves hundreds of states: on each push some of them, `make torture` has all.
    step = 1 if mode == "kill" or FULL else max(1, len(states) // 25)
    for state in list(states.values())[::step]:
        left = state.disk()
        with opened(left, *keys) as hf:
            for id, events in known.items():
                assert told(hf, id) == events, (state, id)
        with opened(left) as hf:
            work(hf)
        with opened(left, keys[-1]) as hf:
            for id, events in known.items():
                assert told(hf, id) == events, (state, id)
                assert hf.verify(id).ok, (state, hf.verify(id).explain())
                assert hf.keys.is_sealed(id) is (name != "decrypt"), state
            with hf.session("a", **QUICK) as s:
                s.user("on")
                assert s.memory.get("word") == SECRET
        if name != "decrypt":
            assert readable(bytes_of(left), SECRET.encode()) == [], state


@pytest.mark.parametrize("sealed", [True, False])
def test_an_erasure_killed_at_every_step_goes_on(sealed):
    """Done again, nothing is left; a session whose keys are gone opens nowhere."""
    disk, known = base(sealed=sealed)
    with opened(disk) as hf:
        secrets = [key.secret for id in known for key in (hf.store.ring(f"sessions/{id}").keys if sealed else ())]
        hf.erase("a")
    states = {state.key: state for state in disk.crash_states("kill", settled=("lock",), step=4000)}
    for state in states.values():
        left = state.disk()
        with opened(left) as hf:
            for id in ("a", "b"):
                try:
                    hf.erase(id)
                except NotFound:
                    assert not hf.exists(id), state
            assert hf.list() == []
            hf.store.inner.documents("agents/bot").delete("memory.json")
        assert readable(bytes_of(left), SECRET.encode(), *secrets) == [], state


@pytest.mark.parametrize("mode", ["kill", "power"])
def test_a_fork_killed_at_every_step_is_whole_and_opens_or_is_not_there(mode):
    """Its keys are there with its first event: a copy that nothing opens is never left behind."""
    disk, known = base(sealed=True)
    with opened(disk) as hf:
        hf.fork("a", new_id="c", title="the third")
        whole = told(hf, "c")
    shared, met = len(known["a"]), set()
    for state in disk.crash_states(mode, settled=("lock",), step=4000):
        with opened(state.disk()) as hf:
            assert told(hf, "a") == known["a"], state
            if not hf.exists("c"):
                met.add(None)
                hf.fork("a", new_id="c")
                continue
            events = told(hf, "c")
            met.add(len(events))
            assert events[:shared] == known["a"], state
            assert events == whole[: len(events)], state
            assert hf.keys.is_sealed("c"), state
            with hf.session("c", **QUICK) as s:
                s.user("on")
            found = hf.verify("c")  # a snapshot that was lost on the way is passed over
            assert (found.gaps, found.tampered) == ([], []), state
    assert met >= {None, shared, len(whole)}
