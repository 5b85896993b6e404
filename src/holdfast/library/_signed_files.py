"""Files with a signature beside them: written, and verified before they are read."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable

from holdfast.errors import KeyMissing, NotFound, TooLarge, UsageError

_SEED_BYTES = 32
_BYTES_MAX = 1 << 30
_CHUNK_BYTES = 1 << 20


def signing_seed(key: str | bytes) -> bytes:
    """The 32 bytes of a signing key, given or found where its name says. Raises KeyMissing."""
    if isinstance(key, bytes):
        if len(key) != _SEED_BYTES:
            raise UsageError("a signing key has 32 bytes")
        return key
    from holdfast.library._keychain import read_key_file
    from holdfast.security import find_secret, split_source

    if split_source(key)[0] == "passphrase":
        raise UsageError("a passphrase signs nothing", remedy="Use a key file or the keyring.")
    return find_secret(key, read_key_file)


def write_signed(chunks: Iterable[bytes], path: str, key: str | bytes, *, overwrite: bool) -> None:
    """Write a file, and its signature beside it."""
    from holdfast.security import SIGNATURE_SUFFIX, Signing
    from holdfast.storage import place_file

    signing = Signing(signing_seed(key))
    place_file(path, signing.passing(chunks), overwrite=overwrite)
    signature = signing.signature(f"file:{os.path.basename(path)}")
    place_file(path + SIGNATURE_SUFFIX, [signature], overwrite=True)


class SignedFile(io.BytesIO):
    """The bytes of a file that were verified. What is at its path by now does not matter."""

    def __init__(self, name: str, data: bytes) -> None:
        super().__init__(data)
        self.filename = name


def read_signed(path: str | os.PathLike[str], key: str) -> SignedFile:
    """A file, read once. Raises Tampered unless it is what was signed, KeyMissing without that."""
    from holdfast.security import SIGNATURE_SUFFIX, verify_signature
    from holdfast.storage import read_file

    text = os.fspath(path)
    if os.path.isfile(key):
        key = b"".join(read_file(os.path.realpath(key))).decode("utf-8", "replace")
    if not os.path.isfile(text):
        raise NotFound(f"there is no file {text}", path=text)
    beside = os.path.realpath(text) + SIGNATURE_SUFFIX
    if not os.path.isfile(beside):
        raise KeyMissing(
            f"{text} has no signature beside it", remedy=f"Get {text}{SIGNATURE_SUFFIX} as well."
        )
    data = _read(text)
    verify_signature([data], b"".join(read_file(beside)), key)
    return SignedFile(os.path.basename(text), data)


def _read(path: str) -> bytes:
    from holdfast.storage import look_outside

    [file] = look_outside(path, files_max=1, levels_max=1).files.values()
    if file.size > _BYTES_MAX:
        raise TooLarge(
            f"a signed file of {file.size:,} bytes is more than is read at once",
            limit="signed_bytes_max",
            needed_bytes=file.size,
        )
    return b"".join(file.chunks(_CHUNK_BYTES))
