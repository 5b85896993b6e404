"""Redaction where sessions record: nothing of a secret is on disk, and the running talk has it."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.catalog import Catalog
from holdfast.errors import Damaged, Forbidden, Locked, SecretFound, StoreFull, TooLarge, UsageError
from holdfast.library import Holdfast
from holdfast.model import Event, Notice
from holdfast.storage import zstd_module

TOKEN = "gh" + "p_" + "aB3dE5gH" * 4 + "abcd"
PASSWORD = "Quartz42#lamp9"
LONG = "long line of output, nothing in it\n" * 12_000
MARK = {"redaction": {"mode": "mark"}}

pytestmark = pytest.mark.stores(config=MARK)


def _bytes_of(root: Path) -> bytes:
    """Everything in every file of a store, with archives unpacked."""
    found = []
    for place in sorted(root.rglob("*")):
        found.append(str(place).encode())
        if place.is_file():
            data = place.read_bytes()
            found.append(data)
            if data.startswith(b"\x28\xb5\x2f\xfd"):
                found.append(zstd_module().decompress(data))
    return b"\n".join(found)


def _assert_gone(root: Path, *secrets: str) -> None:
    data = _bytes_of(root).lower()
    for secret in secrets:
        for piece in (secret, secret[4:20]):
            assert piece.lower().encode() not in data


def _say_everything(session) -> None:
    session.user(f"use {TOKEN} please")
    session.system([{"type": "text", "text": f"password: {PASSWORD}"}])
    session.thinking(f"the token is {TOKEN}", signature="c2lnbmF0dXJl" * 4)
    call = session.tool_call("bash", {"command": f"curl -u me:{PASSWORD} x", "env": {"K": TOKEN}})
    session.tool_result(call, {"stdout": f"GITHUB_TOKEN={TOKEN}\n" * 20, "password": PASSWORD})
    session.tool_result(call, LONG + TOKEN)
    first = session.delta("it is " + TOKEN[:2]).seq
    for piece in (TOKEN[2:9], TOKEN[9:30], TOKEN[30:], " ok"):
        session.delta(piece)
    session.assistant(f"it is {TOKEN} ok", covers_from=first)
    session.extend([("user", {"role": "user", "content": TOKEN}), ("note", {"a": [TOKEN]})])
    session.append("note", {TOKEN: 1})
    session.title = f"about {TOKEN}"
    session.tag(f"{TOKEN}")
    session.variables["key"] = {"value": TOKEN}
    session.memory.set("key", TOKEN, description=f"password: {PASSWORD}")
    session.memory.set("kept", f"password: {PASSWORD}", scope="persistent")
    session.append("todo_update", {"todos": [{"content": f"rotate {TOKEN}", "status": "pending"}]})


@pytest.mark.req("S0-70", "S4-57", "B-28")
def test_nothing_of_a_secret_is_in_the_store(store_root, hf):
    """Secrets given in every way that a session can be told are in no file of the store."""
    with hf.session("a", title=f"on {TOKEN}", agent_id="helper") as session:
        _say_everything(session)
        session.snapshot()
    fork = hf.fork("a", title=f"again {TOKEN}")
    hf.merge("a", fork, title=f"both {TOKEN}")
    hf.list()
    hf.search("token")
    hf.archive(fork)
    _assert_gone(store_root, TOKEN, PASSWORD)
    assert b"[secret:github_pat:" in _bytes_of(store_root)
    assert hf.verify("a").ok


def test_the_running_conversation_keeps_the_words(hf):
    """While a session is open its conversation has what was said; opened again it has the marks."""
    with hf.session("a") as session:
        session.user(f"use {TOKEN}")
        assert TOKEN in session.messages()[0]["content"]
        session.variables["key"] = [TOKEN]
        assert session.variables["key"] == [TOKEN]
        session.delta("it ")
        session.delta(f"is {TOKEN}")
        session.assistant(f"it is {TOKEN}", covers_from=session.seq - 1)
        assert [TOKEN in one["content"] for one in session.messages()] == [True, True]
        assert TOKEN not in str(session.history)
        assert TOKEN not in str(session.state.variables)
    with hf.session("a") as session:
        assert TOKEN not in str(session.messages())
        assert "[secret:github_pat:" in session.messages()[0]["content"]
        assert TOKEN not in str(session.variables["key"])


def test_the_model_gets_the_marks_if_asked(store_root):
    """With redaction.model the running conversation has the marks as well."""
    config = {"redaction": {"mode": "mark", "model": True}}
    with holdfast.open(store_root, config=config) as hf, hf.session("a") as session:
        session.user(f"use {TOKEN}")
        assert "[secret:github_pat:" in session.messages()[0]["content"]


def test_a_signature_is_never_touched(hf):
    """What a provider signed stays as it is: a session could not go on without it."""
    signature = f"{TOKEN}=="
    with hf.session("a") as session:
        session.thinking("so", signature=signature)
        assert list(session.events())[-1].data["signature"] == signature


def test_block_refuses_before_anything_is_written(store_root):
    """With "block" a secret is refused and the store stays as it was, down to the last byte."""
    config = {"redaction": {"mode": "block"}}
    with holdfast.open(store_root, config=config) as hf:
        with pytest.raises(SecretFound) as caught:
            hf.session("a", title=f"on {TOKEN}")
        assert caught.value.rules == ["github_pat"]
        session = hf.session("a")
        with pytest.raises(SecretFound):
            session.user(f"use {TOKEN}")
        assert [place for place in store_root.rglob("*") if place.is_file()] == []
        session.user("hello")
        before = _bytes_of(store_root / "sessions")
        with pytest.raises(SecretFound):
            session.extend([("user", {"content": "fine"}), ("user", {"content": TOKEN})])
        session.delta("it is ")
        with pytest.raises(SecretFound):
            session.delta(f"{TOKEN} and so on")
        assert _bytes_of(store_root / "sessions").startswith(before[:200])
        _assert_gone(store_root, TOKEN)
        session.close()
        assert not (store_root / "shared").exists()


def test_off_is_the_default_of_the_library(store_root):
    """The library records everything as it is, unless it is told otherwise."""
    with holdfast.open(store_root) as hf, hf.session("a") as session:
        assert hf.redaction == "off"
        assert not session.redacts
        session.user(f"use {TOKEN}")
    assert TOKEN.encode() in _bytes_of(store_root)


def test_apps_have_it_on_unless_a_setting_says_otherwise(store_root):
    """What an app says counts where no setting does."""
    with Holdfast(store_root, redaction="mark") as hf:
        assert hf.redaction == "mark"
        with hf.space("team").session("a") as session:
            assert session.redacts
    with Holdfast(store_root, config={"redaction": {"mode": "off"}}, redaction="mark") as hf:
        assert hf.redaction == "off"


def test_a_project_may_not_switch_it_off(tmp_path, monkeypatch):
    """A folder that was cloned cannot take the protection away, nor add rules."""
    (tmp_path / "holdfast.toml").write_text('[redaction]\nmode = "off"\n')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Forbidden):
        holdfast.open("memory:")


@pytest.mark.req("S0-71")
def test_values_of_the_environment(store_root, monkeypatch):
    """The value of a variable with a secret name is replaced wherever it stands."""
    monkeypatch.setenv("MY_SERVICE_TOKEN", "just plain words")
    monkeypatch.setenv("EDITOR_NAME", "just an editor")
    with holdfast.open(store_root, config=MARK) as hf, hf.session("a") as session:
        event = session.user("so just plain words and just an editor")
        assert event.data["content"].startswith("so [secret:environment:")
        assert event.data["content"].endswith(" and just an editor")
    config = {"redaction": {"mode": "mark", "environment": False}}
    with holdfast.open("memory:", config=config) as hf, hf.session("a") as session:
        assert session.user("just plain words").data["content"] == "just plain words"


def test_rules_from_the_settings(store_root):
    """Rules of the user count, and wrong ones are refused when the store is opened."""
    rules = [{"id": "badge", "regex": r"BDG-\d{6}"}]
    config = {"redaction": {"mode": "mark", "rules": rules}}
    with holdfast.open(store_root, config=config) as hf, hf.session("a") as session:
        assert session.user("it is BDG-123456").data["content"].startswith("it is [secret:badge:")
    with pytest.raises(UsageError):
        holdfast.open("memory:", config={"redaction": {"rules": [{"id": "x", "regex": "("}]}})


def test_what_was_held_back_is_recorded_at_the_end(hf):
    """A stream that nobody finished is in the log to its last word."""
    with hf.session("a") as session:
        session.user("go on")
        session.delta("the answer is v1.2", run="r")
        session.delta("hm x9", kind="thinking", run="r")
        assert [one.data["content"] for one in session.events() if one.type == "delta"] == [*("the answer is ", "hm ")]
    said = [event for event in hf.events("a") if event.type == "delta"]
    assert "".join(one.data["content"] for one in said if "kind" not in one.data) == ("the answer is v1.2")
    assert "".join(one.data["content"] for one in said if "kind" in one.data) == "hm x9"
    assert {one.run for one in said} == {"r"}


def test_numbers_of_streamed_events_stay_those_that_were_given(hf):
    """One event comes back for each that was given, whatever is recorded beside it."""
    with hf.session("a") as session:
        session.delta("so v1.2")
        events = session.extend([("user", {"content": "and?"}), ("note", {})])
        assert [event.type for event in events] == ["user", "note"]
        session.append("user", {"content": "x"}, key="k")
        assert session.append("user", {"content": "y"}, key="k").data["content"] == "x"


def test_frames_beside_words(hf):
    """A frame that is kept with a streamed piece has no more of it than the piece itself."""
    with hf.session("a") as session:
        session.user("hi")
        for piece in ("it is " + TOKEN[:12], TOKEN[12:], " then"):
            session.delta(piece, raw={"params": {"update": {"content": {"text": piece}}}})
        session.user("so")
        lines = [json.dumps(event.data) for event in session.events()]
    assert not any(TOKEN[4:12] in line or TOKEN[12:20] in line for line in lines)


def test_subscribers_are_told(hf):
    """Whoever listens gets the marks, and a notice with the rules."""
    heard = []
    hf.subscribe(lambda _, item: heard.append(item))
    with hf.session("a") as session:
        session.user(f"use {TOKEN}")
    assert not any(TOKEN in str(item.data) for item in heard if isinstance(item, Event))
    notices = [item for item in heard if isinstance(item, Notice)]
    assert [one.detail["rules"] for one in notices if one.kind == "secrets_redacted"] == [["github_pat"]]


def test_what_there_was_no_time_for_is_marked(store_root, monkeypatch):
    """An event of which a part was not looked at says so."""
    from holdfast.security.redaction import scanner

    monkeypatch.setattr(scanner, "_BUDGET_S", -1.0)
    with holdfast.open(store_root, config=MARK) as hf, hf.session("a") as session:
        assert session.user(f"use {TOKEN}").data["unscanned"] > 0
    config = {"redaction": {"mode": "block"}}
    with holdfast.open(store_root, config=config) as hf, hf.session("a") as session, pytest.raises(SecretFound):
        session.user(f"use {TOKEN}")


def test_a_refused_end_of_a_stream_does_not_stop_the_session_for_ever(store_root):
    """With "block" the last word of a stream that is a secret is marked: what follows can come."""
    config = {"redaction": {"mode": "block"}}
    with holdfast.open(store_root, config=config) as hf:
        with hf.session("a") as session:
            session.delta(f"it is {TOKEN}")
            session.append("turn_end", {})
            session.user("next")
            session.delta(f"and {TOKEN}")
        assert [event.type for event in hf.events("a")][-2:] == ["delta", "closed"]
        assert "[secret:github_pat" in next(hf.events("a", types=("delta",), reverse=True)).data["content"]
    _assert_gone(store_root, TOKEN)


def test_a_session_at_its_size_limit_closes_with_what_was_held_back(store_root):
    """Words that were accepted are recorded at the end, however full the session is."""
    limits = holdfast.Limits(session_bytes_max=3_000, message_bytes_max=1_000)
    with holdfast.open(store_root, config=MARK, limits=limits) as hf:
        with hf.session("a") as session:
            session.user("go")
            session.delta("token=sk_" + "w" * 9)
            while session.seq < 8:
                session.append("note", {"text": "y" * 300})
            with pytest.raises(TooLarge):
                session.append("note", {"text": "y" * 900})
            session.append("note", {"text": "y" * 280})
        events = list(hf.events("a"))
        said = "".join(event.data["content"] for event in events if event.type == "delta")
        assert said == "token=sk_" + "w" * 9
        assert events[-1].type == "closed"
        assert hf.verify("a").ok


def test_bundles_come_in_without_secrets(tmp_path, store_root):
    """A bundle of another store is redacted before its first byte is written, and only once."""
    with holdfast.open(tmp_path / "other") as other:
        with other.session("a") as session:
            session.user(f"use {TOKEN}")
            session.tool_result("c", LONG + TOKEN)
            session.snapshot()
        bundle = tmp_path / "a.bundle"
        bundle.write_bytes(other.export("a", format="bundle"))
    with holdfast.open(store_root, config=MARK) as hf:
        assert hf.import_(bundle) == ["a"]
        assert hf.import_(bundle) == ["a"]
        assert hf.verify("a").ok
        assert hf.list()[0].session_id == "a"
        assert len(hf.list()) == 1
        _assert_gone(store_root, TOKEN)


def test_other_tools_sessions_come_in_without_secrets(tmp_path, store_root):
    """What is imported goes through the same place as what is said."""
    place = tmp_path / "messages.json"
    place.write_text(json.dumps([{"role": "user", "content": f"use {TOKEN}"}]))
    with holdfast.open(store_root, config=MARK) as hf:
        hf.import_(place, format="messages")
        hf.search("use")
    _assert_gone(store_root, TOKEN)


# -- after the fact ----------------------------------------------------------------------------


@pytest.fixture
def leaked(store_root):
    """A store in which a secret was recorded: in a session, its forks, the trash, everywhere."""
    with holdfast.open(store_root) as hf:
        with hf.session("a", agent_id="helper") as session:
            _say_everything(session)
            session.snapshot()
        hf.fork("a", new_id="child")
        with hf.session("child") as session:
            session.user(f"child {TOKEN}")
        hf.fork("child", new_id="grandchild")
        hf.fork("a", new_id="gone")
        hf.delete("gone")
        quarantine = store_root / "sessions" / "a" / "quarantine"
        quarantine.mkdir(mode=0o700, exist_ok=True)
        (quarantine / "torn-1-00000000").write_text(f"old bytes {TOKEN}")
        with hf.session("other") as session:
            session.user("nothing here")
        hf.archive("grandchild")
        hf.search("token")
        yield hf


@pytest.mark.req("B-41")
def test_redact_reaches_everything(store_root, leaked):
    """After it no copy of the secret is in the bytes of the store."""
    assert TOKEN.encode() in _bytes_of(store_root)
    numbers = [event.seq for event in leaked.events("a")]
    report = leaked.redact("child")
    assert report.unreached == ()
    assert set(report.sessions) == {
        *("sessions/a", "sessions/child", "sessions/grandchild"),
        next(one.key for one in leaked.trash.list()),
    }
    assert report.found["github_pat"] > 20
    _assert_gone(store_root, TOKEN, PASSWORD)
    assert [event.seq for event in leaked.events("a")][:-1] == numbers
    last = list(leaked.events("a"))[-1]
    assert last.type == "redacted"
    assert last.data["generation"] == 1
    assert leaked.state("a").generation == 1
    for name in ("a", "child", "grandchild", "other"):
        assert leaked.verify(name).ok
    leaked.undelete("gone")
    assert "[secret:github_pat:" in str([event.data for event in leaked.events("gone")])
    with leaked.session("a") as session:
        assert "[secret:github_pat:" in str(session.messages())
        assert "[secret:" in str(session.memory.get("kept"))


def _calls_of(session, text):
    count = 0

    def counted(_frame, event, _arg):
        nonlocal count
        count += event == "call"

    sys.setprofile(counted)
    try:
        session.user(text)
    finally:
        sys.setprofile(None)
    return count


def test_plain_words_take_the_short_way(tmp_path):
    """Words in which no secret can be are recorded with at most eight calls more than without."""
    found = []
    for mode in ("off", "mark"):
        config = {"redaction": {"mode": mode}}
        with holdfast.open(tmp_path / mode, config=config) as hf, hf.session("a") as session:
            session.user("first")
            found.append(_calls_of(session, "what was said about 12 plans for Tuesday"))
    assert found[1] <= found[0] + 8


def test_redact_again_changes_nothing(store_root, leaked):
    """A second time there is nothing to do, and the logs stay as they are."""
    leaked.redact("a")
    before = (store_root / "sessions" / "a" / "events.jsonl").read_bytes()
    assert leaked.redact("a").found == {}
    assert (store_root / "sessions" / "a" / "events.jsonl").read_bytes() == before


@pytest.mark.parametrize("step", ["put", "delete", "overwrite", "forget"])
def test_redact_that_was_broken_off_is_done_by_the_next(store_root, leaked, monkeypatch, step):
    """Whatever fails half-way, every log stays whole, and the next time takes all of it."""
    from holdfast.storage.files.documents import FileDocuments
    from holdfast.storage.files.log import FileLog

    owner = {"overwrite": FileLog, "forget": Catalog}.get(step, FileDocuments)

    def fail(*_, **__):
        raise StoreFull("no space")

    with monkeypatch.context() as patch:
        patch.setattr(owner, step, fail)
        with contextlib.suppress(StoreFull):
            assert leaked.redact("a").unreached
    for name in ("a", "child", "grandchild"):
        assert leaked.verify(name).gaps == []
    assert leaked.redact("a").unreached == ()
    _assert_gone(store_root, TOKEN, PASSWORD)


def test_dry_run(store_root, leaked):
    """It counts, and changes no byte of a log."""
    before = (store_root / "sessions" / "a" / "events.jsonl").read_bytes()
    assert leaked.redact("a", dry_run=True).found["github_pat"] > 20
    assert (store_root / "sessions" / "a" / "events.jsonl").read_bytes() == before


def test_given_texts(store_root, leaked):
    """A text that no rule knows goes as well, and one that is too short is refused."""
    report = leaked.redact("a", find=["nothing in it"], relatives=False)
    assert list(report.sessions) == ["sessions/a"]
    assert report.found["given"] > 10_000
    with pytest.raises(UsageError):
        leaked.redact("a", find=["ab"])
    with pytest.raises(UsageError):
        leaked.redact("a", find="abcdef")


def test_redact_is_refused_before_anything_changes(store_root, leaked):
    """A relative that is open, under legal hold or damaged leaves everything as it was."""
    before = _bytes_of(store_root / "sessions" / "a")
    with leaked.session("child") as session:
        session.user("still here")
        with pytest.raises(Locked):
            leaked.redact("a")
    leaked.policies.hold("child", "a case")
    with pytest.raises(Forbidden):
        leaked.redact("a")
    leaked.policies.release("child")
    log = store_root / "sessions" / "other" / "events.jsonl"
    text = log.read_bytes().replace(b"nothing", b"n0thing")
    log.write_bytes(text)
    with pytest.raises(Damaged):
        leaked.redact("other")
    assert _bytes_of(store_root / "sessions" / "a").startswith(before[:300])
    assert TOKEN.encode() in _bytes_of(store_root / "sessions" / "a")


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_redact_on_other_stores(tmp_path, kind):
    """It works the same on every store, and nothing is left in a database's pages."""
    where = "memory:" if kind == "memory" else f"sqlite:{tmp_path}/store.db"
    with holdfast.open(where) as hf:
        with hf.session("a") as session:
            session.user(f"use {TOKEN}")
        hf.search("use")
        assert hf.redact("a").found == {"github_pat": 1}
        assert TOKEN not in str([event.data for event in hf.events("a")])
        assert hf.verify("a").ok
    _assert_gone(tmp_path, TOKEN)


