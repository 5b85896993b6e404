"""Holdfast: the one facade that agents, apps and adapters call; each module is one part of it."""

from __future__ import annotations

from holdfast.library._branching import Forebear, Lineage
from holdfast.library._erasing import Erased
from holdfast.library._holdfast import Holdfast, open  # noqa: A004 - the name that users call
from holdfast.library._import_report import ImportedSession, ImportReport
from holdfast.library._importing import Place
from holdfast.library._reading import SnapshotInfo
from holdfast.library._redacting import RedactionReport
from holdfast.library._retention import Pruned
from holdfast.library._sealing import KeyInfo, Resealed
from holdfast.library._trash import Trashed

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
