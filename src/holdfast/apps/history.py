"""The history of typed input, for the arrow keys: a private file beside the sessions."""

from __future__ import annotations

import os

from holdfast.errors import Conflict, HoldfastError
from holdfast.security import Scanner
from holdfast.storage import MUST_NOT_EXIST, Documents, documents_beside

_NAME = "history"
_LINES_MAX = 1000
_TRIES_MAX = 20


class InputHistory:
    """The lines of all chats of this user, oldest first, in a file that only they can read.

    It is a convenience: if it cannot be read or written, there is none, and nobody is disturbed.
    """

    def __init__(self, folder: str | None = None) -> None:
        if folder is None:
            from platformdirs import user_state_dir

            folder = user_state_dir("holdfast", appauthor=False)
        self._documents: Documents = documents_beside(os.path.join(os.path.realpath(folder), _NAME))

    def lines(self) -> list[str]:
        """Return all stored lines."""
        try:
            return self._read()[0]
        except HoldfastError:
            return []

    def add(self, line: str) -> bool:
        """Keep a line; whether it was: not one that begins with a blank or has a secret in it."""
        if not line.strip() or line[0].isspace() or Scanner().find(line).spans:
            return False
        # Other chats write the same file: compared and swapped, nobody's line is lost.
        for _ in range(_TRIES_MAX):
            try:
                lines, etag = self._read()
                if lines and lines[-1] == line:
                    return False
                kept = "".join(f"{one}\n" for one in [*lines, line][-_LINES_MAX:])
                self._documents.put(_NAME, kept.encode("utf-8", "replace"), if_match=etag)
            except Conflict:
                continue
            except HoldfastError:
                return False
            return True
        return False

    def _read(self) -> tuple[list[str], str]:
        found = self._documents.get(_NAME)
        if found is None:
            return [], MUST_NOT_EXIST
        return found[0].decode("utf-8", "replace").splitlines(), found[1]
