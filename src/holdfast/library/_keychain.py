"""The keys that this program may use: found when they are needed, and asked for once."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import Conflict, Forbidden, KeyMissing, NotFound, SecurityError, TooLarge, UsageError
from holdfast.security import (
    PASSPHRASE_VARIABLE,
    Kdf,
    KeyDocument,
    Ring,
    WrappingKey,
    find_passphrase,
    find_secret,
    fingerprint,
    is_strong,
    new_kdf,
    split_source,
    stretch,
)
from holdfast.storage import Store

if TYPE_CHECKING:
    from holdfast.library._imports import SignedFile

GivenKey = str | bytes | Iterable["str | bytes"]
"""A key of 32 bytes, the name of a source, several names separated by commas, or a list of these."""

_KEY_BYTES = 32
_FILE_BYTES_MAX = 4096
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
# The parameters of passphrase stretching are shared, so that all sessions of a store need it done once.
_SHARED = "shared/sealing"
_KDF = "passphrase.json"
_TRIES_MAX = 3
_STRETCHES_MAX = 8


def as_sources(given: GivenKey) -> list[str | bytes]:
    """Return the given keys one by one. Raises UsageError for what is not a key."""
    if isinstance(given, bytes):
        if len(given) != _KEY_BYTES:
            raise UsageError(f"a key has 32 bytes, not {len(given)}")
        return [given]
    if isinstance(given, str):
        names = [given] if given.startswith("command:") else [part.strip() for part in given.split(",")]
        for name in names:
            split_source(name)
        return list(names)
    if not isinstance(given, Iterable):
        raise UsageError(f"a key is 32 bytes or a text, not {type(given).__name__}")
    return [one for part in given for one in as_sources(part)]


class KeyChain:
    """Unwraps with any of its keys, and wraps under all of them."""

    def __init__(
        self, sources: Iterable[str | bytes], store: Store, *, ask: Callable[[str], str] | None = None
    ) -> None:
        self.sources = list(sources)
        self._store = store
        self.ask = ask  # asks a person for a passphrase
        self._found: dict[str | bytes, WrappingKey] = {}
        self._passphrases: dict[str, str] = {}
        self._stretched: dict[tuple[str, bytes], bytes] = {}
        self._lock = threading.RLock()

    def unwrap(self, document: KeyDocument) -> Ring:
        """Return the data keys. Raises KeyMissing, naming what would open them, or Tampered."""
        trouble: SecurityError | None = None
        for source in self.sources:
            try:
                ring = self._tried(source, document)
            except (KeyMissing, Forbidden) as error:
                trouble = trouble or error
                continue
            if ring is not None:
                return ring
        if trouble is not None:
            raise trouble
        wanted = ", ".join(document.sources()) or "no key at all"
        remedy = "Name that key: holdfast.open(key=…), HOLDFAST_KEY, or `key` in config.toml."
        raise KeyMissing(f"this was sealed with another key: {wanted}", remedy=remedy)

    def wrap(self, ring: Ring) -> KeyDocument:
        """Return the data keys wrapped under each key. Raises KeyMissing if one is not available."""
        return KeyDocument.wrapped(ring, self.current())

    def current(self) -> list[WrappingKey]:
        """Return every key as new wraps use it. Raises KeyMissing."""
        return [self._current(source) for source in self.sources]

    def available(self) -> list[WrappingKey]:
        """Return the keys that are available without asking a person."""
        found = []
        for source in self.sources:
            is_asked = source == "passphrase" and source not in self._passphrases
            if is_asked and not os.environ.get(PASSPHRASE_VARIABLE):
                continue
            try:
                found.append(self._current(source))
            except (SecurityError, UsageError):
                continue
        return found

    def _tried(self, source: str | bytes, document: KeyDocument) -> Ring | None:
        if isinstance(source, str) and split_source(source)[0] == "passphrase":
            stretched = [wrap for wrap in document.wraps if wrap.kdf is not None]
            for wrap in stretched[:_STRETCHES_MAX]:
                assert wrap.kdf is not None
                key = WrappingKey(self._stretch(source, wrap.kdf), wrap.source, wrap.kdf)
                if key.id == wrap.key:
                    return document.unwrap(key)
            return None
        return document.unwrap(self._current(source))

    def _current(self, source: str | bytes) -> WrappingKey:
        with self._lock:
            if source not in self._found:
                self._found[source] = self._find(source)
            return self._found[source]

    def _find(self, source: str | bytes) -> WrappingKey:
        if isinstance(source, bytes):
            return WrappingKey(source, "given")
        kind, _ = split_source(source)
        if kind == "passphrase":
            kdf = self._kdf()
            return WrappingKey(self._stretch(source, kdf), "passphrase", kdf)
        secret = find_secret(source, read_key_file)
        # The words of a command and the path of a file stay private from whoever reads the store.
        return WrappingKey(secret, source if kind in ("keyring", "env") else kind)

    def _stretch(self, source: str, kdf: Kdf) -> bytes:
        with self._lock:
            if source not in self._passphrases:
                self._passphrases[source] = find_passphrase(source, self.ask)
            name = source, msgspec.json.encode(kdf)
            if name not in self._stretched:
                self._stretched[name] = stretch(self._passphrases[source], kdf)
            return self._stretched[name]

    def _kdf(self) -> Kdf:
        """Return the parameters of passphrase stretching of this store; the first caller decides them."""
        documents, fresh = self._store.documents(_SHARED), new_kdf()
        for _ in range(_TRIES_MAX):
            found = documents.get(_KDF)
            # The note is not sealed: anyone who can write to the store could weaken the stretching.
            with contextlib.suppress(ValueError, RecursionError):
                if found is not None and is_strong(noted := msgspec.json.decode(found[0], type=Kdf)):
                    return noted
            try:
                documents.put(_KDF, msgspec.json.encode(fresh), if_match=found[1] if found else "")
            except Conflict:
                continue
            break
        return fresh


def read_key_file(path: str) -> bytes:
    """Return the key in a file. Raises KeyMissing, and Forbidden if other users may read it."""
    from holdfast.storage import read_file

    real = os.path.realpath(path)
    try:
        status = os.stat(real)
    except OSError as error:
        remedy = f"Make one with: holdfast keys new file:{path}"
        raise KeyMissing(f"there is no key file {path}", remedy=remedy) from error
    if not stat.S_ISREG(status.st_mode) or status.st_size > _FILE_BYTES_MAX:
        raise UsageError(f"{path} is no key file", remedy="Name a file that `holdfast keys new file:PATH` made.")
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & _OTHERS:
        raise Forbidden(f"others may read the key file {path}", remedy=f"Close it with: chmod 600 {path}")
    try:
        return b"".join(read_file(real))
    except NotFound as error:
        raise KeyMissing(f"there is no key file {path}") from error


def make_key(source: str) -> str:
    """Create a random key at the source and return its fingerprint. Raises Forbidden if there is one, UsageError."""
    kind, value = split_source(source)
    secret = os.urandom(_KEY_BYTES)
    if kind == "keyring":
        from holdfast.security import store_in_keyring

        store_in_keyring(value, secret.hex())
    elif kind == "file":
        from holdfast.storage import place_file

        path = os.path.expanduser(value)
        if os.path.lexists(path):
            raise Forbidden(f"there is a file {path} already", remedy="Choose another name.")
        place_file(path, [secret.hex().encode() + b"\n"], overwrite=False, make_folders=True)
    else:
        raise UsageError(f"a key cannot be put into {kind}", remedy="Use keyring:NAME or file:PATH.")
    return fingerprint(secret)


# Signed files: written with a signature beside them, and verified before they are read.
_SEED_BYTES = 32
_BYTES_MAX = 1 << 30
_CHUNK_BYTES = 1 << 20


def signing_seed(key: str | bytes) -> bytes:
    """Return the 32 bytes of a signing key, given or found by its name. Raises KeyMissing."""
    if isinstance(key, bytes):
        if len(key) != _SEED_BYTES:
            raise UsageError("a signing key has 32 bytes")
        return key
    if split_source(key)[0] == "passphrase":
        raise UsageError("a passphrase signs nothing", remedy="Use a key file or the keyring.")
    return find_secret(key, read_key_file)


def write_signed(chunks: Iterable[bytes], path: str, key: str | bytes, *, overwrite: bool) -> None:
    from holdfast.security import SIGNATURE_SUFFIX, Signing
    from holdfast.storage import place_file

    signing = Signing(signing_seed(key))
    place_file(path, signing.passing(chunks), overwrite=overwrite)
    place_file(path + SIGNATURE_SUFFIX, [signing.signature(f"file:{os.path.basename(path)}")], overwrite=True)


def read_signed(path: str | os.PathLike[str], key: str) -> SignedFile:
    """Read a file once. Raises Tampered unless it is what was signed, KeyMissing without a signature."""
    from holdfast.library._imports import SignedFile
    from holdfast.security import SIGNATURE_SUFFIX, verify_signature
    from holdfast.storage import look_outside, read_file

    text = os.fspath(path)
    if os.path.isfile(key):
        key = b"".join(read_file(os.path.realpath(key))).decode("utf-8", "replace")
    if not os.path.isfile(text):
        raise NotFound(f"there is no file {text}", path=text)
    beside = os.path.realpath(text) + SIGNATURE_SUFFIX
    if not os.path.isfile(beside):
        raise KeyMissing(f"{text} has no signature beside it", remedy=f"Get {text}{SIGNATURE_SUFFIX} as well.")
    [file] = look_outside(text, files_max=1, levels_max=1).files.values()
    if file.size > _BYTES_MAX:
        said = f"a signed file of {file.size:,} bytes is more than is read at once"
        raise TooLarge(said, limit="signed_bytes_max", needed_bytes=file.size)
    data = b"".join(file.chunks(_CHUNK_BYTES))
    verify_signature([data], b"".join(read_file(beside)), key)
    return SignedFile(os.path.basename(text), data)
