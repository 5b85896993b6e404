"""Bundles: the same bytes back, and nothing believed that was not checked."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.errors import (
    Damaged,
    HoldfastError,
    InvalidData,
    InvalidId,
    KeyMissing,
    Tampered,
    TooLarge,
    TooNew,
    UsageError,
)
from holdfast.formats import Bounds, is_bundle, read_bundle, write_bundle
from holdfast.library._bundle_import import unpack
from holdfast.model import Event
from holdfast.security import is_sealed_file, open_with_passphrase, seal_with_passphrase

KEY = "sessions/s"


@pytest.fixture(autouse=True)
def cheap_keys(monkeypatch):
    """A key costs half a second by design; not in every test."""
    monkeypatch.setattr("holdfast.security._seal.SCRYPT_COST", 1 << 10)


@pytest.fixture
def library():
    with holdfast.open("memory:") as found:
        yield found


@pytest.fixture
def other():
    with holdfast.open("memory:") as found:
        yield found


@pytest.fixture
def bundle(library):
    """A session with a blob and two snapshots."""
    with library.session("s", title="Trip") as session:
        session.user("hello")
        session.assistant("x" * 300_000)
        session.variables["a"] = {"k": [1, 2]}
        session.memory.set("m", {"t": 1})
        session.snapshot()
        session.todos.write([{"content": "b", "status": "pending", "activeForm": "B"}])
        session.snapshot()
    return library.export("s", "bundle")


def contents(library, id="s"):
    """Log and documents of a session."""
    key = f"sessions/{id}"
    documents = library.store.documents(key)
    found = {name: documents.get(name)[0] for name in documents.names()}
    return b"".join(library.store.log(key).read()), found


def test_bit_for_bit(library, other, bundle):
    """Log, snapshots and blobs are the same bytes, and so is the next bundle."""
    assert [row[:2] for row in unpack(other._core, bundle)] == [("s", "imported")]
    log, documents = contents(other)
    assert (log, documents) == contents(library)
    assert len([name for name in documents if name.startswith("snapshots/")]) == 2
    assert other.export("s", "bundle") == bundle
    assert other.verify("s").ok
    assert other.state("s") == library.state("s")


def test_it_is_a_plain_archive(bundle):
    """Anyone can look into it with the usual tools."""
    archive = zipfile.ZipFile(io.BytesIO(bundle))
    assert archive.testzip() is None
    manifest = json.loads(archive.read("manifest.json"))
    assert (manifest["format"], manifest["version"]) == ("holdfast-bundle", 1)
    names = {member["name"] for member in manifest["members"]}
    assert names == set(archive.namelist()) - {"manifest.json"}


def test_again(other, bundle):
    """A second import changes nothing."""
    unpack(other._core, bundle)
    before = contents(other)
    assert unpack(other._core, bundle)[0].outcome == "unchanged"
    assert contents(other) == before


def test_only_what_is_new(library, other, bundle):
    """A newer bundle of the same session adds its new events; an older one nothing."""
    unpack(other._core, bundle)
    with library.session("s") as session:
        session.user("more")
    newer = library.export("s", "bundle")
    assert unpack(other._core, newer)[0][:2] == ("s", "updated")
    assert contents(other)[0] == contents(library)[0]
    assert unpack(other._core, bundle)[0].outcome == "unchanged"


def test_another_way(library, other, bundle):
    """A session that went on in two ways is kept in both."""
    unpack(other._core, bundle)
    with other.session("s") as session:
        session.user("here")
    with library.session("s") as session:
        session.user("there")
    newer = library.export("s", "bundle")
    (row,) = unpack(other._core, newer)
    assert row.outcome == "imported"
    assert row.session_id != "s"
    assert contents(other, row.session_id)[0] == contents(library)[0]
    assert unpack(other._core, newer)[0][:2] == (row.session_id, "unchanged")


def test_dry_run(other, bundle):
    """A trial says what would come and writes nothing."""
    assert unpack(other._core, bundle, dry_run=True)[0].outcome == "imported"
    assert not other.exists("s")


def test_at(library, other):
    """A bundle up to an event has neither later lines nor what only they refer to."""
    with library.session("s") as session:
        early = session.assistant("a" * 300_000)
        session.assistant("b" * 300_000)
        session.snapshot()
    unpack(other._core, library.export("s", "bundle", at=early.seq))
    assert [event.seq for event in other.events("s")][-1] == early.seq
    assert len(contents(other)[1]) == 1


def test_forks_and_archives(store_root, other):
    """A fork comes with what it shares with its parent, an archived session expanded."""
    with holdfast.open(store_root) as library:
        with library.session("s") as session:
            for number in range(20):
                session.user(f"message {number}")
        child = library.fork("s", at=10)
        with library.session(child) as session:
            session.user("on another way")
        library.archive("s")
        for id in ("s", child):
            bundle = library.export(id, "bundle")
            assert unpack(other._core, bundle)[0][:2] == (id, "imported")
            assert contents(other, id) == contents(library, id)
            assert other.export(id, "bundle") == bundle


def test_what_was_set_aside_stays_home(store_root, other):
    """Quarantined bytes may be what was redacted; they are not in a bundle."""
    with holdfast.open(store_root) as library:
        with library.session("s") as session:
            session.user("hello")
        with (store_root / KEY / "events.jsonl").open("ab") as log:
            log.write(b'{"seq":9,"torn')
        whole = library.export("s", "bundle")
        with library.session("s") as session:
            session.user("again")
        assert (store_root / KEY / "quarantine").exists()
        names = zipfile.ZipFile(io.BytesIO(library.export("s", "bundle"))).namelist()
    assert not [name for name in names if "quarantine" in name]
    unpack(other._core, whole)
    assert other.verify("s").torn_bytes == 0


def test_permissions_do_not_come_along(library, other):
    """What a file allows is taken back by one more event; the rest is the same bytes."""
    with library.session("s") as session:
        session.append(Event.make("permission", {"tool": "Bash", "decision": "allow", "scope": "session"}))
    assert library.state("s").permissions.approvals
    unpack(other._core, library.export("s", "bundle"))
    assert not other.state("s").permissions.approvals
    assert contents(other)[0].startswith(contents(library)[0])


def rebuilt(bundle, change=lambda name, data: data, manifest=lambda value: value, extra=()):
    """The bundle with members changed, and a manifest that may or may not agree."""
    old = zipfile.ZipFile(io.BytesIO(bundle))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            if name != "manifest.json":
                data = change(name, old.read(name))
                if data is not None:
                    new.writestr(name, data)
        for name, data in extra:
            new.writestr(name, data)
        value = manifest(json.loads(old.read("manifest.json")))
        if value is not None:
            new.writestr("manifest.json", value if isinstance(value, bytes) else json.dumps(value))
    return out.getvalue()


def resealed(bundle, change):
    """The bundle with members changed and a manifest that agrees with them."""
    old = zipfile.ZipFile(io.BytesIO(bundle))
    names = [name.removeprefix("sessions/s/") for name in old.namelist() if name != "manifest.json"]
    data = {name: change(name, old.read(f"sessions/s/{name}")) for name in names}
    log = data.pop("events.jsonl")
    documents = {name: (lambda value=value: value) for name, value in data.items()}
    return b"".join(write_bundle("s", lambda: iter([log]), documents))


def test_a_forged_snapshot_is_left_out(other, bundle):
    """A snapshot that says other things than the log is not believed."""

    def forge(name, data):
        return data.replace(b'"Trip"', b'"Trap"') if name.startswith("snapshots/") else data

    (row,) = unpack(other._core, resealed(bundle, forge))
    assert len(row.problems) == 2
    assert other.state("s").title == "Trip"
    assert other.snapshots("s") == []


def test_checksums(other, bundle):
    """A member that was changed is named, and nothing is kept."""
    changed = rebuilt(bundle, lambda name, data: data.swapcase() if "blobs" in name else data)
    with pytest.raises(Damaged, match="blobs/"):
        unpack(other._core, changed)
    assert not other.exists("s")


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "C:/x", "a\\..\\x", "sessions/s/"])
def test_names_that_lead_away(bundle, name):
    """Absolute names and names that climb are refused before anything is expanded."""
    data = rebuilt(bundle, extra=[(name, b"x")])
    with pytest.raises(InvalidData):
        read_bundle(data)


def _member(**changes):
    def change(value):
        value["members"][0].update(changes)
        return value

    return change


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda value: None, InvalidData),
        (lambda value: b"[]", InvalidData),
        (lambda value: b"{", InvalidData),
        (lambda value: value | {"format": "other"}, InvalidData),
        (lambda value: value | {"version": 2}, TooNew),
        (lambda value: value | {"version": "1"}, TooNew),
        (lambda value: value | {"sessions": 5}, InvalidData),
        (lambda value: value | {"sessions": [{"id": "../x"}]}, (InvalidData, InvalidId)),
        (lambda value: value | {"sessions": [{"id": "t"}]}, (InvalidData, Damaged)),
        (lambda value: value | {"sessions": []}, InvalidData),
        (lambda value: value | {"members": value["members"][1:]}, Damaged),
        (lambda value: value | {"members": value["members"] * 2}, Damaged),
        (_member(bytes=5), Damaged),
        (_member(name="sessions/s/other"), Damaged),
    ],
)
def test_manifests_that_lie(bundle, change, error):
    """A manifest that is none, or names other things than there are, is refused."""
    with pytest.raises(error):
        read_bundle(rebuilt(bundle, manifest=change))


def test_a_member_without_a_home(bundle):
    """What belongs to no session of the bundle is refused."""

    def manifest(value):
        value["members"].append({"name": "agents/x/memory.json", "bytes": 1, "sha256": ""})
        return value

    data = rebuilt(bundle, extra=[("agents/x/memory.json", b"1")], manifest=manifest)
    with pytest.raises(InvalidData):
        read_bundle(data)


def test_bombs(bundle):
    """A member that would grow a thousandfold is refused before it is expanded."""
    with pytest.raises(TooLarge, match="200 times"):
        read_bundle(rebuilt(bundle, extra=[("sessions/s/bomb", b"\0" * 5_000_000)]))


def test_bounds(bundle):
    """Count and size are bounded before anything is expanded."""
    with pytest.raises(TooLarge):
        read_bundle(bundle, Bounds(files_max=2))
    with pytest.raises(TooLarge):
        read_bundle(bundle, Bounds(log_bytes_max=100))
    with pytest.raises(TooLarge):
        read_bundle(bundle, Bounds(database_bytes_max=100))


def test_no_log_in_it(bundle):
    """A session without its log is refused."""

    def without(value):
        value["members"] = [one for one in value["members"] if "events" not in one["name"]]
        return value

    data = rebuilt(bundle, lambda name, data: None if "events" in name else data, without)
    with pytest.raises(Damaged, match="no log"):
        read_bundle(data)


def test_ways_of_packing_that_no_bundle_has(bundle):
    """Other methods than the two are refused, whatever they would give."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("manifest.json", "{}")
    with pytest.raises(InvalidData, match="packed"):
        read_bundle(out.getvalue())


