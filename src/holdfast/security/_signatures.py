"""Signatures of files in the format of minisign: Ed25519 over the BLAKE2b digest of the bytes.

``minisign -Vm FILE -P KEY`` verifies our signatures, and we verify minisign's.
A signing key is 32 random bytes, from the same sources as any other key.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator

from holdfast.errors import Tampered, UsageError
from holdfast.security._seal import needing

SIGNATURE_SUFFIX = ".minisig"
_ALGORITHM = b"Ed"
_PREHASHED = b"ED"
_ID_BYTES = 8
_KEY_BYTES = 32
_SIGNATURE_BYTES = 64
_UNTRUSTED = "untrusted comment: "
_TRUSTED = "trusted comment: "
_LINES = 4


class Signing:
    """Signs bytes as they pass through."""

    def __init__(self, seed: bytes) -> None:
        self._key = _private_key(seed)
        self._digest = hashlib.blake2b()

    def passing(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the chunks unchanged."""
        for chunk in chunks:
            self._digest.update(chunk)
            yield chunk

    def signature(self, comment: str) -> bytes:
        """Return the signature file of all that passed; the comment is signed too."""
        public = self._key.public_key().public_bytes_raw()
        signature = self._key.sign(self._digest.digest())
        told = comment.replace("\n", " ").encode()
        sealed = self._key.sign(signature + told)
        lines = [
            _UNTRUSTED.encode() + b"signature of holdfast",
            base64.b64encode(_PREHASHED + _key_id(public) + signature),
            _TRUSTED.encode() + told,
            base64.b64encode(sealed),
        ]
        return b"\n".join(lines) + b"\n"


def public_key_text(seed: bytes) -> str:
    """Return the public key of a signing key, in minisign's form."""
    public = _private_key(seed).public_key().public_bytes_raw()
    return base64.b64encode(_ALGORITHM + _key_id(public) + public).decode()


def verify_signature(chunks: Iterable[bytes], signature: bytes, key: str) -> str:
    """Return the signed comment, if these bytes were signed with that key.

    ``key`` is a public key, or the text of a file with one. Raises Tampered otherwise, UsageError
    for an invalid public key.
    """
    public = _read_public(key)
    lines = signature.decode("utf-8", "replace").splitlines()
    if len(lines) < _LINES or not lines[2].startswith(_TRUSTED):
        raise Tampered("the signature is none")
    kind, id, signed = _split(lines[1], _SIGNATURE_BYTES)
    if kind != _PREHASHED or id != public[:_ID_BYTES]:
        raise Tampered("the file was signed with another key")
    digest = hashlib.blake2b()
    for chunk in chunks:
        digest.update(chunk)
    comment = lines[2].removeprefix(_TRUSTED)
    _check(public[_ID_BYTES:], signed, digest.digest())
    try:
        sealed = base64.b64decode(lines[3], validate=True)
    except ValueError as error:
        raise Tampered("the signature is none") from error
    _check(public[_ID_BYTES:], sealed, signed + comment.encode())
    return comment


def _private_key(seed: bytes):  # type: ignore[no-untyped-def]  # noqa: ANN202 - of an extra
    with needing("cryptography", "signing"):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    return Ed25519PrivateKey.from_private_bytes(seed)


def _key_id(public: bytes) -> bytes:
    return hashlib.blake2b(public, digest_size=_ID_BYTES).digest()


def _read_public(key: str) -> bytes:
    lines = [line for line in key.splitlines() if line and not line.startswith(_UNTRUSTED)]
    try:
        kind, id, public = _split(lines[0] if lines else "", _KEY_BYTES)
    except Tampered:
        kind, id, public = b"", b"", b""
    if kind != _ALGORITHM:
        raise UsageError(
            "that is no public key for signatures",
            remedy="Give the text that `holdfast keys public SOURCE` prints, or a minisign key.",
        )
    return id + public


def _split(line: str, size: int) -> tuple[bytes, bytes, bytes]:
    try:
        data = base64.b64decode(line, validate=True)
    except ValueError:
        data = b""
    if len(data) != len(_ALGORITHM) + _ID_BYTES + size:
        raise Tampered("the signature is none")
    return data[:2], data[2 : 2 + _ID_BYTES], data[2 + _ID_BYTES :]


def _check(public: bytes, signature: bytes, data: bytes) -> None:
    with needing("cryptography", "a signature"):
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, data)
    except (InvalidSignature, ValueError) as error:
        raise Tampered("the file is not what was signed", remedy="Get it again from whoever signed it.") from error
