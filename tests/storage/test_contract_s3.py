"""The store contract in a bucket: an emulation for every promise, a real server for all of them."""

from __future__ import annotations

from uuid import uuid4

import pytest

from holdfast.errors import Unavailable
from holdfast.storage.s3.store import ObjectStore
from holdfast.testing import StoreContract


class _Bucket(StoreContract):
    """A prefix that nobody used before."""

    url = ""

    def make_store(self):
        """Nothing is there yet."""
        return ObjectStore(self.url)

    def reopen(self, store):
        """The same prefix, as another machine would open it."""
        return ObjectStore(self.url)


@pytest.mark.contract("C01-C78")
class TestMoto(_Bucket):
    """Every numbered promise, on the quick server.

    C41 counted wrong once, on a machine with a load of 18. Two causes were found, either of which is enough; which of
    them it was that time is not known. The emulation looked at a condition and stored in two steps, so that two
    writers could win at once: see atomic_moto.py. And a put that was tried again took the same bytes, put there by
    another, for its own: that was ours, see test_bucket_answers.py.
    """

    @pytest.fixture(autouse=True)
    def _place(self, moto_server):
        self.url = moto_server.url(uuid4().hex)


@pytest.mark.slow
@pytest.mark.contract("C01-C78")
class TestSeaweed(_Bucket):
    """Every numbered promise, on a real server."""

    @pytest.fixture(autouse=True)
    def _place(self, seaweed_server):
        self.url = seaweed_server.url(uuid4().hex)


def test_a_bucket_that_ignores_preconditions_is_refused(rclone_server):
    """Such a server would let two writers overwrite each other: it is refused before any write."""
    store = ObjectStore(rclone_server.url("x"))
    with pytest.raises(Unavailable, match="ignores preconditions"):
        store.check()
    store.close()