def test_redact_a_sealed_session(store_root):
    """A sealed session stays sealed when it is redacted."""
    pytest.importorskip("cryptography", reason="sealing is an extra")
    with holdfast.open(store_root, seal=True, key=b"k" * 32) as hf:
        with hf.session("a") as session:
            session.user(f"use {TOKEN}")
        assert hf.redact("a").found == {"github_pat": 1}
        assert hf.keys.is_sealed("a")
        assert hf.verify("a").ok
        assert "[secret:github_pat:" in str([event.data for event in hf.events("a")])
    assert b"[secret:" not in _bytes_of(store_root)


def test_a_streamed_piece_that_is_a_payload_is_redacted_too(store_root):
    """A piece too long for the log is looked at as any other, and so is what goes on after it."""
    with holdfast.open(store_root, limits=holdfast.Limits(blob_bytes_min=500)) as hf:
        with hf.session("a") as session:
            session.append("delta", {"content": "word " * 200 + TOKEN[:9]})
            session.append("delta", {"content": TOKEN[9:] + " and so on"})
        assert list(store_root.rglob("blobs/*"))
        hf.redact("a")
        assert TOKEN[9:] not in str([event.data for event in hf.events("a")])
        assert not [path for path in store_root.rglob("blobs/*") if TOKEN[:9] in path.read_text()]
        assert hf.verify("a").ok
