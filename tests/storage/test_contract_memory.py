from __future__ import annotations

import pytest

from holdfast.storage import MemoryStore
from holdfast.testing import StoreContract


@pytest.mark.contract("C01-C76")
class TestContract(StoreContract):
    """The memory store keeps the whole store contract."""

    def make_store(self):
        return MemoryStore()
