"""The store contract on SQLite."""

from __future__ import annotations

import pytest

from holdfast.storage.sqlite.store import SQLiteStore
from holdfast.testing import StoreContract


class TestSQLiteStore(StoreContract):
    """Every numbered promise, in one database file."""

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path):
        self.path = str(tmp_path / "below" / "sessions.db")

    def make_store(self):
        """A file that is not there yet."""
        return SQLiteStore(self.path)

    def reopen(self, store):
        """The same file, as another process would open it."""
        return SQLiteStore(store.path)
