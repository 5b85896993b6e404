"""What keys and documents are called, and how one version of a document is told from another."""

from __future__ import annotations

import re

from holdfast.errors import InvalidId
from holdfast.model import check_id

_KINDS = ("sessions", "agents", "shared", "trash")
_DOCUMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._~-]{0,199}\Z", re.ASCII)
_DOCUMENT_DEPTH_MAX = 3
# Files of a key that are not documents, on whatever backend: one set of names for all.
_NOT_DOCUMENTS = re.compile(
    r"(lock|own\.jsonl|base\.json|base(\.[0-9]+)?\.jsonl|events\.jsonl(\.new|\.zst|\.zst\.new)?)\Z",
    re.ASCII,
)


def check_key(key: str) -> str:
    """``key`` itself if it is well-formed; InvalidId otherwise."""
    parts = key.split("/")
    if parts[0] == "spaces" and len(parts) > 2:
        check_id(parts[1], what="space")
        parts = parts[2:]
    if len(parts) != 2 or parts[0] not in _KINDS:
        raise InvalidId(f"{key[:80]!a} is not a key: expected <kind>/<id>", id=key)
    check_id(parts[1], what=f"{parts[0].removesuffix('s')} id")
    return key


def needs_log(key: str) -> bool:
    """Whether a key is a session, which is nothing without its log."""
    return key.split("/")[-2] in ("sessions", "trash")


def check_prefix(prefix: str) -> tuple[str, ...]:
    """The parts of a folder of keys, such as ``sessions/``; InvalidId if it is not one."""
    if not prefix.endswith("/"):
        raise InvalidId(f"{prefix!a} is not a folder of keys: expected <kind>/", id=prefix)
    return tuple(check_key(prefix + "x").split("/")[:-1])


def is_document_name(name: str) -> bool:
    """Whether ``name`` is a safe relative name that no other file of a key has."""
    parts = name.split("/")
    for part in parts:
        if not _DOCUMENT.match(part) or ".." in part:
            return False
    return len(parts) <= _DOCUMENT_DEPTH_MAX and not _NOT_DOCUMENTS.match(parts[0].lower())


def check_document_name(name: str) -> str:
    """``name`` itself if it is a safe relative name; InvalidId otherwise."""
    if not is_document_name(name):
        raise InvalidId(f"{name[:80]!a} is not a document name", id=name)
    return name


def folder_of(key: str) -> str:
    """The folder of keys that a key is in, such as ``sessions/``."""
    return key.rpartition("/")[0] + "/"


def etag_of(data: bytes) -> str:
    """The etag of a document with these bytes."""
    import hashlib

    return hashlib.sha256(data).hexdigest()[:32]
