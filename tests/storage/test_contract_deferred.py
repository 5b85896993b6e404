from __future__ import annotations

import pytest

from holdfast.errors import StoreError, Unavailable
from holdfast.testing import DeferredStore, StoreContract

KEY = "sessions/alpha"


@pytest.mark.contract("C01-C78")
class TestContract(StoreContract):
    """A store that accepts now and sends later keeps the whole store contract while it works."""

    def make_store(self):
        return DeferredStore()


def opened(fail_after):
    """A store that fails after so many appends, with a log and an epoch to write it."""
    store = DeferredStore(fail_after=fail_after)
    return store, store.log(KEY), store.lease(KEY).acquire("me", 60_000)


@pytest.mark.parametrize("fail_after", [0, 1, 2])
def test_append_after_the_failure_raises(fail_after):
    """What failed behind an append's back comes out of a later append, and nothing is added."""
    store, log, epoch = opened(fail_after)
    for seq in range(fail_after + 1):
        log.append(b"%d\n" % seq, seq, 1, epoch)
    with pytest.raises(Unavailable):
        log.append(b"last\n", fail_after + 1, 1, epoch)
    stored = b"".join(b"%d\n" % seq for seq in range(fail_after))
    assert b"".join(store.log(KEY).read()) == stored
    assert log.unsaved() == b"%d\n" % fail_after


def test_sync_after_the_failure_raises():
    """What failed behind an append's back comes out of a sync."""
    _, log, epoch = opened(1)
    log.append(b"0\n", 0, 1, epoch)
    log.append(b"1\n", 1, 1, epoch)
    with pytest.raises(StoreError):
        log.sync()
    assert log.unsaved() == b"1\n"


def test_sync_future_has_the_error():
    """The store's own sync gives the error through its future."""
    store, log, epoch = opened(0)
    log.append(b"0\n", 0, 1, epoch)
    assert isinstance(store.sync({KEY: log}).exception(timeout=120), Unavailable)


def test_failed_log_stays_dead():
    """Nothing can be added to a log that failed, even when the store works again."""
    store, log, epoch = opened(0)
    log.append(b"0\n", 0, 1, epoch)
    with pytest.raises(Unavailable):
        log.sync()
    store.fail_after = None
    with pytest.raises(Unavailable):
        log.append(b"1\n", 1, 1, epoch)
    with pytest.raises(Unavailable):
        log.sync()
    assert log.unsaved() == b"0\n"
    assert not store.exists(KEY)


def test_another_log_goes_on():
    """The log opened afresh after the failure takes appends again."""
    store, log, epoch = opened(0)
    log.append(b"0\n", 0, 1, epoch)
    with pytest.raises(Unavailable):
        log.sync()
    store.fail_after = None
    again = store.log(KEY)
    again.append(b"0\n", 0, 1, epoch)
    again.sync()
    assert b"".join(store.log(KEY).read()) == b"0\n"
