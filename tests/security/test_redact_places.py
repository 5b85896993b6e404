"""Where redaction looks: names, numbers, keys, the trash, coded text; and that it keeps its time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import SecretFound
from holdfast.security import NOTHING_STREAMED, Redactor, Scanner, feed, finish

TOKEN = "ghp_" + "aB3dE6gH9j" * 3 + "K1m2N3"
GIVEN = ["Quartz42lampPlain", 'p"ss\\wörd\n1xyz', "two words", "ünïcode-pass", "short1"]
REDACTING = {"redaction": {"mode": "mark", "environment": False}}


def files_with(root: Path, text: str) -> list[str]:
    return [str(path) for path in root.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def found_in(hf, id: str, given: str) -> list[str]:
    events = [(e.type, e.run, e.key, json.dumps(e.data, ensure_ascii=False)) for e in hf.events(id)]
    written = json.dumps(given, ensure_ascii=False)[1:-1]
    return [type for type, run, key, data in events if given in f"{type} {run} {key}" or written in data]


@pytest.mark.parametrize("given", GIVEN)
def test_what_is_to_be_found_is_found_as_the_name_of_a_member(hf, given):
    """``redact(find=…)`` replaces a secret that is the name of a member, whatever its length and signs."""
    with hf.session("a") as s:
        s.append("tool_call", {"id": "1", "tool": "T", "params": {given: 1, "other": {given: {"deep": given}}}})
    report = hf.redact("a", find=[given])
    assert report.sessions["sessions/a"] == 1
    assert report.found["given"] == 3
    assert not found_in(hf, "a", given)


@pytest.mark.parametrize(("secret", "number"), [("12345678", 12345678), ("1234.5678", 1234.5678), ("-4711", -4711)])
def test_what_is_to_be_found_is_found_as_a_number(hf, secret, number):
    """A PIN that was stored as a number is replaced; numbers that only contain it are left."""
    longer = number * 10 + 1
    with hf.session("a") as s:
        s.append("metadata", {"pin": number, "near": longer, "list": [number]})
    hf.redact("a", find=[secret])
    (event,) = [event for event in hf.events("a") if event.type == "metadata"]
    assert event.data["near"] == longer
    assert event.data["pin"].startswith("[secret:given:")
    assert event.data["list"] == [event.data["pin"]]


def test_what_is_to_be_found_is_found_in_key_run_and_type(hf):
    """Names that tie events together get the same mark everywhere, so that they still tie."""
    secret = "Quartz42lampPlain"
    with hf.session("a") as s:
        s.append("metadata", {"n": 1}, key=f"order-{secret}", run=secret)
        s.append(f"own.{secret}", {"n": 2}, run=secret)
        s.delta("words", run=secret)
    report = hf.redact("a", find=[secret])
    assert report.sessions["sessions/a"] == 3
    assert not found_in(hf, "a", secret)
    first, second, third = [event for event in hf.events("a") if event.run]
    assert first.run == second.run == third.run
    assert second.type.startswith("own.secret:given:")
    assert hf.verify("a").ok


def test_signatures_that_hold_it_are_left_and_counted(hf):
    """A provider refuses a changed signature: it stays, and the report says how many did."""
    with hf.session("a") as s:
        s.append("frame", {"direction": "agent", "frame": {"signature": "xx short1 yy", "text": "short1"}})
    report = hf.redact("a", find=["short1"])
    assert report.spared == 1
    (event,) = [event for event in hf.events("a") if event.type == "frame"]
    assert event.data["frame"]["signature"] == "xx short1 yy"
    assert "short1" not in event.data["frame"]["text"]


def test_members_whose_names_get_the_same_mark_are_both_kept():
    """No member is lost where two names become one: the second one is numbered."""
    redactor = Redactor(b"k" * 32, scanner=Scanner(values={"alpha1": "given"}))
    redactor.fingerprint = lambda secret, chars=4: "0" * chars  # as if two fingerprints were the same
    found = redactor.data("metadata", {"alpha1": 1, TOKEN: 2, TOKEN.lower(): 3})
    assert sorted(found.data.values()) == [1, 2, 3]


def test_a_session_in_the_trash_is_redacted_with_its_title(tmp_path):
    """``redact`` of an id that is in the trash reaches its log and the title beside it."""
    hf = holdfast.open(tmp_path)
    with hf.session("a") as s:
        s.user(f"use {TOKEN}")
    hf.delete("a")
    assert files_with(tmp_path, TOKEN)
    assert hf.redact("a").found == {"github_pat": 1}
    hf.close()
    assert not files_with(tmp_path, TOKEN)


def test_sealing_everything_leaves_no_title_in_the_trash(tmp_path):
    """``encrypt`` of the whole store takes the titles of deleted sessions out of their notes."""
    store = tmp_path / "store"
    hf = holdfast.open(store)
    with hf.session("diary") as s:
        s.user("NEEDLE my private words")
    hf.delete("diary")
    assert hf.trash.list()[0].title == "NEEDLE my private words"
    hf.close()
    hf = holdfast.open(store, key=b"k" * 32)
    hf.keys.encrypt()
    assert hf.trash.list()[0].title is None
    hf.undelete("diary")
    assert hf.recover("diary").messages[0]["content"] == "NEEDLE my private words"
    hf.close()
    assert not files_with(store, "NEEDLE")


# -- while recording -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "coded",
    [
        TOKEN.replace("_", "%5F"),
        TOKEN.replace("_", "%255f"),
        "".join(f"%{ord(sign):02X}" for sign in TOKEN),
        TOKEN.replace("_", "&#95;"),
        TOKEN.replace("_", "&#x5F;"),
        TOKEN.replace("_", "&amp;#95;"),
        TOKEN.replace("_", "&lowbar;"),
        "".join(f"&#{ord(sign)};" for sign in TOKEN),
    ],
)
def test_coded_signs_hide_no_secret(coded):
    """A token is found where an address or a page has coded its signs, and replaced with their codes."""
    redactor = Redactor(b"k" * 32)
    said = redactor.text(f"before {coded} after")
    assert said.startswith("before [secret:github_pat:")
    assert said.endswith("] after")
    assert len(said) < 50


@pytest.mark.parametrize(
    "plain", ["100% of 50%2 &amp; more", "a%20b%2Fc?d=e%26f", "&lt;b&gt;bold&lt;/b&gt; &copy; 2026"]
)
def test_coded_text_without_secrets_stays_as_it_is(plain):
    """Text of addresses and pages is not changed by being looked at."""
    assert Redactor(b"k" * 32).text(plain) == plain


def test_a_key_that_is_a_secret_is_recorded_as_a_mark_and_still_counts_once(tmp_path):
    """An event whose key holds a token is recorded once, whichever way it comes again, without the token."""
    hf = holdfast.open(tmp_path, config=REDACTING)
    with hf.session("a") as s:
        first = s.append("metadata", {"n": 1}, key=f"order-{TOKEN}")
        again = s.append("metadata", {"n": 1}, key=f"order-{TOKEN}")
        assert first.seq == again.seq
    with hf.session("a") as s:
        assert s.append("metadata", {"n": 1}, key=f"order-{TOKEN}").seq == first.seq
    hf.close()
    assert not files_with(tmp_path, TOKEN)


@pytest.mark.parametrize("mode", ["mark", "block"])
def test_names_that_are_secrets_are_refused(tmp_path, mode):
    """No mark can stand for an id, a run or a type that callers go on asking by: SecretFound, nothing written."""
    hf = holdfast.open(tmp_path, config={"redaction": {"mode": mode, "environment": False}})
    with pytest.raises(SecretFound, match="id of a session"):
        hf.session(TOKEN)
    with pytest.raises(SecretFound, match="id of an agent"):
        hf.session("fine", agent_id=TOKEN)
    with hf.session("a") as s:
        with pytest.raises(SecretFound, match="run of an event"):
            s.append("metadata", {"n": 1}, run=TOKEN)
        with pytest.raises(SecretFound, match="type of an event"):
            s.append(TOKEN, {"n": 1})
    hf.close()
    assert not files_with(tmp_path, TOKEN)


def test_a_session_whose_id_was_taken_before_opens_with_redaction(tmp_path):
    """Whoever switches redaction on can still open a session whose id would be refused now."""
    hf = holdfast.open(tmp_path)
    with hf.session(TOKEN) as s:
        s.user("hi")
    hf.close()
    hf = holdfast.open(tmp_path, config=REDACTING)
    with hf.session(TOKEN) as s:
        assert s.messages()[0]["content"] == "hi"
    hf.close()


# -- in time ---------------------------------------------------------------------------------------


class Ticks:
    """A clock that goes on by one second with each look at it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def test_what_there_is_no_time_for_is_masked_whole():
    """Over budget nothing is recorded unlooked at: the rest is a mark, ids stay, and the event says how much."""
    redactor = Redactor(b"k" * 32, scanner=Scanner(clock=Ticks()))
    text = f"password=first {TOKEN} " * 20
    found = redactor.data("tool_result", {"id": "call_1", "result": text, "more": [text, {"deep": text}]})
    assert TOKEN not in str(found.data)
    assert "[secret:unscanned:" in found.data["result"]
    assert found.data["id"] == "call_1"
    assert found.data["unscanned"] == found.unscanned > 0


