"""Who holds a lease, whether that process is gone, and the thread that renews."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from weakref import WeakKeyDictionary

import msgspec
import pytest

from holdfast.storage._leases import Holder, Renewer, this_holder


def _ended():
    """A holder whose process has ended."""
    program = (
        "import sys; from holdfast.storage._leases import this_holder;"
        "sys.stdout.buffer.write(this_holder('x').to_bytes())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    return Holder.from_bytes(done.stdout)


def test_a_process_that_ended_is_gone_and_this_one_is_not():
    """Nobody waits for a holder that was killed on this machine."""
    assert _ended().is_gone()
    assert not this_holder("me").is_gone()


@pytest.mark.parametrize("space", ["", "another-boot pid:[4026531836]"])
def test_a_process_of_another_container_is_never_taken_for_gone(space):
    """Two containers may have the same host name: an id that is not seen here says nothing."""
    holder = msgspec.structs.replace(_ended(), space=space)
    assert not holder.is_gone()


def test_an_id_that_another_process_has_by_now_is_gone():
    """The id is in use again, but what has it began at another time."""
    mine = this_holder("me")
    if not mine.started:
        pytest.skip("this system does not say when a process began")
    assert msgspec.structs.replace(mine, started=mine.started - 1).is_gone()


def test_another_host_and_what_cannot_be_read_are_not_gone():
    """Of those nothing is known: their time must run out."""
    ended = _ended()
    assert not msgspec.structs.replace(ended, host="elsewhere").is_gone()
    for data in (b"", b"[]", b'{"pid": "x"}', b"\xff"):
        assert not Holder.from_bytes(data).is_gone()
    assert not Holder(1, os.uname().nodename).is_gone()  # alive, whoever it belongs to


class _Lease:
    """Something to be kept."""


def test_renewing_goes_on_after_an_error_of_any_kind():
    """A turn that fails, however, is not the last one."""
    calls = []
    renewed = threading.Event()

    def renew(held):
        calls.append(dict(held))
        if len(calls) == 1:
            raise ValueError("not a store's error")
        renewed.set()
        return set()

    renewer = Renewer(renew)
    lease = _Lease()
    renewer.keep(lease, "sessions/a", 3, 60)
    assert renewed.wait(120)
    renewer.close()
    assert calls[0] == {"sessions/a": (3, 60)}


def test_a_lost_lease_is_not_renewed_any_more():
    """Nor is one that was given back, and the thread ends with the last."""
    calls = []
    second = threading.Event()

    def renew(held):
        calls.append(set(held))
        if len(calls) > 1:
            second.set()
        return {"lost"}

    renewer = Renewer(renew)
    leases = {key: _Lease() for key in ("lost", "kept")}
    for key, lease in leases.items():
        renewer.keep(lease, key, 1, 60)
    assert second.wait(120)
    assert "lost" not in calls[-1]
    thread = renewer._thread
    renewer.let_go(leases["kept"])
    thread.join(120)
    assert not thread.is_alive()
    renewer.close()


def test_a_lease_that_goes_while_it_is_looked_at_ends_the_thread():
    """Nobody refers to it any more from one step of the thread to the next: no error is raised."""

    class Going(WeakKeyDictionary):
        """Counts one that is gone when its values are asked for."""

        def __len__(self):
            return 1

    renewer = Renewer(lambda _held: set())
    renewer._held = Going()
    assert not renewer._wait()
