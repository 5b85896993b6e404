"""Wrapping keys: where they come from, and that only the right one opens."""

from __future__ import annotations

import sys

import keyring
import keyring.backends.fail
import keyring.backends.null
import msgspec
import pytest
from keyring.backend import KeyringBackend

from holdfast.errors import Forbidden, KeyMissing, Tampered, TooNew, UsageError
from holdfast.library._keychain import KeyChain, as_sources, make_key, read_key_file
from holdfast.security import (
    Kdf,
    KeyDocument,
    Ring,
    WrappingKey,
    fingerprint,
    inherited,
    is_strong,
    new_data_key,
    new_kdf,
    read_key_document,
    read_key_text,
    stretch,
)
from holdfast.security._keys import find_secret, keyring_backend, split_source
from holdfast.storage import MemoryStore

SECRET = bytes(range(32))
KEY = WrappingKey(SECRET, "test")
CHEAP = Kdf(name="scrypt", salt=b"s" * 16, cost=16)


class Memory(KeyringBackend):
    """A keyring that keeps what it is given, as a real one does."""

    priority = 1

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service, username):
        return self.kept.get((service, username))

    def set_password(self, service, username, password):
        self.kept[service, username] = password


class Plaintext(Memory):
    """Such as keyrings.alt has."""


Plaintext.__module__ = "keyrings.alt.file"
Plaintext.__qualname__ = "PlaintextKeyring"


@pytest.fixture
def ring():
    return Ring((new_data_key(1), new_data_key(2, first=5)))


@pytest.fixture
def use_keyring(monkeypatch):
    """Make this the system's keyring."""

    def use(backend):
        monkeypatch.setattr(keyring, "get_keyring", lambda: backend)
        return backend

    return use


def chain(*sources, **options):
    return KeyChain(as_sources(sources), MemoryStore(), **options)


# -- the document ------------------------------------------------------------------------------


def test_a_ring_opens_with_any_of_its_keys_and_no_other(ring):
    """Wrapped under several, opened with each."""
    other = WrappingKey(bytes(32), "other")
    document = read_key_document(KeyDocument.wrapped(ring, [KEY, other]).encode())
    assert document.unwrap(KEY) == document.unwrap(other) == ring
    assert document.unwrap(WrappingKey(b"x" * 32, "third")) is None
    assert [text.split(" ")[0] for text in document.sources()] == ["test", "other"]


def test_no_key_is_in_the_document(ring):
    """Neither the data keys nor the wrapping key, in any form that a search would find."""
    data = KeyDocument.wrapped(ring, [KEY]).encode()
    for secret in (SECRET, *(key.secret for key in ring.keys)):
        assert secret not in data
        assert secret.hex().encode() not in data
        assert msgspec.json.encode(secret)[1:-1] not in data


@pytest.mark.parametrize("field", ["wrapped", "nonce", "source", "kdf"])
def test_a_wrap_that_was_changed_is_noticed(ring, field):
    """Whatever stands in it is authenticated."""
    document = KeyDocument.wrapped(ring, [KEY])
    value = {"wrapped": document.wraps[0].wrapped[:-1] + b"\0", "nonce": bytes(16), "source": "keyring", "kdf": CHEAP}[
        field
    ]
    wrap = msgspec.structs.replace(document.wraps[0], **{field: value})
    with pytest.raises(Tampered):
        KeyDocument(wraps=[wrap]).unwrap(KEY)


def test_bytes_that_are_no_document_are_refused():
    """Rubbish is Tampered, a newer format TooNew."""
    with pytest.raises(Tampered):
        read_key_document(b"rubbish")
    with pytest.raises(TooNew):
        read_key_document(b'{"format":2,"wraps":[]}')


def test_a_fork_inherits_keys_for_what_it_shares(ring):
    """Up to the event at which it was forked, and the keys of later parts not at all."""
    assert [(key.first, key.stop) for key in inherited(ring.keys, 3)] == [(0, 3)]
    assert [(key.first, key.stop) for key in inherited(ring.keys, 9)] == [(0, 9), (5, 9)]
    again = inherited(inherited(ring.keys, 3), 9)
    assert [(key.first, key.stop) for key in again] == [(0, 3)]


def test_secrets_are_not_shown(ring):
    """What is printed tells a fingerprint."""
    for shown in (repr(KEY), repr(ring)):
        assert SECRET.hex() not in shown
        assert ring.keys[0].secret.hex() not in shown
    assert fingerprint(SECRET) in repr(KEY)


# -- passphrases -------------------------------------------------------------------------------


