"""Files with a signature beside them: written, and verified before they are read."""

from __future__ import annotations

import os
from collections.abc import Iterable

from holdfast.errors import KeyMissing, NotFound, UsageError

__all__ = ["check_signed", "signing_seed", "write_signed"]

_SEED_BYTES = 32


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


def check_signed(path: str | os.PathLike[str], key: str) -> None:
    """Raise Tampered unless a file is what was signed, KeyMissing if there is no signature."""
    from holdfast.security import SIGNATURE_SUFFIX, verify_signature
    from holdfast.storage.loose import read_file

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
    verify_signature(read_file(os.path.realpath(text)), b"".join(read_file(beside)), key)