def test_block_refuses_what_there_is_no_time_for():
    """With the mode "block" a text that cannot be looked at in time is refused."""
    redactor = Redactor(b"k" * 32, mode="block", scanner=Scanner(clock=Ticks()))
    with pytest.raises(SecretFound):
        redactor.data("user", {"content": "password is nothing " * 20})


@pytest.mark.parametrize(
    ("first", "piece"),
    [
        ("", "a"),
        ("", "7"),
        ("", "password="),
        ("", "-----BEGIN PRIVATE KEY-----"),
        ("", "QUJD"),
        ("-----BEGIN A-----", "- "),
        ("-----BEGIN A-----", "-\n"),
    ],
)
def test_a_stream_is_looked_at_about_as_often_as_it_is_long(first, piece):
    """A word or a private key that comes letter by letter is not looked at anew with each letter."""
    looked_at = 0
    scanner = Scanner()
    find = scanner.find

    def counting(text, **options):
        nonlocal looked_at
        looked_at += len(text)
        return find(text, **options)

    scanner.find = counting
    redactor, pieces = Redactor(b"k" * 32, scanner=scanner), 16_000 // len(piece)
    state, _, _ = feed(redactor, NOTHING_STREAMED, first)
    for _ in range(pieces):
        state, _, _ = feed(redactor, state, piece)
    assert looked_at < 20 * 16_000


