"""Holdfast: the one facade that agents, apps and adapters call; each module is one part of it."""

from __future__ import annotations

from holdfast.library._branches import Forebear, Lineage
from holdfast.library._holdfast import Holdfast, open  # noqa: A004 - the name that users call
from holdfast.library._imports import ImportedSession, ImportReport, Place
from holdfast.library._redaction import RedactionReport
from holdfast.library._retention import Pruned
from holdfast.library._seals import KeyInfo, Resealed
from holdfast.library._trash import Erased, Trashed
from holdfast.library._views import SnapshotInfo

__all__ = [
    "Erased",
    "Forebear",
    "Holdfast",
    "ImportReport",
    "ImportedSession",
    "KeyInfo",
    "Lineage",
    "Place",
    "Pruned",
    "RedactionReport",
    "Resealed",
    "SnapshotInfo",
    "Trashed",
    "open",
]
