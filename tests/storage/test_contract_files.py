from __future__ import annotations

import pytest

from holdfast.storage import FileStore
from holdfast.testing import SimDisk, StoreContract


@pytest.mark.contract("C01-C76")
class TestContract(StoreContract):
    """The file store keeps the whole store contract."""

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path):
        self.path = tmp_path / "not yet" / "store"

    def make_store(self):
        return FileStore(self.path)

    def reopen(self, store):
        return FileStore(self.path)


@pytest.mark.contract("C01-C76")
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
