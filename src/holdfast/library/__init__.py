"""Holdfast: the facade that agents, apps and adapters call; each module is one part of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast._config import Given
from holdfast._lazy import lazy
from holdfast.library.holdfast import Holdfast
from holdfast.model import Limits
from holdfast.storage import Store

if TYPE_CHECKING:
    from holdfast.library._branches import Forebear, Lineage
    from holdfast.library._copy import Copied
    from holdfast.library._export import Installed
    from holdfast.library._finder import By
    from holdfast.library._health import AgentDocuments
    from holdfast.library._imports import ForeignSessions, ImportedSession, ImportReport, Place, SignedFile
    from holdfast.library._keychain import GivenKey, make_key, read_signed, signing_seed
    from holdfast.library._keys import KeyInfo, Keys, Resealed
    from holdfast.library._redaction import RedactionReport
    from holdfast.library._redactor import redacted
    from holdfast.library._retention import Policies
    from holdfast.library._trash import Erased, Trash, Trashed
    from holdfast.library._views import SnapshotInfo
    from holdfast.library.answers.store import Pruned

# The answers of operations lie beside their code, and are loaded with it.
__getattr__ = lazy(
    __name__,
    {
        "_branches": "Forebear Lineage",
        "_copy": "Copied",
        "_export": "Installed",
        "_finder": "By",
        "_health": "AgentDocuments",
        "_imports": "ForeignSessions ImportReport ImportedSession Place SignedFile",
        "_keychain": "make_key read_signed signing_seed",
        "_keys": "KeyInfo Keys Resealed",
        "_redaction": "RedactionReport",
        "_redactor": "redacted",
        "_retention": "Policies",
        "_trash": "Erased Trash Trashed",
        "_views": "SnapshotInfo",
        "answers.store": "Pruned",
    },
)

__all__ = ["AgentDocuments", "By", "Copied", "Forebear", "Holdfast", "Installed", "Lineage"]
__all__ += ["ForeignSessions", "ImportReport", "ImportedSession", "Place"]
__all__ += ["KeyInfo", "Keys", "RedactionReport", "Resealed", "SignedFile", "make_key", "read_signed", "redacted"]
__all__ += ["signing_seed"]
__all__ += ["Erased", "Policies", "Pruned", "SnapshotInfo", "Trash", "Trashed", "open"]


def open(
    where: str | os.PathLike[str] | Store | None = None,
    *,
    config: Given = None,
    limits: Limits | None = None,
    space: str | None = None,
    seal: bool | None = None,
    key: GivenKey | None = None,
) -> Holdfast:
    """Open the sessions at a place: a path, a URL, a store object, or the default place.

    The default is ``HOLDFAST_STORE``, else ``.holdfast/`` in the project if there is one, else the user's data
    directory. Nothing is created before the first event. With ``space`` only the sessions of that space are there;
    InvalidId if it is not a valid name of one.

    ``key`` opens sealed sessions: 32 bytes, or where they are (``keyring``, ``file:PATH``, ``env:NAME``,
    ``command:…``, ``passphrase``), or several of these. With ``seal`` new sessions are sealed with it.
    """
    return Holdfast(where, config=config, limits=limits, space=space, seal=seal, key=key)
