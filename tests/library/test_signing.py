"""Signed exports: written with a signature beside them, brought in only if it fits."""

from __future__ import annotations

import base64
import hashlib
import io

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from sealed_sessions import brief, told

import holdfast
from holdfast.errors import KeyMissing, NotFound, Tampered, TooLarge, UsageError
from holdfast.security import Signing, public_key_text, verify_signature

SEED = bytes(range(32))
PUBLIC = public_key_text(SEED)


@pytest.fixture
def hf(hf):
    """A store with one session."""
    brief(hf, "a", "hello")
    return hf


def signed(data: bytes, comment: str = "x") -> bytes:
    signing = Signing(SEED)
    assert b"".join(signing.passing([data])) == data
    return signing.signature(comment)


def test_a_signature_is_what_minisign_expects():
    """Four lines: Ed25519 over BLAKE2b of the bytes, and over that with the comment."""
    lines = signed(b"data", "file:a").decode().splitlines()
    public = base64.b64decode(PUBLIC)
    key = Ed25519PublicKey.from_public_bytes(public[10:])
    assert lines[0].startswith("untrusted comment: ")
    found = base64.b64decode(lines[1])
    assert (found[:2], found[2:10]) == (b"ED", public[2:10])
    key.verify(found[10:], hashlib.blake2b(b"data").digest())
    key.verify(base64.b64decode(lines[3]), found[10:] + b"file:a")
    assert public[:2] == b"Ed"
    assert lines[2] == "trusted comment: file:a"


def test_what_is_changed_does_not_verify():
    """The bytes, the comment, the signature, the key."""
    good = signed(b"data")
    assert verify_signature([b"da", b"ta"], good, PUBLIC) == "x"
    assert verify_signature([b"data"], good, f"untrusted comment: mine\n{PUBLIC}\n") == "x"
    other = public_key_text(bytes(32))
    lines = good.split(b"\n")
    attacks = [
        (b"Data", good, PUBLIC),
        (b"data", good, other),
        (b"data", good.replace(b"comment: x", b"comment: y"), PUBLIC),
        (b"data", b"\n".join([*lines[:3], b"***", b""]), PUBLIC),
        (b"data", b"\n".join([lines[0], b"AAAA", *lines[2:]]), PUBLIC),
        (b"data", b"rubbish", PUBLIC),
    ]
    for data, signature, key in attacks:
        with pytest.raises(Tampered):
            verify_signature([data], signature, key)
    for key in ("", "rubbish", lines[1].decode()):
        with pytest.raises(UsageError):
            verify_signature([b"data"], good, key)


def test_what_is_verified_is_what_is_read(hf, tmp_path, monkeypatch):
    """Another file put in its place after the look at the signature is not what comes in."""
    from holdfast.library import _keychain

    path = tmp_path / "a.holdfast"
    hf.export("a", "bundle", to=path, sign=SEED)
    brief(hf, "evil", "swapped")
    other = hf.export("evil", "bundle")
    read = _keychain.read_signed

    def swapped(*given):
        found = read(*given)
        path.write_bytes(other)
        return found

    monkeypatch.setattr(_keychain, "read_signed", swapped)
    with holdfast.open(tmp_path / "other") as library:
        assert library.import_(path, verify_key=PUBLIC) == ["a"]
        assert [row.session_id for row in library.list()] == ["a"]


def test_a_signed_list_of_messages_has_the_id_that_it_has_without(hf, tmp_path):
    """A signature changes nothing about what comes in; nothing beside the file does either."""
    path = tmp_path / "talk.json"
    data = b'[{"role":"user","content":"hello"}]'
    path.write_bytes(data)
    path.with_name("talk.json.minisig").write_bytes(signed(data))
    with holdfast.open(tmp_path / "other") as library:
        assert library.import_(path, verify_key=PUBLIC) == hf.import_(path)


def test_a_signed_file_that_is_too_big_is_refused(tmp_path, monkeypatch):
    """It is read at once, so there is an end to it."""
    from holdfast.library import _keychain

    monkeypatch.setattr(_keychain, "_BYTES_MAX", 3)
    path = tmp_path / "talk.json"
    path.write_bytes(b"data")
    path.with_name("talk.json.minisig").write_bytes(signed(b"data"))
    with holdfast.open(tmp_path / "other") as library, pytest.raises(TooLarge):
        library.import_(path, verify_key=PUBLIC)


def test_a_signed_bundle_comes_in_and_a_changed_one_does_not(hf, tmp_path):
    """Nothing is brought in unless the file is what was signed."""
    path = tmp_path / "a.holdfast"
    hf.export("a", "bundle", to=path, sign=SEED)
    with holdfast.open(tmp_path / "other") as other:
        assert other.import_(path, verify_key=PUBLIC) == ["a"]
        assert told(other, "a") == told(hf, "a")
    key_file = tmp_path / "my.pub"
    key_file.write_text(f"untrusted comment: mine\n{PUBLIC}\n")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with holdfast.open(tmp_path / "third") as third:
        with pytest.raises(Tampered):
            third.import_(path, verify_key=str(key_file))
        path.with_name("a.holdfast.minisig").unlink()
        with pytest.raises(KeyMissing):
            third.import_(path, verify_key=PUBLIC)
        with pytest.raises(NotFound):
            third.import_(tmp_path / "nothing", verify_key=PUBLIC)
        with pytest.raises(UsageError):
            third.import_(io.BytesIO(b""), verify_key=PUBLIC)
        assert third.list() == []


def test_what_cannot_be_signed_is_refused(hf, tmp_path, monkeypatch):
    """No file to put it beside, no key, a passphrase."""
    with pytest.raises(UsageError):
        hf.export("a", sign=SEED)
    for key in (b"short", "passphrase"):
        with pytest.raises(UsageError):
            hf.export("a", to=tmp_path / "a.md", sign=key)
    monkeypatch.setenv("SIGN", SEED.hex())
    hf.export("a", to=tmp_path / "a.md", sign="env:SIGN")
    assert (
        verify_signature([(tmp_path / "a.md").read_bytes()], (tmp_path / "a.md.minisig").read_bytes(), PUBLIC)
        == "file:a.md"
    )