def test_all_of_it_together(bundle):
    """The sum of all members is bounded as well."""
    with pytest.raises(TooLarge, match="the bundle"):
        read_bundle(bundle, Bounds(log_bytes_max=20_000, database_bytes_max=400_000))


def test_an_id_that_differs_by_case(library, other, bundle):
    """Where a session's id is taken in another case, the bundle's gets one of its own."""
    with other.session("S") as session:
        session.user("mine")
    (row,) = unpack(other._core, bundle)
    assert row.session_id.startswith("s-")
    assert contents(other, row.session_id) == contents(library)


def test_twice_the_same_name(bundle):
    """Two members of one name are refused: which of them was checked?"""
    with pytest.warns(UserWarning, match="Duplicate"):
        data = rebuilt(bundle, extra=[("sessions/s/events.jsonl", b"x")])
    with pytest.raises(InvalidData, match="twice"):
        read_bundle(data)


def test_a_size_that_lies(other, bundle):
    """A member that gives more bytes than it announces is refused at that size."""
    data = bytearray(rebuilt(bundle))
    name = b"sessions/s/events.jsonl"
    # The size in the table of contents, 24 bytes into the member's entry, and in the manifest.
    entry = data.index(b"PK\x01\x02")
    while data[entry + 46 : entry + 46 + len(name)] != name:
        entry = data.index(b"PK\x01\x02", entry + 4)
    size = struct.unpack_from("<I", data, entry + 24)[0]
    struct.pack_into("<I", data, entry + 24, size - 10)
    with pytest.raises(Damaged):
        unpack(other._core, bytes(data))


