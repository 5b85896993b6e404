"""Sealing: known answers, no nonce twice, and nothing that can be changed without being noticed."""

from __future__ import annotations

import random
import struct

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from msgspec.structs import replace

from holdfast.errors import KeyMissing, Tampered, TooNew
from holdfast.security import DataKey, Opener, Sealer, is_sealed_document, new_data_key, open_document, seal_document
from holdfast.security._seal import BEFORE_ALL, derive, document_key

KEY = DataKey(3, bytes(range(16)), bytes(range(32)), generation=2)
SALT = bytes(range(100, 116))
BODY = b'"type":"user","timestamp":5,"data":{"content":"hello"}'
HEAD, COUNT, BEFORE = slice(0, 27), slice(27, 31), slice(31, 39)


def tag_end(sealed):
    """The part of a sealed event that the next one names."""
    return sealed[-8:]


def sealed_log(count: int, key: DataKey = KEY) -> list[bytes]:
    """Some events, chained."""
    sealer, before, log = Sealer(key, 7), BEFORE_ALL, []
    for seq in range(count):
        log.append(sealer.seal(seq, b"text %d" % seq, before))
        before = tag_end(log[-1])
    return log


def opened(log: list[bytes], key: DataKey = KEY) -> list[bytes]:
    """The log as a reader would open it, one by one and all at once."""
    opener, before, found = Opener([key]), BEFORE_ALL, []
    for seq, sealed in enumerate(log):
        found.append(opener(seq, sealed, before))
        before = tag_end(sealed)
    assert Opener([key]).open_all(0, log, BEFORE_ALL) == (found, before)
    return found


# -- known answers -----------------------------------------------------------------------------


def test_hkdf_gives_the_published_answer():
    """The derivation is RFC 5869: its first test case, as far as one block goes."""
    found = derive(b"\x0b" * 22, bytes(range(13)), bytes(range(0xF0, 0xFA)))
    assert found.hex() == "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"


def test_aes_gcm_gives_the_published_answer():
    """The cipher is AES-256-GCM: test case 16 of its specification."""
    key = "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308"
    text = (
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
        "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"
    )
    context = "feedfacedeadbeeffeedfacedeadbeefabaddad2"
    found = AESGCM(bytes.fromhex(key)).encrypt(
        bytes.fromhex("cafebabefacedbaddecaf888"), bytes.fromhex(text), bytes.fromhex(context)
    )
    assert found.hex().endswith("76fc6ece0f4e1768cddf8853bb2d551b")


def test_a_sealed_event_gives_the_same_bytes_for_ever():
    """The format is fixed: with the same salt the same event is the same bytes."""
    found = Sealer(KEY, 7, salt=SALT).seal(9, BODY, b"prevprev")
    assert found[HEAD] == struct.pack(">BHQ", 1, 3, 7) + SALT
    assert found[COUNT] == bytes(4)
    assert found[BEFORE] == b"prevprev"
    assert found[39:].hex() == (
        "794000f9184292aabc35920ef042897ef88a6b7b2fc4b94998f81acde3eac16a56c429ba09194303792c15a3"
        "9f1092fc012e14a59a30efd2f43f61870632ee74d3b9300d8587"
    )
    assert found[39:] == _by_the_book(9, BODY, b"prevprev")


def _by_the_book(seq: int, body: bytes, before: bytes) -> bytes:
    """The same, written down from docs/internals/sealing.md with another library's derivation."""
    purpose = b"holdfast event 1\0"
    subkey = HKDF(SHA256(), length=32, salt=SALT, info=purpose).derive(KEY.secret)
    head = b"\x01\x00\x03" + (7).to_bytes(8, "big") + SALT
    context = purpose + KEY.id + (2).to_bytes(4, "big") + head + bytes(4) + before
    return AESGCM(subkey).encrypt(bytes(12), body, context + seq.to_bytes(8, "big"))


