"""Who may come in: links that work once, and the cookies that they are exchanged for."""

from __future__ import annotations

import hashlib
import secrets
import threading
from dataclasses import dataclass, field

from holdfast.apps.gate.callers import same_secret

_LINKS_MAX = 16
_GUESTS_MAX = 256
_NOTES_MAX = 8


@dataclass(frozen=True)
class Note:
    """Something that the next page tells once; ``undo`` is the session that can be brought back."""

    text: str
    kind: str = "good"
    undo: str = ""


@dataclass
class Guest:
    """A browser that came in. ``form_token`` must be in every form that it sends."""

    form_token: str
    _notes: list[Note] = field(default_factory=list)

    def tell(self, note: Note) -> None:
        """Leave a note for the next page."""
        self._notes = [*self._notes, note][-_NOTES_MAX:]

    def told(self) -> list[Note]:
        """The notes that were left; once."""
        notes, self._notes = self._notes, []
        return notes

    def sent(self, form_token: str) -> bool:
        """Whether a form came from a page that this guest was shown; takes the same time always."""
        return same_secret(form_token, self.form_token)


class Door:
    """Links and cookies, kept as digests only: what is read from memory opens nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._links: list[str] = []
        self._guests: dict[str, Guest] = {}
        self.cookie = f"holdfast-web-{secrets.token_hex(4)}"
        """Its name; cookies know no ports, and several apps may run."""

    def link(self) -> str:
        """A new token that lets one browser in, once; the oldest of too many end."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._links = [*self._links, _digest(token)][-_LINKS_MAX:]
        return token

    def enter(self, token: str) -> str | None:
        """The value of the cookie for a token that was not used yet; None for any other."""
        given = _digest(token)
        with self._lock:
            # All are compared, so that the time tells nothing.
            found = [link for link in self._links if same_secret(given, link)]
            if not found:
                return None
            self._links.remove(found[0])
            value = secrets.token_urlsafe(32)
            while len(self._guests) >= _GUESTS_MAX:
                self._guests.pop(next(iter(self._guests)))
            self._guests[_digest(value)] = Guest(secrets.token_urlsafe(32))
            return value

    def guest(self, cookie: str | None) -> Guest | None:
        """Whose cookie this is."""
        return self._guests.get(_digest(cookie)) if cookie else None


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
