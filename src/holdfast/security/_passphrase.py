r"""Files sealed with a passphrase: scrypt for the key, AES-256-GCM for the bytes.

``HOLDFAST-SEALED\n``, one line of JSON with the cost of the key, then chunks of 64 KiB, each with
a tag of 16 bytes. The nonce of a chunk is a random prefix, its number, and whether it is the last
one; the head is authenticated with every chunk. So nothing can be changed, left out, repeated, put
in another order or cut off without being noticed.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from holdfast.errors import KeyMissing, Tampered, TooNew, UsageError

SEALED_MARK = b"HOLDFAST-SEALED\n"
_CHUNK_BYTES = 1 << 16
_TAG_BYTES = 16
_PREFIX_BYTES = 7
_HEAD_BYTES_MAX = 1024
_COST = 1 << 16
_COST_MAX = 1 << 18  # times 8 times 128 bytes: 256 MiB, what an unknown file may make us spend
_MEMORY_MAX = 1 << 29


class _Head(msgspec.Struct):
    version: int
    kdf: str
    n: int
    r: int
    p: int
    salt: str
    prefix: str


def is_sealed_file(head: bytes) -> bool:
    """Whether bytes begin like a file that was sealed with a passphrase."""
    return head.startswith(SEALED_MARK)


def seal_with_passphrase(chunks: Iterable[bytes], passphrase: str) -> Iterator[bytes]:
    """The chunks, encrypted. Raises UsageError without a passphrase or without the extra."""
    if not passphrase:
        raise UsageError("an empty passphrase seals nothing")
    head = _Head(1, "scrypt", _COST, 8, 1, _text(os.urandom(16)), _text(os.urandom(_PREFIX_BYTES)))
    line = SEALED_MARK + msgspec.json.encode(head) + b"\n"
    cipher = _cipher(head, passphrase)
    return _sealed(chunks, cipher, head, line)


def open_with_passphrase(data: bytes, passphrase: str | None) -> bytes:
    """What was sealed. Raises KeyMissing without a passphrase, Tampered with a wrong one."""
    line, head = _read_head(data)
    if not passphrase:
        raise KeyMissing("the file is sealed", remedy="Give the passphrase it was sealed with.")
    cipher = _cipher(head, passphrase)
    prefix = base64.b64decode(head.prefix)
    size = _CHUNK_BYTES + _TAG_BYTES
    opened = []
    for number, start in enumerate(range(len(line), max(len(data), len(line) + 1), size)):
        chunk = data[start : start + size]
        nonce = _nonce(prefix, number, last=start + size >= len(data))
        opened.append(_opened(cipher, nonce, chunk, line))
    return b"".join(opened)


def _sealed(chunks: Iterable[bytes], cipher: Any, head: _Head, line: bytes) -> Iterator[bytes]:
    yield line
    prefix = base64.b64decode(head.prefix)
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
        lengths = len(base64.b64decode(head.salt)), len(base64.b64decode(head.prefix))
    except ValueError as error:
        raise Tampered("the head of the sealed file cannot be read") from error
    if head.version != 1 or head.kdf != "scrypt":
        raise TooNew("the file was sealed in a way that this Holdfast does not know")
    known = 1 < head.n <= _COST_MAX and head.n & (head.n - 1) == 0 and (head.r, head.p) == (8, 1)
    if not known or lengths != (16, _PREFIX_BYTES):
        raise Tampered("the head of the sealed file asks for what no Holdfast writes")
    return data[:end], head


def _cipher(head: _Head, passphrase: str) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise UsageError(
            "sealing needs the package cryptography",
            remedy="Install it with: pip install 'holdfast[crypto]'",
        ) from error
    key = hashlib.scrypt(
        passphrase.encode("utf-8", "surrogatepass"),
        salt=base64.b64decode(head.salt),
        n=head.n,
        r=head.r,
        p=head.p,
        maxmem=_MEMORY_MAX,
        dklen=32,
    )
    return AESGCM(key)


def _opened(cipher: Any, nonce: bytes, chunk: bytes, line: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag

    try:
        plain: bytes = cipher.decrypt(nonce, chunk, line)
    except (InvalidTag, ValueError) as error:
        raise Tampered(
            "the file does not open: the passphrase is another one, or the bytes were changed",
            remedy="Give the passphrase it was sealed with, or get the file again.",
        ) from error
    return plain


def _nonce(prefix: bytes, number: int, *, last: bool) -> bytes:
    return prefix + number.to_bytes(4, "big") + bytes([last])


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