def test_scrypt_gives_the_published_answer():
    """RFC 7914: the password "pleaseletmein" with N=16384, r=8, p=1."""
    kdf = Kdf(name="scrypt", salt=b"SodiumChloride", cost=16384)
    assert stretch("pleaseletmein", kdf).hex().startswith("7023bdcb3afd7348461c06cd81fd38eb")


def test_argon2id_gives_a_known_answer():
    """The same as the reference command gives for these costs."""
    kdf = Kdf(name="argon2id", salt=b"0" * 16, cost=65536, times=3, lanes=4)
    found = stretch("x", kdf).hex()
    assert found == "e885c24b9f533f6e4a0da0b4f5d609c25eb64456b029731120731908a332584b"


def test_new_passphrases_are_stretched_with_argon2id(monkeypatch):
    """And with scrypt where cryptography has no Argon2id."""
    assert new_kdf().name == "argon2id"
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.kdf.argon2", None)
    assert new_kdf().name == "scrypt"
    with pytest.raises(UsageError):
        stretch("x", Kdf(name="argon2id", salt=b"0" * 16, cost=65536))


@pytest.mark.parametrize(
    "kdf",
    [
        Kdf(name="scrypt", salt=b"s", cost=1 << 30),
        Kdf(name="scrypt", salt=b"s", cost=17),
        Kdf(name="argon2id", salt=b"s" * 16, cost=1 << 30),
        Kdf(name="argon2id", salt=b"s" * 16, cost=65536, times=10_000),
        Kdf(name="argon2id", salt=b"s", cost=65536),
    ],
)
def test_costs_that_nobody_writes_are_refused(kdf):
    """A hostile document makes us spend neither memory nor time."""
    with pytest.raises(Tampered):
        stretch("x", kdf)


def test_strange_and_empty_passphrases_are_refused():
    """With an error that says so."""
    with pytest.raises(TooNew):
        stretch("x", Kdf(name="rot13", salt=b"", cost=1))
    with pytest.raises(KeyMissing):
        stretch("", CHEAP)


def test_a_passphrase_is_asked_for_once(ring, monkeypatch):
    """And stretched once for all sessions of a store; a wrong one opens nothing."""
    monkeypatch.delenv("HOLDFAST_PASSPHRASE", raising=False)
    monkeypatch.setattr("holdfast.library._keychain.new_kdf", lambda: CHEAP)
    asked = []
    store = MemoryStore()
    mine = KeyChain(["passphrase"], store, ask=lambda text: asked.append(text) or "open sesame")
    documents = [mine.wrap(ring) for _ in range(3)]
    assert [mine.unwrap(document) for document in documents] == [ring] * 3
    assert len(asked) == 1
    assert len({wrap.kdf.salt for one in documents for wrap in one.wraps}) == 1
    monkeypatch.setenv("HOLDFAST_PASSPHRASE", "wrong")
    with pytest.raises(KeyMissing, match="another key"):
        KeyChain(["passphrase"], store).unwrap(documents[0])
    monkeypatch.setenv("HOLDFAST_PASSPHRASE", "open sesame")
    assert KeyChain(["passphrase"], store).unwrap(documents[0]) == ring
    monkeypatch.setenv("OTHER", "open sesame")
    assert KeyChain(["passphrase:OTHER"], MemoryStore()).unwrap(documents[0]) == ring


def test_a_passphrase_that_nobody_can_be_asked_for_is_missing(ring, monkeypatch):
    """A service does not wait for ever for a person."""
    monkeypatch.delenv("HOLDFAST_PASSPHRASE", raising=False)
    with pytest.raises(KeyMissing, match="passphrase"):
        chain("passphrase").wrap(ring)
    assert chain("passphrase").available() == []


# -- sources -----------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["", "file", "file:", "env:", "vault:x", "command: "])
def test_what_names_no_key_is_refused(source):
    """With what would."""
    with pytest.raises(UsageError, match="names no key"):
        split_source(source)


@pytest.mark.parametrize(
    "text", [SECRET, SECRET.hex().encode() + b"\n", b"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="]
)
def test_a_key_may_be_raw_hex_or_base64(text):
    """Each form of the same 32 bytes."""
    assert read_key_text(text, "it") == SECRET


@pytest.mark.parametrize("text", [b"", b"hunter2", b"x" * 64, b"*" * 44, bytes(31)])
def test_what_is_no_key_is_refused(text):
    """A password in the place of a key is not stretched in silence."""
    with pytest.raises(UsageError, match="32 bytes"):
        read_key_text(text, "it")


def test_a_key_from_the_environment(monkeypatch):
    """Set: its key; not set: KeyMissing with the variable's name."""
    monkeypatch.setenv("MY_KEY", SECRET.hex())
    assert chain("env:MY_KEY").current() == [WrappingKey(SECRET, "env:MY_KEY")]
    monkeypatch.delenv("MY_KEY")
    with pytest.raises(KeyMissing, match="MY_KEY"):
        chain("env:MY_KEY").current()


