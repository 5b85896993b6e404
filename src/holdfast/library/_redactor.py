"""The redactor of a store: made from its settings, with its own key."""

# Loaded late, and apart from the redaction of recorded sessions: whatever records an event needs this much only.
from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.errors import Conflict
from holdfast.storage import MUST_NOT_EXIST

if TYPE_CHECKING:
    from holdfast.library._core import Core
    from holdfast.library.holdfast import Holdfast
    from holdfast.security import Redactor

REDACTION_KEY = "shared/redaction"
_KEY_NAME = "fingerprint.key"
_KEY_BYTES = 32


def make_redactor(core: Core, values: dict[str, str], *, mode: str, seconds_per_mib: float = 1.0) -> Redactor:
    """Return what replaces secrets: those that the rules find, and the given values."""
    from holdfast.security import Redactor, Scanner, read_user_rules, secret_values

    settings = core.settings.configuration
    if settings.get("redaction.environment", True):
        values = {**dict.fromkeys(secret_values(os.environ), "environment"), **values}
    rules = read_user_rules(settings.get("redaction.rules", []))
    scanner = Scanner(more=rules, values=values, seconds_per_mib=seconds_per_mib)
    spares = not settings.get("redaction.model", False)
    return Redactor(partial(_redaction_key, core), mode=mode, scanner=scanner, spares_model=spares)


def redacted(hf: Holdfast, data: dict[str, Any]) -> dict[str, Any]:
    """Return data that is to be kept beside logs as a session of this store would record it. Raises SecretFound."""
    return hf._core.redacted(data)  # noqa: SLF001 - one of ours


def _redaction_key(core: Core) -> bytes:
    """Return the key of this store's fingerprints; it is made when first needed."""
    documents = core.store.documents(REDACTION_KEY)
    found, made = documents.get(_KEY_NAME), os.urandom(_KEY_BYTES)
    if found is None:
        try:
            documents.put(_KEY_NAME, made, if_match=MUST_NOT_EXIST)
        except Conflict:
            found = documents.get(_KEY_NAME)
    return made if found is None else found[0]
