from __future__ import annotations

import pytest

from holdfast.storage import NoStore
from holdfast.testing import StoreContract


@pytest.mark.contract("C01-C76")
class TestContract(StoreContract):
    """The store that stores nothing keeps the whole store contract."""

    def make_store(self):
        return NoStore()