def test_a_key_from_a_file_that_only_its_owner_reads(tmp_path):
    """Made 0600; one that others may read is refused, and so is a folder."""
    path = tmp_path / "keys" / "my.key"
    name = make_key(f"file:{path}")
    assert path.stat().st_mode & 0o777 == 0o600
    [key] = chain(f"file:{path}").current()
    assert key.id == name
    assert key.source == "file"
    with pytest.raises(Forbidden):
        make_key(f"file:{path}")
    for mode in (0o640, 0o604, 0o660):
        path.chmod(mode)
        with pytest.raises(Forbidden, match="others may read"):
            read_key_file(str(path))
    with pytest.raises(KeyMissing):
        read_key_file(str(tmp_path / "nothing"))
    with pytest.raises(UsageError):
        read_key_file(str(tmp_path))


def test_a_key_from_a_command(tmp_path):
    """What it prints is the key; no shell is involved; a failure is KeyMissing."""
    program = f"command:{sys.executable} -c \"print('{SECRET.hex()}')\""
    assert find_secret(program, read_key_file) == SECRET
    assert chain(program).current()[0].source == "command"
    marker = tmp_path / "made"
    for command in (f"command:true; touch {marker}", "command:false", "command:/no/such", 'command:"'):
        with pytest.raises((KeyMissing, UsageError)):
            find_secret(command, read_key_file)
    assert not marker.exists()


def test_a_key_from_the_keyring(use_keyring):
    """Made there, found there, never replaced."""
    backend = use_keyring(Memory())
    name = make_key("keyring:work")
    assert chain("keyring:work").current()[0].id == name
    assert [*backend.kept] == [("holdfast", "work")]
    with pytest.raises(Forbidden):
        make_key("keyring:work")
    with pytest.raises(KeyMissing) as caught:
        chain("keyring").current()
    assert "holdfast keys new" in caught.value.remedy


@pytest.mark.req("S4-58")
def test_a_machine_without_a_keyring_is_told_what_to_do(use_keyring):
    """Headless: a clear message, and alternatives that are safe."""
    use_keyring(keyring.backends.fail.Keyring())
    with pytest.raises(KeyMissing) as caught:
        chain("keyring").current()
    assert "no keyring" in caught.value.message
    assert "key file" in caught.value.remedy
    assert "passphrase" in caught.value.remedy


def test_a_keyring_that_keeps_keys_in_the_clear_is_refused(use_keyring):
    """Such as keyrings.alt, also behind others, and one that keeps nothing."""

    class Chain(Memory):
        backends = (Memory(), Plaintext())

    for backend in (Plaintext(), Chain(), keyring.backends.null.Keyring()):
        use_keyring(backend)
        with pytest.raises(Forbidden, match="unprotected"):
            keyring_backend()


def test_a_keyring_that_fails_is_told(use_keyring):
    """Locked, or broken: KeyMissing."""

    class Broken(Memory):
        def get_password(self, service, username):
            raise RuntimeError("the collection is locked")

    use_keyring(Broken())
    with pytest.raises(KeyMissing, match="locked"):
        chain("keyring").current()


@pytest.mark.parametrize("name", ["keyring", "cryptography.hazmat.primitives.ciphers.aead"])
def test_without_the_extra_it_is_named(monkeypatch, name):
    """Pip install 'holdfast[crypto]'."""
    monkeypatch.setitem(sys.modules, name, None)
    use = keyring_backend if name == "keyring" else chain(SECRET).wrap
    given = [] if name == "keyring" else [Ring((new_data_key(1),))]
    with pytest.raises(UsageError) as caught:
        use(*given)
    assert "holdfast[crypto]" in caught.value.remedy


def test_several_keys_at_once(ring):
    """New rings are wrapped under all; any of them opens; one that is missing hides no other."""
    both = chain(SECRET, bytes(32))
    document = both.wrap(ring)
    assert len(document.wraps) == 2
    assert chain(bytes(32)).unwrap(document) == ring
    assert chain("env:NOT_THERE", SECRET).unwrap(document) == ring
    with pytest.raises(KeyMissing, match="NOT_THERE"):
        chain("env:NOT_THERE").unwrap(document)
    assert [key.secret for key in chain("env:NOT_THERE", SECRET).available()] == [SECRET]


def test_how_keys_are_given():
    """Bytes, names, names with commas, lists; a command may have commas of its own."""
    assert as_sources(SECRET) == [SECRET]
    assert as_sources("keyring, env:A") == ["keyring", "env:A"]
    assert as_sources(["env:A", SECRET]) == ["env:A", SECRET]
    assert as_sources("command:get a,b") == ["command:get a,b"]
    with pytest.raises(UsageError):
        as_sources(b"short")
    with pytest.raises(UsageError):
        make_key("env:A")


