"""Holdfast: the one facade that agents, apps and adapters call; each module is one part of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast._lazy import lazy
from holdfast.library._branches import Forebear, Lineage
from holdfast.library._holdfast import Holdfast, open  # noqa: A004 - the name that users call
from holdfast.library._imports import ImportedSession, ImportReport, Place
from holdfast.library._redaction import RedactionReport
from holdfast.library._seals import KeyInfo, Resealed
from holdfast.library._stats import By
from holdfast.library._trash import Erased, Trashed
from holdfast.library._views import SnapshotInfo

if TYPE_CHECKING:
    from holdfast.library._copy import Copied
    from holdfast.library._export import Installed
    from holdfast.library._keychain import make_key
    from holdfast.library._signed_files import SignedFile, read_signed, signing_seed
    from holdfast.library.answers.care import Pruned

__getattr__ = lazy(
    __name__,
    {
        "_copy": "Copied",
        "_export": "Installed",
        "_keychain": "make_key",
        "_signed_files": "SignedFile read_signed signing_seed",
        "answers.care": "Pruned",
    },
)

__all__ = [
    "By",
    "Copied",
    "Erased",
    "Forebear",
    "Holdfast",
    "ImportReport",
    "ImportedSession",
    "Installed",
    "KeyInfo",
    "Lineage",
    "Place",
    "Pruned",
    "RedactionReport",
    "Resealed",
    "SignedFile",
    "SnapshotInfo",
    "Trashed",
    "make_key",
    "open",
    "read_signed",
    "signing_seed",
]
