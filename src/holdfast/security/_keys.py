"""Keys that wrap keys: the document that holds a log's data keys, readable with any of its keys.

The document is JSON. Its ``wraps`` hold the same ring of data keys, each under another key that is
never in the store. A fingerprint says which key opens a wrap; a passphrase is stretched with
the parameters in the wrap.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.errors import Forbidden, KeyMissing, Tampered, TooNew, UsageError
from holdfast.security import KEY_DOCUMENT
from holdfast.security._seal import (
    KEY_BYTES,
    SCRYPT_COST,
    DataKey,
    cipher_of,
    derive,
    is_scrypt_cost,
    needing,
    new_data_key,
    scrypt,
)

_FORMAT = 1
_NONCE_BYTES = 12
_SALT_BYTES = 16
_WRAP = b"holdfast wrap 1\0"
_FINGERPRINT = b"holdfast fingerprint 1"
_FINGERPRINT_CHARS = 16
_HEX_CHARS = 2 * KEY_BYTES
_BASE64_CHARS = 44
# Upper bounds for the cost that an untrusted document may impose.
_ARGON_MEMORY_KIB = 65_536
_ARGON_MEMORY_KIB_MAX = 262_144
_ARGON_TIMES = 3
_ARGON_TIMES_MAX = 10
_WRAPS_MAX = 64


class Kdf(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The parameters that turn a passphrase into a key."""

    name: str
    salt: bytes
    cost: int
    """argon2id: KiB of memory; scrypt: n."""
    times: int = 1
    lanes: int = 1


class WrappingKey(msgspec.Struct, frozen=True):
    """A key that opens and wraps rings, and its name for people."""

    secret: bytes
    source: str
    kdf: Kdf | None = None

    def __repr__(self) -> str:
        return f"WrappingKey({self.source!r}, id={self.id})"

    @property
    def id(self) -> str:
        """The fingerprint, which reveals nothing of the key."""
        return fingerprint(self.secret)


class Wrap(msgspec.Struct, frozen=True, omit_defaults=True):
    """The ring wrapped under one key."""

    key: str
    source: str
    nonce: bytes
    wrapped: bytes
    kdf: Kdf | None = None


class _StoredRing(msgspec.Struct, frozen=True, omit_defaults=True):
    state: str
    keys: tuple[DataKey, ...]
    rotation: str = ""


class Ring(NamedTuple):
    """The data keys of one log. The last one seals new events.

    ``state`` is ``sealed``; ``encrypting`` or ``decrypting`` while all of it is being rewritten,
    when the log is completely in one form or the other; ``rekeying`` while it is being rewritten for
    the last key alone.
    """

    keys: tuple[DataKey, ...]
    state: str = "sealed"
    rotation: str = ""
    """The rotation of everything that made its key, so that an interrupted one can continue."""

    @property
    def is_open(self) -> bool:
        """True if the log and its documents may be in plain text at present."""
        return self.state in ("encrypting", "decrypting")

    @property
    def current(self) -> DataKey:
        """The key for new events and documents."""
        return self.keys[-1]

    def for_whole_log(self) -> Ring:
        """Return the ring with a last key that may seal every event; a fork's own begins where the fork does."""
        if self.current.first == 0:
            return self
        generation = 1 + max(one.generation for one in self.keys)
        fresh = new_data_key(1 + max(one.number for one in self.keys), generation=generation)
        return self._replace(keys=(*self.keys, fresh))

    def __repr__(self) -> str:
        return f"Ring({len(self.keys)} keys, {self.state})"


class KeyDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The document of a log's wrapped keys."""

    format: int = _FORMAT
    wraps: list[Wrap]

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def wrapped(cls, ring: Ring, keys: Iterable[WrappingKey]) -> KeyDocument:
        """Return a document with a ring under each of these keys."""
        plain = msgspec.json.encode(_StoredRing(ring.state, ring.keys, ring.rotation))
        return cls(wraps=[_wrap(plain, key) for key in keys])

    def unwrap(self, key: WrappingKey) -> Ring | None:
        """Return the ring, opened by a key; None if it is not wrapped under it. Raises Tampered."""
        wrap = next((wrap for wrap in self.wraps if wrap.key == key.id), None)
        return None if wrap is None else _unwrap(wrap, key)

    def sources(self) -> list[str]:
        """Return the names of the keys that open it."""
        return [f"{wrap.source} ({wrap.key})" for wrap in self.wraps]


def read_key_document(data: bytes) -> KeyDocument:
    """Return a key document. Raises Tampered for invalid bytes, TooNew for another format."""
    try:
        found = msgspec.json.decode(data, type=KeyDocument)
    except (ValueError, RecursionError) as error:
        raise Tampered(f"{KEY_DOCUMENT} cannot be read") from error
    if found.format != _FORMAT:
        raise TooNew(f"{KEY_DOCUMENT} has a format that is not known here")
    # Each wrap may cost a stretching of the passphrase, which is slow on purpose.
    _check_cost(is_known=len(found.wraps) <= _WRAPS_MAX)
    return found


