"""Sealing: AES-256-GCM for each event and each document, under keys that are never used twice.

A sealed event is these bytes, in base64 in its line:

    version 1 | number of the data key 2 | epoch 8 | salt 16 | count 4 | before 8 | text | tag 16

Every opening draws a random salt and derives a key of its own from the data key; within it the nonce is ``count``,
which is incremented with each seal, written or not. So no nonce is reused, whatever state is lost by a crash, a full
disk or a copy of the store. ``before`` is the end of the tag of the line before, which chains the lines; all of it,
with the format, the log, its generation and the seq, is authenticated. See docs/internals/sealing.md.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.errors import KeyMissing, Tampered, TooNew, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
SCRYPT_COST = 1 << 16
_SCRYPT_COST_MAX = 1 << 18  # times 8 times 128 bytes: 256 MiB, the most that an untrusted file may cost
_SCRYPT_MEMORY_MAX = 1 << 29
BEFORE_ALL = bytes(8)
"""The value of ``before`` in the first line."""

_VERSION = 1
_SALT_BYTES = 16
_TAG_BYTES = 16
_ID_BYTES = 16
_NONCE_BYTES = 12
_COUNT_MAX = 1 << 32
_OPEN_END = 1 << 63
_HEAD = struct.Struct(">BHQ")  # version, number of the data key, epoch
_HEAD_END = _HEAD.size + _SALT_BYTES
_COUNT_END = _HEAD_END + 4
_BEFORE_END = _COUNT_END + 8
_OPENINGS_MAX = 4096  # openings whose ciphers are cached: a hostile log must not fill the memory
_EVENT = b"holdfast event 1\0"
_DOCUMENT = b"holdfast document 1\0"
_MAGIC = b"HFSEAL\0"
_DOCUMENT_HEAD = struct.Struct(">7sBH")


class DataKey(msgspec.Struct, frozen=True, omit_defaults=True):
    """One key of a log: for its events from ``first`` on, up to ``stop`` if others follow."""

    number: int
    id: bytes
    """Names the log, or the part of it that this key is for; random, never used again."""
    secret: bytes
    first: int = 0
    stop: int | None = None
    generation: int = 0

    def __repr__(self) -> str:
        return f"DataKey(number={self.number}, id={self.id.hex()}, first={self.first})"

    @property
    def context(self) -> bytes:
        """The data that is authenticated with everything that this key seals."""
        return self.id + self.generation.to_bytes(4, "big")


def new_data_key(number: int, *, first: int = 0, generation: int = 0) -> DataKey:
    """Return a random key with which nothing has been sealed."""
    return DataKey(number, os.urandom(_ID_BYTES), os.urandom(KEY_BYTES), first, None, generation)


def cipher_of(key: bytes) -> AESGCM:
    """Return AES-256-GCM under a key. Raises UsageError without the extra."""
    with needing("cryptography", "sealing"):
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    return AESGCM(key)


@contextmanager
def needing(package: str, what: str) -> Iterator[None]:
    """Import a package of the extra within this block: if it is missing, UsageError says how to get it."""
    try:
        yield
    except ImportError as error:
        raise UsageError(
            f"{what} needs the package {package}", remedy="Install it with: pip install 'holdfast[crypto]'"
        ) from error


def derive(secret: bytes, salt: bytes, purpose: bytes) -> bytes:
    """Derive a key for one purpose: HKDF with SHA-256."""
    import hashlib  # it loads OpenSSL
    import hmac

    # RFC 5869; one block is as long as the key.
    extracted = hmac.digest(salt, secret, hashlib.sha256)
    return hmac.digest(extracted, purpose + b"\x01", hashlib.sha256)


def scrypt(passphrase: str, salt: bytes, cost: int) -> bytes:
    """Return the key of a passphrase. Its cost is checked before: see :func:`is_scrypt_cost`."""
    import hashlib

    secret = passphrase.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(secret, salt=salt, n=cost, r=8, p=1, maxmem=_SCRYPT_MEMORY_MAX, dklen=KEY_BYTES)


def is_scrypt_cost(cost: int) -> bool:
    """Return whether this cost is affordable: an untrusted file may ask for any."""
    return 1 < cost <= _SCRYPT_COST_MAX and cost & (cost - 1) == 0


class Sealer:
    """Seals the events of one opening. Any thread may use it."""

    def __init__(self, key: DataKey, epoch: int, *, salt: bytes | None = None) -> None:
        """``salt`` is for known answers only: it must never have been used before."""
        self._key = key
        self._epoch = epoch
        self._context = _EVENT + key.context
        self.salt = b""
        self._begin(os.urandom(_SALT_BYTES) if salt is None else salt)

    def renew(self) -> bytes:
        """Switch to another key of this opening; return its salt."""
        self._begin(os.urandom(_SALT_BYTES))
        return self.salt

    def _begin(self, salt: bytes) -> None:
        head = _HEAD.pack(_VERSION, self._key.number, self._epoch) + salt
        encrypt = cipher_of(derive(self._key.secret, salt, _EVENT)).encrypt
        self.salt = salt
        # Together, so that no thread sees one old and one new value.
        self._opening = encrypt, head, self._context + head, count().__next__

    def seal(self, seq: int, body: bytes, before: bytes) -> bytes:
        """Return the event ``seq`` sealed; ``before`` is the end of the line before, or BEFORE_ALL."""
        encrypt, head, context, next_count = self._opening
        number = next_count()
        if number >= _COUNT_MAX:
            self.renew()
            return self.seal(seq, body, before)
        mark = number.to_bytes(4, "big")
        chained = mark + before
        text = encrypt(b"\0\0\0\0\0\0\0\0" + mark, body, context + chained + seq.to_bytes(8, "big"))
        return head + chained + text


class Opener:
    """Opens the sealed events of one log, whichever opening wrote them."""

    sealed_from = _OPEN_END
    """The first event that must be sealed."""

    def __init__(self, keys: Iterable[DataKey]) -> None:
        self._keys = {key.number: key for key in keys}
        self._openings: dict[bytes, tuple[Callable[..., bytes], bytes, int, int]] = {}

    def __call__(self, seq: int, sealed: bytes, before: bytes | None = None) -> bytes:
        """Return what was sealed as event ``seq``; ``before`` is the end of the line before, if known.

        Raises Tampered if it is not what was written there, KeyMissing for a key that is not in
        the ring, TooNew for another way of sealing.
        """
        opening = self._openings.get(sealed[:_HEAD_END]) or self._opening_of(seq, sealed)
        decrypt, context, first, stop = opening
        if before is not None and sealed[_COUNT_END:_BEFORE_END] != before:
            raise _tampered(seq, "does not follow the one before it: a line was replaced, or older")
        if not first <= seq < stop:
            raise _tampered(seq, "was sealed with a key of another part of the log")
        try:
            return decrypt(
                b"\0\0\0\0\0\0\0\0" + sealed[_HEAD_END:_COUNT_END],
                sealed[_BEFORE_END:],
                context + sealed[_HEAD_END:_BEFORE_END] + seq.to_bytes(8, "big"),
            )
        except Exception as error:
            raise _tampered(seq, "is not what was written there") from error

    def open_all(self, first: int, texts: Iterable[bytes], before: bytes | None) -> tuple[list[bytes], bytes | None]:
        """Return what was sealed as events ``first`` and following, and the end of the last: twice as fast as calls."""
        opened: list[bytes] = []
        head, seq, opening = b"", first, None
        for sealed in texts:
            if opening is None or sealed[:_HEAD_END] != head:
                text = self(seq, sealed, before)
                head = sealed[:_HEAD_END]
                opening = self._openings[head]
            else:
                decrypt, context, start, stop = opening
                if sealed[_COUNT_END:_BEFORE_END] != before or not start <= seq < stop:
                    self(seq, sealed, before)  # which raises the reason
                try:
                    text = decrypt(
                        b"\0\0\0\0\0\0\0\0" + sealed[_HEAD_END:_COUNT_END],
                        sealed[_BEFORE_END:],
                        context + sealed[_HEAD_END:_BEFORE_END] + seq.to_bytes(8, "big"),
                    )
                except Exception as error:
                    raise _tampered(seq, "is not what was written there") from error
            opened.append(text)
            before = sealed[-8:]
            seq += 1
        return opened, before

    def _opening_of(self, seq: int, sealed: bytes) -> tuple[Callable[..., bytes], bytes, int, int]:
        if len(sealed) < _BEFORE_END + _TAG_BYTES:
            raise _tampered(seq, "is too short for a sealed one")
        head = sealed[:_HEAD_END]
        version, number, _ = _HEAD.unpack_from(head)
        if version != _VERSION:
            raise TooNew("the session was sealed in a way that is not known here", seq=seq)
        key = self._keys.get(number)
        if key is None:
            raise KeyMissing(f"event {seq} was sealed with a key that is not here", seq=seq)
        decrypt = cipher_of(derive(key.secret, head[_HEAD.size :], _EVENT)).decrypt
        stop = _OPEN_END if key.stop is None else key.stop
        found = decrypt, _EVENT + key.context + head, key.first, stop
        if len(self._openings) >= _OPENINGS_MAX:
            self._openings.clear()
        self._openings[head] = found
        return found


def is_sealed_document(data: bytes) -> bool:
    """Return whether the bytes of a document begin like those of a sealed one."""
    return data.startswith(_MAGIC)


def document_key(data: bytes) -> int:
    """Return the number of the data key that a document is sealed with."""
    return int(_DOCUMENT_HEAD.unpack_from(data)[2])


def seal_document(key: DataKey, name: str, data: bytes) -> bytes:
    """Return a document sealed under a key that is used only for this."""
    salt = os.urandom(_SALT_BYTES)
    head = _DOCUMENT_HEAD.pack(_MAGIC, _VERSION, key.number) + salt
    cipher = cipher_of(derive(key.secret, salt, _DOCUMENT))
    context = _DOCUMENT + key.context + head + name.encode()
    return head + cipher.encrypt(bytes(_NONCE_BYTES), data, context)


def open_document(keys: Iterable[DataKey], name: str, data: bytes) -> bytes:
    """Return what was sealed under that name. Raises Tampered, KeyMissing or TooNew."""
    end = _DOCUMENT_HEAD.size + _SALT_BYTES
    if not is_sealed_document(data) or len(data) < end + _TAG_BYTES:
        raise Tampered(f"{name} is not sealed, in a place where everything is", document=name)
    _, version, number = _DOCUMENT_HEAD.unpack_from(data)
    if version != _VERSION:
        raise TooNew(f"{name} was sealed in a way that is not known here")
    key = next((key for key in keys if key.number == number), None)
    if key is None:
        raise KeyMissing(f"{name} was sealed with a key that is not here")
    cipher = cipher_of(derive(key.secret, data[_DOCUMENT_HEAD.size : end], _DOCUMENT))
    try:
        context = _DOCUMENT + key.context + data[:end] + name.encode()
        return cipher.decrypt(bytes(_NONCE_BYTES), data[end:], context)
    except Exception as error:
        raise Tampered(f"{name} is not what was written there", document=name) from error


def _tampered(seq: int, what: str) -> Tampered:
    return Tampered(f"event {seq} {what}", seq=seq)


# Files sealed with a passphrase: scrypt for the key, AES-256-GCM for the bytes.
# ``HOLDFAST-SEALED\n``, one line of JSON with the cost of the key, then chunks of 64 KiB, each with a tag of 16
# bytes. The nonce of a chunk is a random prefix, its number, and whether it is the last one; the head is authenticated
# with every chunk. So nothing can be changed, left out, repeated, reordered or cut off without being noticed.
SEALED_MARK = b"HOLDFAST-SEALED\n"
_CHUNK_BYTES = 1 << 16
_PREFIX_BYTES = 7
_HEAD_BYTES_MAX = 1024


class _Head(msgspec.Struct):
    version: int
    kdf: str
    n: int
    r: int
    p: int
    salt: bytes
    prefix: bytes


def is_sealed_file(head: bytes) -> bool:
    """Return whether bytes begin like a file that was sealed with a passphrase."""
    return head.startswith(SEALED_MARK)


def seal_with_passphrase(chunks: Iterable[bytes], passphrase: str) -> Iterator[bytes]:
    """Yield the chunks, encrypted. Raises UsageError without a passphrase or without the extra."""
    if not passphrase:
        raise UsageError("an empty passphrase seals nothing")
    salt, prefix = os.urandom(16), os.urandom(_PREFIX_BYTES)
    line = SEALED_MARK + msgspec.json.encode(_Head(1, "scrypt", SCRYPT_COST, 8, 1, salt, prefix)) + b"\n"
    return _sealed(chunks, cipher_of(scrypt(passphrase, salt, SCRYPT_COST)), prefix, line)


def open_with_passphrase(data: bytes, passphrase: str | None) -> bytes:
    """Return what was sealed. Raises KeyMissing without a passphrase, Tampered with a wrong one."""
    line, head = _read_head(data)
    if not passphrase:
        raise KeyMissing("the file is sealed", remedy="Give the passphrase it was sealed with.")
    cipher = cipher_of(scrypt(passphrase, head.salt, head.n))
    from cryptography.exceptions import InvalidTag

    size = _CHUNK_BYTES + _TAG_BYTES
    opened = []
    try:
        for number, start in enumerate(range(len(line), max(len(data), len(line) + 1), size)):
            nonce = _nonce(head.prefix, number, last=start + size >= len(data))
            opened.append(cipher.decrypt(nonce, data[start : start + size], line))
    except (InvalidTag, ValueError) as error:
        raise Tampered(
            "the file does not open: the passphrase is another one, or the bytes were changed",
            remedy="Give the passphrase it was sealed with, or get the file again.",
        ) from error
    return b"".join(opened)


def _sealed(chunks: Iterable[bytes], cipher: Any, prefix: bytes, line: bytes) -> Iterator[bytes]:
    yield line
    number = 0
    waiting = bytearray()
    for chunk in chunks:
        waiting += chunk
        while len(waiting) > _CHUNK_BYTES:
            part = bytes(waiting[:_CHUNK_BYTES])
            del waiting[:_CHUNK_BYTES]
            yield cipher.encrypt(_nonce(prefix, number, last=False), part, line)
            number += 1
    yield cipher.encrypt(_nonce(prefix, number, last=True), bytes(waiting), line)


def _read_head(data: bytes) -> tuple[bytes, _Head]:
    end = data.find(b"\n", len(SEALED_MARK), _HEAD_BYTES_MAX) + 1
    if not is_sealed_file(data) or not end:
        raise Tampered("the file does not begin like a sealed one")
    try:
        head = msgspec.json.decode(data[len(SEALED_MARK) : end], type=_Head)
    except ValueError as error:
        raise Tampered("the head of the sealed file cannot be read") from error
    if head.version != 1 or head.kdf != "scrypt":
        raise TooNew("the file was sealed in a way that this Holdfast does not know")
    lengths = len(head.salt), len(head.prefix)
    if not is_scrypt_cost(head.n) or (head.r, head.p) != (8, 1) or lengths != (16, _PREFIX_BYTES):
        raise Tampered("the head of the sealed file asks for what no Holdfast writes")
    return data[:end], head


def _nonce(prefix: bytes, number: int, *, last: bool) -> bytes:
    return prefix + number.to_bytes(4, "big") + bytes([last])
