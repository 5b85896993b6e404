"""Sealed lines: opened by a hook, checked without it, never passed over."""

from __future__ import annotations

from zlib import crc32

import pytest

from holdfast.errors import Damaged, KeyMissing, Tampered
from holdfast.model import Event, encode_line, encode_sealed_line, line_body, read_line

PLAIN = b'{"type":"user","timestamp":5,"data":{"content":"%b"}}\n'


def plain(*texts: str) -> bytes:
    return b"".join(PLAIN % text.encode() for text in texts)


def body(event: Event, *, more: bool = False) -> bytes:
    return line_body(Event(event.type, -1, event.timestamp, event.raw, more=more))


def seal(seq: int, text: bytes, before: bytes | None = None) -> bytes:
    return bytes(byte ^ 0x5A for byte in text)


def sealed_log(*more: bool) -> list[bytes]:
    crc, lines = 0, []
    for seq, waits in enumerate(more):
        text = body(Event.make("user", {"content": f"s{seq}"}), more=waits)
        line, crc = encode_sealed_line(seq, seal(seq, text), crc)
        lines.append(line)
    return lines


def test_sealed_lines_are_opened_with_their_number(read_log):
    """The hook gets seq and ciphertext and returns what a plain line would hold."""
    log = b"".join(sealed_log(False, True, False))
    assert b"s0" not in log
    assert read_log(log, unseal=seal).texts == ["s0", "s1", "s2"]
    seen = []
    read_log(log, unseal=lambda seq, text, _: seen.append(seq) or seal(seq, text))
    assert seen == [0, 1, 2]


def test_a_sealed_log_without_its_key_is_refused(read_log):
    """KeyMissing names the line, however the log is read."""
    lines = sealed_log(False, False)
    for log in (b"".join(lines), lines[0] + bytes(9) + lines[1]):
        with pytest.raises(KeyMissing) as caught:
            read_log(log)
        assert caught.value.seq == 0


def test_damage_in_a_sealed_log_costs_what_it_hit(read_log):
    """The checksum covers the ciphertext."""
    lines = sealed_log(False, False, False)
    lines[1] = lines[1].replace(b'"sealed":"', b'"sealed":"x')
    assert read_log(b"".join(lines), unseal=seal).texts == ["s0", "s2"]


def test_an_open_batch_of_sealed_lines_is_dropped(read_log):
    """That a line waits is known only after it was opened, also in a damaged log."""
    for spoil in (b"", bytes(5)):
        lines = sealed_log(False, True, True)
        found = read_log(lines[0] + spoil + lines[1] + lines[2], unseal=seal)
        assert found.texts == ["s0"]
        assert found.torn == len(spoil + lines[1] + lines[2])


def test_what_the_opener_raises_comes_through(read_log):
    """Tampering is not damage: it is not passed over."""

    def refuse(seq: int, text: bytes, before: bytes | None) -> bytes:
        raise Tampered(seq=seq)

    with pytest.raises(Tampered):
        read_log(b"".join(sealed_log(False)), unseal=refuse)


def test_sealed_bytes_that_hold_no_event_are_damage(read_log):
    """A wrong opener gives a typed error and not a crash."""
    with pytest.raises(Damaged) as caught:
        read_log(b"".join(sealed_log(False)), unseal=lambda seq, text, _: b"rubbish")
    assert caught.value.seq == 0


def test_the_number_inside_a_sealed_line_does_not_count(read_log):
    """Only the number that is authenticated with the line is its number."""
    line, _ = encode_sealed_line(0, b'"seq":7,"type":"user","data":{}', 0)
    assert read_log(line, unseal=lambda seq, text, _: text).seqs == [0]


def test_sealed_text_that_is_not_base64_is_no_line(read_log):
    """It is a gap, like any other line that cannot be read."""
    line, crc = encode_line(0, b'"sealed":"***"', 0)
    good, _ = encode_line(1, b'"type":"user","timestamp":1,"data":{"content":"b"}', crc)
    assert read_log(line + good, unseal=seal).texts == ["b"]


def test_lines_of_ours_and_sealed_ones_may_follow_each_other(chain, read_log):
    """A log may be sealed from some line on; lines that are no events do not hide among them."""
    head = plain("p") + chain("a", first=1, crc=crc32(plain("p")))[0]
    text = seal(2, body(Event.make("user", {"content": "s"})))
    line, crc = encode_sealed_line(2, text, crc32(head))
    log = head + line
    assert read_log(log, unseal=seal).texts == ["p", "a", "s"]
    bad, _ = encode_line(3, b'"timestamp":1', crc)
    assert read_log(log + bad, unseal=seal).texts == ["p", "a", "s"]


def test_one_line_by_itself(read_log):
    """Opened if it can be; None if it is no line, or stays sealed."""
    plain_line, _ = encode_line(0, b'"type":"user","timestamp":1,"data":{}', 0)
    sealed_line, _ = encode_sealed_line(3, seal(3, b'"type":"user","data":{}'), 0)
    assert read_line(plain_line).type == "user"
    assert read_line(sealed_line, seal).seq == 3
    assert read_line(sealed_line) is read_line(b"rubbish") is None


def test_a_plain_line_where_all_must_be_sealed_is_tampered(read_log):
    """From the first event on that the opener says, in a whole log and in a damaged one."""

    class Strict:
        sealed_from = 1

        def __call__(self, seq, text, before):
            return seal(seq, text)

    lines = sealed_log(False, False, False)
    head, crc = encode_line(0, b'"type":"user","timestamp":1,"data":{"content":"p"}', 0)
    rest = b""
    for seq in (1, 2):
        text = body(Event.make("user", {"content": f"s{seq}"}))
        line, crc = encode_sealed_line(seq, seal(seq, text), crc)
        rest += line
    assert read_log(head + rest, unseal=Strict()).texts == ["p", "s1", "s2"]
    bad, _ = encode_line(3, b'"type":"user","timestamp":1,"data":{"content":"x"}', crc)
    for log in (head + rest + bad, b"\0\0" + head + rest + bad):
        with pytest.raises(Tampered):
            read_log(log, unseal=Strict())
    assert len(lines) == 3


def test_a_plain_line_after_a_sealed_one_is_tampered(read_log):
    """Also where the opener asks for nothing, and when it gives itself the end of a sealed one."""
    given = []

    def lenient(seq, text, before):
        given.append(before)
        return seal(seq, text)

    lines = sealed_log(False, False)
    log = b"".join(lines)
    bad, _ = encode_line(2, b'"type":"user","timestamp":1,"data":{"content":"x"}', crc32(log))
    with pytest.raises(Tampered):
        read_log(log + bad, unseal=lenient)
    masked, crc = encode_line(0, b'"type":"user","timestamp":1,"sealed":"AAAAAAAAAAAA"', 0)
    line, _ = encode_sealed_line(1, seal(1, body(Event.make("user", {"content": "s"}))), crc)
    given.clear()
    assert len(read_log(masked + line, unseal=lenient).texts) == 2
    assert set(given) == {bytes(8)}


def test_an_opener_may_open_many_at_once(read_log):
    """And gets the end of the line before, zeros at the beginning."""
    seen = []

    class Many:
        def __call__(self, seq, text, before):
            return seal(seq, text)

        def open_all(self, first, texts, before):
            seen.append((first, len(texts), before))
            return [seal(0, text) for text in texts], texts[-1][-8:]

    log = b"".join(sealed_log(False, False, False))
    assert read_log(log, unseal=Many()).texts == ["s0", "s1", "s2"]
    assert seen[0][2] == bytes(8)
    assert sum(count for _, count, _ in seen) >= 3
