"""Small interfaces that other systems know, on top of ours.

:class:`DocumentStore` and :class:`EventStore` make a :class:`~holdfast.storage.Store` of an object
with a few methods; :class:`SessionManager` gives sessions with answers instead of exceptions.
"""

from __future__ import annotations

from holdfast.compat.backend import AgentStorage, EventStorage
from holdfast.compat.document_store import DocumentStore
from holdfast.compat.event_store import EventStore
from holdfast.compat.session_manager import SessionManager

__all__ = ["AgentStorage", "DocumentStore", "EventStorage", "EventStore", "SessionManager"]