def test_a_damaged_note_on_passphrases_does_no_harm(ring, monkeypatch):
    """Each wrap says itself how its passphrase is stretched."""
    monkeypatch.setenv("HOLDFAST_PASSPHRASE", "x")
    monkeypatch.setattr("holdfast.library._keychain.new_kdf", lambda: CHEAP)
    store = MemoryStore()
    store.documents("shared/sealing").put("passphrase.json", b"rubbish")
    mine = KeyChain(["passphrase"], store)
    assert mine.unwrap(mine.wrap(ring)) == ring


@pytest.mark.parametrize(
    "note",
    [
        Kdf(name="scrypt", salt=b"a" * 16, cost=2),
        Kdf(name="argon2id", salt=b"a" * 16, cost=32, times=1, lanes=4),
        Kdf(name="argon2id", salt=b"a" * 16, cost=65_536, times=1, lanes=4),
        Kdf(name="argon2id", salt=b"a" * 8, cost=65_536, times=3, lanes=4),
        Kdf(name="argon2id", salt=b"a" * 16, cost=1 << 30, times=3, lanes=4),
        Kdf(name="scrypt", salt=b"a" * 16, cost=1 << 30),
        Kdf(name="rot13", salt=b"a" * 16, cost=65_536),
    ],
    ids=str,
)
def test_a_store_cannot_have_passphrases_stretched_cheaply(ring, monkeypatch, note):
    """A note is anybody's who can write there: neither weaker nor dearer than ours is used."""
    monkeypatch.setenv("HOLDFAST_PASSPHRASE", "x")
    monkeypatch.setattr("holdfast.library._keychain.new_kdf", lambda: CHEAP)
    store = MemoryStore()
    documents = store.documents("shared/sealing")
    documents.put("passphrase.json", msgspec.json.encode(note))
    [wrap] = KeyChain(["passphrase"], store).wrap(ring).wraps
    assert wrap.kdf == CHEAP
    assert msgspec.json.decode(documents.get("passphrase.json")[0], type=Kdf) == CHEAP


def test_a_note_as_strong_as_ours_is_used_by_all():
    """So that all sessions of a store need it done once, whoever wrote it."""
    assert is_strong(new_kdf())
    assert is_strong(Kdf(name="scrypt", salt=b"a" * 16, cost=1 << 16))
    store, dear = MemoryStore(), Kdf(name="argon2id", salt=b"a" * 16, cost=1 << 17, times=4)
    store.documents("shared/sealing").put("passphrase.json", msgspec.json.encode(dear))
    assert KeyChain(["passphrase"], store)._kdf() == dear


def test_a_note_that_another_writes_meanwhile_counts(monkeypatch):
    """Two at once agree; where no end comes of it each goes its own way."""
    theirs = Kdf(name="scrypt", salt=b"t" * 16, cost=1 << 16)
    store = MemoryStore()
    documents = store.documents("shared/sealing")
    notes = [msgspec.json.encode(theirs)]

    class Late(type(documents)):
        def put(self, name, data, *, if_match=None, sync=True):
            if notes:
                super().put(name, notes.pop())
            return super().put(name, data, if_match=if_match, sync=sync)

    late = Late.__new__(Late)
    late.__dict__.update(documents.__dict__)
    monkeypatch.setattr(store, "documents", lambda _: late)
    assert KeyChain(["passphrase"], store)._kdf() == theirs
    notes = [b"c", b"b", b"a"]
    documents.delete("passphrase.json")
    assert is_strong(KeyChain(["passphrase"], store)._kdf())


def test_a_document_without_end_costs_little(ring, monkeypatch):
    """More wraps than anybody has are refused; of those of passphrases some are tried."""
    [wrap] = KeyDocument.wrapped(ring, [WrappingKey(b"k" * 32, "x", CHEAP)]).wraps
    many = [
        msgspec.structs.replace(wrap, kdf=Kdf(name="scrypt", salt=bytes([n]) * 16, cost=16), key=str(n))
        for n in range(65)
    ]
    with pytest.raises(Tampered):
        read_key_document(KeyDocument(wraps=many).encode())
    monkeypatch.setenv("HOLDFAST_PASSPHRASE", "x")
    done = []
    monkeypatch.setattr("holdfast.library._keychain.stretch", lambda *how: done.append(how) or b"n" * 32)
    document = read_key_document(KeyDocument(wraps=many[:64]).encode())
    with pytest.raises(KeyMissing):
        chain("passphrase").unwrap(document)
    assert len(done) == 8