def fingerprint(secret: bytes) -> str:
    """Return a short name of a key that reveals nothing of it."""
    import hmac  # it loads OpenSSL

    return hmac.digest(secret, _FINGERPRINT, "sha256").hex()[:_FINGERPRINT_CHARS]


def read_key_text(text: bytes, where: str) -> bytes:
    """Return a key of 32 bytes from its text in a file, a variable or a keyring: raw, hex or base64."""
    if len(text) == KEY_BYTES:
        return text
    stripped = text.strip()
    try:
        if len(stripped) == _HEX_CHARS:
            return bytes.fromhex(stripped.decode("ascii"))
        if len(stripped) == _BASE64_CHARS:
            return base64.b64decode(stripped, validate=True)
    except ValueError:
        pass
    raise UsageError(
        f"{where} holds no key of 32 bytes",
        remedy="Make one with `holdfast keys new`; a text to remember is a passphrase, not a key.",
    )


def new_kdf() -> Kdf:
    """Return the parameters for a new passphrase: Argon2id, or scrypt where it is unavailable."""
    salt = os.urandom(_SALT_BYTES)
    if _argon2id() is None:
        return Kdf(name="scrypt", salt=salt, cost=SCRYPT_COST)
    return Kdf(name="argon2id", salt=salt, cost=_ARGON_MEMORY_KIB, times=_ARGON_TIMES, lanes=4)


def is_strong(kdf: Kdf) -> bool:
    """Return whether a new wrap may use these parameters: their author may want a cheap one."""
    if len(kdf.salt) < _SALT_BYTES or not _is_affordable(kdf):
        return False
    if kdf.name == "argon2id":
        return kdf.cost >= _ARGON_MEMORY_KIB and kdf.times >= _ARGON_TIMES
    return kdf.cost >= SCRYPT_COST


def _is_affordable(kdf: Kdf) -> bool:
    if kdf.name == "scrypt":
        return is_scrypt_cost(kdf.cost)
    few = 1 <= kdf.times <= _ARGON_TIMES_MAX and 1 <= kdf.lanes <= _ARGON_TIMES_MAX
    dear = 8 * kdf.lanes <= kdf.cost <= _ARGON_MEMORY_KIB_MAX
    return kdf.name == "argon2id" and few and dear and len(kdf.salt) >= _SALT_BYTES // 2


def stretch(passphrase: str, kdf: Kdf) -> bytes:
    """Return the key of a passphrase. Raises Tampered for costs that nobody writes."""
    if not passphrase:
        raise KeyMissing("an empty passphrase is none")
    if kdf.name == "scrypt":
        _check_cost(is_known=_is_affordable(kdf))
        return scrypt(passphrase, kdf.salt, kdf.cost)
    if kdf.name != "argon2id":
        raise TooNew(f"a passphrase is stretched with {kdf.name[:20]!a}, which is not known here")
    argon = _argon2id()
    if argon is None:
        raise UsageError("this passphrase needs Argon2id, which cryptography has from 44 on")
    _check_cost(is_known=_is_affordable(kdf))
    found: bytes = argon(
        salt=kdf.salt, length=KEY_BYTES, iterations=kdf.times, lanes=kdf.lanes, memory_cost=kdf.cost
    ).derive(passphrase.encode("utf-8", "surrogatepass"))
    return found


def _check_cost(*, is_known: bool) -> None:
    if not is_known:
        raise Tampered(f"{KEY_DOCUMENT} asks for what no Holdfast writes")


def _argon2id() -> Callable[..., Any] | None:
    try:
        from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
    except ImportError:
        return None
    return Argon2id


def _wrap(plain: bytes, key: WrappingKey) -> Wrap:
    # Under a key of its own: the wrapping key may be used for any number of sessions.
    nonce = os.urandom(_SALT_BYTES)
    cipher = cipher_of(derive(key.secret, nonce, _WRAP))
    wrapped = cipher.encrypt(bytes(_NONCE_BYTES), plain, _context(key.id, key.source, key.kdf))
    return Wrap(key.id, key.source, nonce, wrapped, key.kdf)


def _unwrap(wrap: Wrap, key: WrappingKey) -> Ring:
    cipher = cipher_of(derive(key.secret, wrap.nonce, _WRAP))
    context = _context(wrap.key, wrap.source, wrap.kdf)
    try:
        plain = cipher.decrypt(bytes(_NONCE_BYTES), wrap.wrapped, context)
        stored = msgspec.json.decode(plain, type=_StoredRing)
    except Exception as error:
        raise Tampered(f"{KEY_DOCUMENT} is not what was written there") from error
    return Ring(stored.keys, stored.state, stored.rotation)


def _context(key: str, source: str, kdf: Kdf | None) -> bytes:
    return _WRAP + msgspec.json.encode([key, source, kdf])


def inherited(keys: Sequence[DataKey], stop: int) -> tuple[DataKey, ...]:
    """Return the keys of a log's events before ``stop``, and of nothing else."""
    ends = [stop if key.stop is None else min(stop, key.stop) for key in keys]
    pairs = zip(keys, ends, strict=True)
    return tuple(msgspec.structs.replace(key, stop=end) for key, end in pairs if key.first < end)