def test_a_sealed_document_follows_the_book():
    """What stands in the documentation opens it."""
    data = seal_document(KEY, "memory.json", b"text")
    purpose = b"holdfast document 1\0"
    subkey = HKDF(SHA256(), length=32, salt=data[10:26], info=purpose).derive(KEY.secret)
    context = purpose + KEY.id + (2).to_bytes(4, "big") + data[:26] + b"memory.json"
    assert data[:7] == b"HFSEAL\0"
    assert AESGCM(subkey).decrypt(bytes(12), data[26:], context) == b"text"
    assert document_key(data) == 3


# -- nonces ------------------------------------------------------------------------------------


def crash_and_reopen(crashes: int, seals: int) -> int:
    """Seal as processes do that forget everything at each crash; how many (key, nonce) there were.

    Nothing but the data key survives a crash: not the epoch, not the seq, not the count.
    """
    key, chance, used = new_data_key(1), random.Random(7), set()
    for _ in range(crashes):
        sealer = Sealer(key, epoch=1)
        for _ in range(chance.randrange(1, 2 * seals // crashes)):
            used.add(sealer.seal(5, b"", BEFORE_ALL)[11:31])
    return len(used)


def test_no_nonce_comes_twice_across_crashes():
    """The same seq sealed again and again, after crashes that forgot all: never the same nonce."""
    chance = random.Random(7)
    wanted = sum(chance.randrange(1, 2 * 5_000 // 1000) for _ in range(1000))
    assert crash_and_reopen(1000, 5_000) == wanted


@pytest.mark.slow
def test_a_million_seals_without_a_repeated_nonce():
    """A million seals across a thousand crashes and reopens."""
    chance = random.Random(7)
    wanted = sum(chance.randrange(1, 2 * 1_050_000 // 1000) for _ in range(1000))
    assert wanted >= 1_000_000
    assert crash_and_reopen(1000, 1_050_000) == wanted


def test_a_seal_that_was_not_written_uses_up_its_nonce():
    """A write that failed is sealed again under another nonce, also with the same text."""
    sealer = Sealer(KEY, 1)
    first, second = sealer.seal(4, BODY, BEFORE_ALL), sealer.seal(4, BODY, BEFORE_ALL)
    assert first[COUNT] != second[COUNT]
    assert first[39:] != second[39:]


def test_a_new_key_is_drawn_before_the_count_ends(monkeypatch):
    """After 2^32 seals of one opening its key is used no more."""
    monkeypatch.setattr("holdfast.security._seal._COUNT_MAX", 3)
    sealer = Sealer(KEY, 1)
    log = [sealer.seal(0, BODY, BEFORE_ALL) for _ in range(8)]
    assert len({one[11:31] for one in log}) == 8
    assert len({one[HEAD] for one in log}) == 3
    assert {Opener([KEY])(0, one, None) for one in log} == {BODY}


def test_a_renewed_sealer_has_another_key():
    """Every recorded opening has a salt of its own."""
    sealer = Sealer(KEY, 1)
    before = sealer.salt
    assert sealer.renew() == sealer.salt != before


# -- tampering ---------------------------------------------------------------------------------


def test_what_was_sealed_opens():
    """And in order, each with its own text."""
    assert opened(sealed_log(5)) == [b"text %d" % seq for seq in range(5)]


@pytest.mark.parametrize("at", range(39 + 6 + 16))
def test_every_byte_counts(at):
    """Whichever byte of a sealed event is changed: version, key, epoch, salt, count, text, tag."""
    log = sealed_log(2)
    spoiled = bytearray(log[1])
    spoiled[at] ^= 0x01
    with pytest.raises((Tampered, KeyMissing, TooNew)):
        opened([log[0], bytes(spoiled)])


def test_every_associated_field_counts():
    """Another seq, log, generation, epoch, count or line before: Tampered."""
    log = sealed_log(3)
    other_log = replace(KEY, id=bytes(16))
    generation = replace(KEY, generation=3)
    epoch = Sealer(KEY, 8, salt=log[0][11:27]).seal(1, b"text 1", tag_end(log[0]))
    with pytest.raises(Tampered):
        Opener([KEY])(2, log[1], None)
    for key in (other_log, generation):
        with pytest.raises(Tampered):
            opened(log, key)
    with pytest.raises(Tampered):
        opened([log[0], log[1][:3] + epoch[3:11] + log[1][11:]])
    with pytest.raises(Tampered):
        opened([log[0], log[1][:27] + log[2][COUNT] + log[1][31:]])
    with pytest.raises(Tampered):
        Opener([KEY])(1, log[1], BEFORE_ALL)


@pytest.mark.parametrize(
    "change",
    [
        lambda log: [log[0], log[2], log[1], log[3]],
        lambda log: [log[0], log[1], log[1], log[2]],
        lambda log: [log[0], log[2], log[3]],
        lambda log: log[1:],
        lambda log: [log[0], log[1][:-1], *log[2:]],
        lambda log: [log[0], b"", *log[2:]],
    ],
    ids=["swapped", "replayed", "left out", "cut at the beginning", "shortened", "empty"],
)
def test_lines_that_do_not_follow_are_noticed(change):
    """Lines swapped, said twice, left out or cut: Tampered."""
    with pytest.raises(Tampered):
        opened(change(sealed_log(4)))


def test_an_older_form_of_a_line_is_noticed():
    """A line that a crash lost, put in the place of the one that was written instead."""
    log = sealed_log(2)
    before = tag_end(log[0])
    lost = Sealer(KEY, 7).seal(1, b"lost by a crash", before)
    kept = Sealer(KEY, 8)
    written = kept.seal(1, b"text 1", before)
    after = kept.seal(2, b"text 2", tag_end(written))
    assert opened([log[0], written, after])[1:] == [b"text 1", b"text 2"]
    with pytest.raises(Tampered) as caught:
        opened([log[0], lost, after])
    assert caught.value.seq == 2


def test_a_key_opens_only_its_part_of_a_log():
    """The key of a fork's parent opens nothing that was written after the fork."""
    parent = replace(KEY, stop=2)
    log = sealed_log(4)
    assert Opener([parent])(1, log[1], None) == b"text 1"
    with pytest.raises(Tampered):
        Opener([parent])(2, log[2], None)
    with pytest.raises(Tampered):
        Opener([parent]).open_all(0, log, BEFORE_ALL)


def test_a_key_that_is_not_there_is_named():
    """KeyMissing and not Tampered: nothing is wrong with the bytes."""
    with pytest.raises(KeyMissing):
        Opener([replace(KEY, number=9)])(0, sealed_log(1)[0], BEFORE_ALL)


def test_a_hostile_log_does_not_fill_the_memory(monkeypatch):
    """Of openings without number only so many ciphers are kept."""
    monkeypatch.setattr("holdfast.security._seal._OPENINGS_MAX", 4)
    opener = Opener([KEY])
    for _ in range(20):
        opener(0, Sealer(KEY, 1).seal(0, BODY, BEFORE_ALL), BEFORE_ALL)
        assert len(opener._openings) <= 4


# -- documents ---------------------------------------------------------------------------------


def test_a_document_opens_under_its_name_only():
    """Another name, another log, another byte: Tampered; never sealed: Tampered."""
    data = seal_document(KEY, "memory.json", b"remember")
    assert is_sealed_document(data)
    assert open_document([KEY], "memory.json", data) == b"remember"
    bad = [("permissions.json", data), ("memory.json", data[:-1]), ("memory.json", b"{}")]
    for name, text in bad:
        with pytest.raises(Tampered):
            open_document([KEY], name, text)
    with pytest.raises(Tampered):
        open_document([replace(KEY, id=bytes(16))], "memory.json", data)
    with pytest.raises(KeyMissing):
        open_document([new_data_key(8)], "memory.json", data)
    with pytest.raises(TooNew):
        open_document([KEY], "memory.json", data[:7] + b"\x02" + data[8:])


def test_a_document_is_never_sealed_twice_the_same():
    """Each time under a key that is used for this once."""
    assert seal_document(KEY, "a", b"x") != seal_document(KEY, "a", b"x")


def test_secrets_are_not_shown():
    """A key in a log of errors shows its number, not its bytes."""
    assert KEY.secret.hex() not in repr(KEY)
    assert repr(KEY).count("number=3") == 1
