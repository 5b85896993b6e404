"""The PostgreSQL store: sessions of many machines, fenced by the database itself."""

from __future__ import annotations

from holdfast._lazy import lazy

TYPE_CHECKING = False  # loading `typing` takes longer than the whole of a short command
if TYPE_CHECKING:
    from holdfast.storage.postgres.link import ServerLink
    from holdfast.storage.postgres.tables import Migrations

__getattr__ = lazy(__name__, {"link": "ServerLink", "tables": "Migrations"})

__all__ = ["Migrations", "ServerLink"]