# The sources of a wrapping key: the keyring, a file, the environment, a command, a passphrase.
#
# keyring, keyring:NAME      the system's keyring, under the service "holdfast"
# file:PATH                  a file of 32 bytes, raw, in hex or in base64, that only its owner can read
# env:VARIABLE               the same in a variable
# command:PROGRAM ARGUMENTS  the same as a program prints it
# passphrase                 a text to remember: HOLDFAST_PASSPHRASE, else it is asked for
# passphrase:VARIABLE        the same in another variable
KINDS = ("keyring", "file", "env", "command", "passphrase")
PASSPHRASE_VARIABLE = "HOLDFAST_PASSPHRASE"  # noqa: S105 - its name
ReadFile = Callable[[str], bytes]

_SERVICE = "holdfast"
_NAME = "default"
_COMMAND_S = 60
_NEEDS_VALUE = ("file", "env", "command")
_SAFE_REMEDY = (
    "Use a key file (holdfast keys new file:PATH, then key = 'file:PATH'),"
    " a passphrase (key = 'passphrase'), or key = 'command:…'."
)
# They store the key in the clear, or only obfuscated, beside the data it protects.
_UNSAFE = ("plaintext", "keyrings.alt", "null")


def split_source(source: str) -> tuple[str, str]:
    """Return a source's kind and its argument. Raises UsageError for an invalid one."""
    kind, _, value = source.partition(":")
    if kind not in KINDS or (kind in _NEEDS_VALUE and not value.strip()):
        raise UsageError(
            f"{source[:60]!a} names no key",
            remedy="Use keyring, file:PATH, env:VARIABLE, command:PROGRAM or passphrase.",
        )
    return kind, value


def find_secret(source: str, read_file: ReadFile) -> bytes:
    """Return the 32 bytes of a source; not for passphrases. Raises KeyMissing, Forbidden."""
    kind, value = split_source(source)
    if kind == "keyring":
        return read_key_text(_from_keyring(value or _NAME), "the keyring")
    if kind == "file":
        return read_key_text(read_file(os.path.expanduser(value)), value)
    if kind == "env":
        text = os.environ.get(value)
        if not text:
            raise KeyMissing(f"the variable {value} holds no key", remedy=f"Set {value}.")
        return read_key_text(text.encode("utf-8", "surrogateescape"), value)
    return read_key_text(_from_command(value), "what the command printed")


def find_passphrase(source: str, ask: Callable[[str], str] | None) -> str:
    """Return the passphrase of a source. Raises KeyMissing if there is none and nobody to ask."""
    _, value = split_source(source)
    variable = value or PASSPHRASE_VARIABLE
    found = os.environ.get(variable)
    if found:
        return found
    if value or ask is None:
        raise KeyMissing(
            "the passphrase is not here", remedy=f"Set {variable}, or name another key (holdfast keys --help)."
        )
    return ask("Passphrase of the sessions: ")


def keyring_backend() -> Any:
    """Return the system's keyring. Raises KeyMissing without one, Forbidden for an unsafe one."""
    with needing("keyring", "the keyring"):
        import keyring
    found = keyring.get_keyring()
    for backend in getattr(found, "backends", None) or [found]:
        name = f"{type(backend).__module__}.{type(backend).__qualname__}"
        if "backends.fail" in name:
            raise KeyMissing("this machine has no keyring that can be used", remedy=_SAFE_REMEDY)
        if any(part in name.lower() for part in _UNSAFE):
            raise Forbidden(f"the keyring {name} keeps keys unprotected; it is not used", remedy=_SAFE_REMEDY)
    return found


def store_in_keyring(name: str, text: str) -> None:
    """Store a new key. Raises Forbidden if there is one of that name."""
    backend = keyring_backend()
    if _asked(lambda: backend.get_password(_SERVICE, name or _NAME)) is not None:
        raise Forbidden(
            f"the keyring has a key named {name or _NAME} already", remedy="Choose another name: keyring:NAME."
        )
    _asked(lambda: backend.set_password(_SERVICE, name or _NAME, text))


def _from_keyring(name: str) -> bytes:
    backend = keyring_backend()
    found = _asked(lambda: backend.get_password(_SERVICE, name))
    if found is None:
        raise KeyMissing(
            f"the keyring has no key named {name}", remedy=f"Make one with: holdfast keys new keyring:{name}"
        )
    return str(found).encode()


def _asked(question: Callable[[], Any]) -> Any:
    try:
        return question()
    except Exception as error:  # each backend has errors of its own
        raise KeyMissing(f"the keyring does not answer: {str(error)[:200]}", remedy=_SAFE_REMEDY) from error


def _from_command(command: str) -> bytes:
    import shlex
    import subprocess

    try:
        words = shlex.split(command)
        done = subprocess.run(  # noqa: S603 - the user's own command, without a shell
            words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=_COMMAND_S, check=True
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise KeyMissing(
            f"the command for the key failed: {type(error).__name__}",
            remedy="Run it by hand; it must print a key of 32 bytes in hex or base64.",
        ) from error
    return done.stdout
