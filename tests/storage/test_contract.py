"""The store contract on every kind of store that an address opens; buckets have their own file."""

from __future__ import annotations

import pytest

from holdfast.storage import FileStore, open_store
from holdfast.testing import SimDisk, StoreContract


@pytest.mark.contract("C01-C78")
class TestContract(StoreContract):
    """Every numbered promise, in a place where nothing is yet."""

    @pytest.fixture(autouse=True, params=["files", "memory", "none", "sqlite", "postgres"])
    def _place(self, request, tmp_path):
        folder = tmp_path / "not yet"
        urls = {
            "files": str(folder / "store"),
            "memory": "memory:",
            "none": "none:",
            "sqlite": f"sqlite://{folder}/sessions.db",
        }
        self.url = urls.get(request.param) or request.getfixturevalue("postgres_url")

    def make_store(self):
        """A store that is made with the first write or connection."""
        return open_store(self.url)

    def reopen(self, store):
        """The same place, as another process would open it; memory and nothing have none."""
        has_no_place = self.url in ("memory:", "none:")
        return super().reopen(store) if has_no_place else open_store(self.url)


@pytest.mark.contract("C01-C78")
class TestContractOnRecordingDisk(StoreContract):
    """The file store keeps it on the recording disk too, so that one is a file system."""

    def make_store(self):
        self.disk = SimDisk()
        return FileStore("/deep/store", disk=self.disk)

    def reopen(self, store):
        return FileStore("/deep/store", disk=self.disk)

    # Threads wait for each other's locks there, which the recording disk does not do.
    test_c41_compare_and_swap = None
    test_c42_whole_or_not_at_all = None
    test_c78_namesakes_at_the_same_moment = None
