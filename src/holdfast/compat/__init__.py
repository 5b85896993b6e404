"""Small interfaces that other systems know, on top of ours.

:class:`DocumentStore` and :class:`EventStore` make a :class:`~holdfast.storage.Store` of an object
with a few methods; :class:`SessionManager` gives sessions with answers instead of exceptions.
"""

from __future__ import annotations

from holdfast.compat.session_manager import SessionManager
from holdfast.compat.stores import AgentStorage, DocumentStore, EventStorage, EventStore

__all__ = ["AgentStorage", "DocumentStore", "EventStorage", "EventStore", "SessionManager"]
