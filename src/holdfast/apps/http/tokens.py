"""Tokens: who may do what in which space. Only digests are kept; a token is shown once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, get_args

import msgspec

from holdfast.apps.gate.secret import same_secret
from holdfast.errors import Conflict, Damaged, NotFound, UsageError
from holdfast.model import check_id
from holdfast.session import now_ms
from holdfast.storage import MUST_NOT_EXIST, Store, check_space

Scope = Literal["read", "write", "admin", "metrics"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
"""Each may do what those before it may; but for the last, which is for ``/metrics`` alone."""
METRICS_SCOPE: Scope = "metrics"

_KEY = "shared/tokens"
_DOCUMENT = "tokens.json"
_MARK = "hf"
_ID_BYTES = 6
_SECRET_BYTES = 32
_TRIES = 20
_TOKENS_MAX = 100_000
_LABEL_CHARS_MAX = 100
_KNOWN_FOR_S = 1.0


def widest_scope(text: str) -> str:
    """Return the scope that allows most, of several separated by commas. Raises UsageError."""
    named = [name.strip() for name in text.split(",") if name.strip()]
    strange = next((name for name in named if name not in SCOPES), None)
    if strange is not None or not named:
        raise UsageError(f"{(strange or text)[:40]!a} is no scope", remedy=f"One of {', '.join(SCOPES)}.")
    if METRICS_SCOPE in named and len(set(named)) > 1:
        raise UsageError("a token for metrics is for nothing else", remedy="Make another one for the rest.")
    return next(scope for scope in reversed(SCOPES) if scope in named)


class Token(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of a token; times are Unix milliseconds."""

    id: str
    space: str
    scope: Scope
    digest: str
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None
    label: str = ""

    def may(self, scope: Scope) -> bool:
        """Return whether the token includes a scope."""
        if METRICS_SCOPE in (self.scope, scope):
            return self.scope == scope
        return SCOPES.index(self.scope) >= SCOPES.index(scope)

    @property
    def who(self) -> str:
        """By whom an answer is that comes with it."""
        return self.label or f"token {self.id}"

    def is_good(self, now: int) -> bool:
        """Return whether the token is valid at that time."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class _Page(msgspec.Struct):
    tokens: list[Token] = []


class TokenBook:
    """The tokens of one store, changed by compare-and-swap. Safe to use from any thread.

    What was read is believed for a second: so soon a revoked token is refused everywhere. Raises
    UsageError for a store that is a space itself.
    """

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.monotonic) -> None:
        if store.space is not None:
            told = f"tokens are for all spaces, and this is the space {store.space}"
            raise UsageError(told, remedy="Leave the setting `space` (HOLDFAST_SPACE) out.")
        self._documents = store.documents(_KEY)
        self._clock = clock
        self._known: tuple[float, dict[str, Token]] | None = None

    def create(self, space: str, scope: str, *, expires_at: int | None = None, label: str = "") -> tuple[str, Token]:
        """Return a new token and what is kept of it. Raises InvalidId, UsageError.

        One for metrics tells of the whole service, and opens no space: its space is empty.
        """
        if scope not in SCOPES:
            raise UsageError(f"{scope[:40]!a} is no scope", remedy=f"One of {', '.join(SCOPES)}.")
        if scope != METRICS_SCOPE:
            check_space(space)
        elif space:
            raise UsageError("a token for metrics opens no space", remedy="Name none.")
        if len(label) > _LABEL_CHARS_MAX:
            raise UsageError(f"a label has at most {_LABEL_CHARS_MAX} characters")
        import secrets

        secret = secrets.token_urlsafe(_SECRET_BYTES)
        id, digest = secrets.token_hex(_ID_BYTES), _digest(secret)
        token = Token(
            id=id, space=space, scope=scope, digest=digest, created_at=now_ms(), expires_at=expires_at, label=label
        )
        self._change(lambda tokens: [*tokens, token])
        return f"{_MARK}_{token.id}_{secret}", token

    def all(self) -> list[Token]:
        """Return all of them, also those that count no more, the newest first. Raises Damaged."""
        return self._read()[0][::-1]

    def revoke(self, id: str) -> Token:
        """Let a token count no more. Raises NotFound; harmless the second time."""
        found = [token for token in self.all() if token.id == check_id(id, what="token id")]
        if not found:
            raise NotFound(f"there is no token {id}", remedy="See `holdfast serve token list`.")
        gone = msgspec.structs.replace(found[0], revoked_at=found[0].revoked_at or now_ms())
        self._change(lambda tokens: [gone if token.id == id else token for token in tokens])
        return gone

    @property
    def is_fresh(self) -> bool:
        """Return whether the next lookup is answered without reading the store."""
        return self._known is not None and self._clock() - self._known[0] <= _KNOWN_FOR_S

    def find(self, given: str) -> Token | None:
        """Return the record of a valid token; None for any other text."""
        mark, _, rest = given.partition("_")
        id, _, secret = rest.partition("_")
        token = self._by_id().get(id)
        # Compared also where there is nothing to compare, so that both take the same time.
        is_same = same_secret(_digest(secret), token.digest if token else _digest(""))
        good = mark == _MARK and token is not None and is_same and token.is_good(now_ms())
        return token if good else None

    def is_good(self, id: str) -> bool:
        """Return whether an admitted token is still valid, for long-running requests."""
        token = self._by_id().get(id)
        return token is not None and token.is_good(now_ms())

    def _by_id(self) -> dict[str, Token]:
        known = self._known
        if known is None or not self.is_fresh:
            now = self._clock()
            known = self._known = (now, {token.id: token for token in self._read()[0]})
        return known[1]

    def _read(self) -> tuple[list[Token], str]:
        found = self._documents.get(_DOCUMENT)
        if found is None:
            return [], MUST_NOT_EXIST
        try:
            return msgspec.json.decode(found[0], type=_Page).tokens, found[1]
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Damaged("the tokens cannot be read", remedy=f"Look at {_KEY}/{_DOCUMENT} in the store.") from error

    def _change(self, change: Callable[[list[Token]], list[Token]]) -> None:
        for _ in range(_TRIES):
            tokens, etag = self._read()
            changed = change(tokens)
            if len(changed) > _TOKENS_MAX:
                raise UsageError(f"there are {_TOKENS_MAX:,} tokens, which is the most")
            try:
                self._documents.put(_DOCUMENT, msgspec.json.encode(_Page(changed)), if_match=etag)
            except Conflict:
                continue
            self._known = None
            return
        raise Conflict("the tokens are being changed by others all the time")


def _digest(secret: str) -> str:
    import hashlib  # it loads OpenSSL

    # A secret of 256 random bits cannot be guessed from its digest; no slow hash is needed.
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
