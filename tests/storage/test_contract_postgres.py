"""The store contract on a real PostgreSQL server."""

from __future__ import annotations

import pytest

from holdfast.storage.postgres.store import PostgresStore
from holdfast.testing import StoreContract


@pytest.mark.contract("C01-C76")
class TestPostgresStore(StoreContract):
    """Every numbered promise, in one schema of a database."""

    @pytest.fixture(autouse=True)
    def _schema(self, postgres_url):
        self.url = postgres_url

    def make_store(self):
        """A schema that is made with the first connection."""
        return PostgresStore(self.url)

    def reopen(self, store):
        """The same schema, as another machine would open it."""
        return PostgresStore(self.url)