@pytest.mark.parametrize("data", [b"", b"PK", b"PK\x03\x04", b"PK\x05\x06" + b"\0" * 18, b"x" * 99])
def test_no_bundles(data):
    """Other bytes are refused with a typed error."""
    with pytest.raises((InvalidData, Damaged)):
        read_bundle(data)


def test_cut_short(other, bundle):
    """A bundle that ends too early is refused, wherever it ends."""
    for size in range(0, len(bundle), max(1, len(bundle) // 60)):
        with pytest.raises(HoldfastError):
            unpack(other._core, bundle[:size])
    assert not other.exists("s")


@settings(max_examples=60)
@given(st.data())
def test_bytes_flipped(data):
    """Whatever byte is changed: the same session, or a typed error; never another session."""
    with holdfast.open("memory:") as library, holdfast.open("memory:") as other:
        with library.session("s") as session:
            session.user("hello")
        bundle = bytearray(library.export("s", "bundle"))
        place = int(data.draw(st.floats(0, 1, exclude_max=True)) * len(bundle))
        bundle[place] ^= data.draw(st.integers(1, 255))
        try:
            unpack(other._core, bytes(bundle))
        except HoldfastError:
            return
        assert contents(other)[0] == contents(library)[0]


def test_too_new_a_log(other):
    """A log of a newer format is refused untouched."""
    line = b'{"type":"session_start","timestamp":1,"data":{"format":99}}\n'
    with pytest.raises(TooNew):
        unpack(other._core, b"".join(write_bundle("s", lambda: iter([line]), {})))
    assert not other.exists("s")


def test_no_log_at_all(other):
    """A bundle without an event is refused."""
    data = b"".join(write_bundle("s", lambda: iter([b"nothing\n"]), {}))
    with pytest.raises(InvalidData, match="no event"):
        unpack(other._core, data)


def test_what_compresses_too_well_comes_back(other, library):
    """A session of one letter looks like a bomb when compressed; it is stored as it is."""
    with library.session("s") as session:
        session.append("tool_result", {"toolCallId": "c", "result": "a" * 5_000_000})
    unpack(other._core, library.export("s", "bundle"))
    assert contents(other) == contents(library)


def test_sealed(other, library, bundle):
    """With a passphrase nothing can be read without it."""
    sealed = library.export("s", "bundle", passphrase="open sesame")
    assert is_sealed_file(sealed)
    assert not is_bundle(sealed)
    assert b"events.jsonl" not in sealed
    with pytest.raises(KeyMissing):
        unpack(other._core, sealed)
    with pytest.raises(Tampered):
        unpack(other._core, sealed, passphrase="close sesame")
    unpack(other._core, sealed, passphrase="open sesame")
    assert contents(other) == contents(library)


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 200_000])
def test_sealing_any_size(size):
    """What was sealed comes back; cut, swapped or changed chunks are noticed."""
    plain = os.urandom(size)
    sealed = b"".join(seal_with_passphrase([plain[:7], plain[7:]], "p"))
    assert open_with_passphrase(sealed, "p") == plain
    head = sealed.index(b"\n", 16) + 1
    for cut in {head, head + 5, len(sealed) - 1, len(sealed) - 65_552}:
        if head <= cut < len(sealed):
            with pytest.raises(Tampered):
                open_with_passphrase(sealed[:cut], "p")
    with pytest.raises(Tampered):
        open_with_passphrase(sealed[:-1] + bytes([sealed[-1] ^ 1]), "p")


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (b'"n":1024', b'"n":1073741824', Tampered),
        (b'"n":1024', b'"n":1025', Tampered),
        (b'"r":8', b'"r":8000000', Tampered),
        (b'"version":1', b'"version":2', TooNew),
        (b'"kdf":"scrypt"', b'"kdf":"rot13"', TooNew),
        (b'"salt":"', b'"salt":"AAAA', Tampered),
        (b'"salt":', b'"tlas":', Tampered),
        (b"HOLDFAST-SEALED\n", b"HOLDFAST-SEALED ", Tampered),
    ],
)
def test_heads_that_lie(old, new, error):
    """A head that asks for gigabytes, or for what is not known, is refused at once."""
    sealed = b"".join(seal_with_passphrase([b"x"], "p"))
    with pytest.raises(error):
        open_with_passphrase(sealed.replace(old, new), "p")


def test_no_passphrase():
    """An empty passphrase is a mistake, not a key."""
    with pytest.raises(UsageError):
        seal_with_passphrase([b"x"], "")
    with pytest.raises(KeyMissing):
        open_with_passphrase(b"".join(seal_with_passphrase([b"x"], "p")), "")


def test_without_the_extra(monkeypatch, library, bundle):
    """Where the package for it is missing, that is said, and how to get it."""
    import sys

    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(UsageError, match="cryptography") as caught:
        library.export("s", "bundle", passphrase="p")
    assert "holdfast[crypto]" in caught.value.remedy