@pytest.mark.parametrize("size", range(1, 8))
def test_a_token_that_comes_in_pieces_is_found_between_long_words(size):
    """Waiting longer before the next look loses no secret: it is found when its word ends, or the stream."""
    redactor = Redactor(b"k" * 32)
    text = f"see {'x' * 300} {TOKEN} and {TOKEN}"
    state, said = NOTHING_STREAMED, ""
    for at in range(0, len(text), size):
        state, piece, _ = feed(redactor, state, text[at : at + size])
        said += piece
    said += finish(redactor, state)[0]
    assert TOKEN not in said
    assert said.count("[secret:github_pat:") == 2
    assert said.startswith(f"see {'x' * 300} ")


def test_a_title_in_the_trash_that_was_cut_within_a_secret_is_made_anew(hf):
    """The note of a deleted session has the first words only: what is left of a secret there has no form of its own."""
    secret = "sk-ant-api03-" + "aB3dE6gH9j" * 9 + "K1m-xAAAAA"
    with hf.session("a") as s:
        s.user(f"please use {secret}")
    hf.delete("a")
    [before] = hf.trash.list()
    assert secret[:20] in before.title
    assert secret not in before.title
    hf.redact("a")
    [after] = hf.trash.list()
    assert after.title.startswith("please use [secret:")
    assert not files_with(Path(hf.store.path), secret[:20])


def test_what_sessions_share_is_looked_through(hf):
    """An event from elsewhere that nobody waited for is of no session, and may repeat what one of them said."""
    with hf.session("a") as s:
        s.user(TOKEN)
    hf.inbox.signal("payment", {"token": TOKEN})
    hf.redact("a")
    assert not files_with(Path(hf.store.path), TOKEN)
    with hf.session("b") as s:
        s.append("suspended", {"id": "0" * 12, "kind": "event", "event": "payment", "call": "c"})
        hf.inbox.take_signals("b", s.live_state.asks)
    assert "[secret:" in str(hf.store.documents("sessions/b").get("answers/" + "0" * 12)[0])


def test_a_shared_document_that_cannot_be_read_is_told(tmp_path):
    """Redaction goes on with another key than that of what sessions share, and says what it could not look at."""
    with holdfast.open(tmp_path, key=b"k" * 32, seal=True) as hf:
        hf.inbox.signal("payment", "words")
    with holdfast.open(tmp_path, key=b"o" * 32) as hf:
        with hf.session("a") as s:
            s.user(TOKEN)
        report = hf.redact("a")
        assert [one.partition("/signal-")[0] for one in report.unreached] == ["shared/signals"]
        assert TOKEN not in str([event.data for event in hf.events("a")])
