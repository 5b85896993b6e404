"""``hf.search``: what was said a moment ago, here or elsewhere, with every filter."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.errors import InvalidId, NotFound, UsageError
from holdfast.model import Event

pytestmark = pytest.mark.stores("files", "memory")


@pytest.fixture
def two(hf):
    """Two sessions about the same, by different agents and models."""
    with hf.session("trip", agent_id="guide", title="Trip to Sintra") as s:
        s.tag("travel")
        s.user("When does the train to Sintra leave?")
        call = s.tool_call("Timetable", {"to": "Sintra"})
        s.tool_result(call, {"content": "Sintra: 09:11"})
        s.assistant("The train leaves at 09:11", model="small-1", usage={"output_tokens": 9})
    with hf.session("work", agent_id="coder") as s:
        s.user("Fix the train simulator in src/train.py")
        s.assistant("Done", model="large-2", usage={"output_tokens": 1})
    return hf


def found(hits):
    """Where the hits are."""
    return sorted((hit.session_id, hit.role) for hit in hits)


@pytest.mark.req("S2-58")
def test_across_sessions(two):
    """One word is found wherever it was said; a hit says where, who, when, and shows it."""
    hits = two.search("train")
    assert found(hits) == [("trip", "assistant"), ("trip", "user"), ("work", "user")]
    by_user = next(hit for hit in hits if (hit.session_id, hit.role) == ("trip", "user"))
    event = next(two.events("trip", by_user.seq))
    assert event.data["content"] == "When does the train to Sintra leave?"
    assert by_user.timestamp == event.timestamp
    assert by_user.title == "Trip to Sintra"
    assert by_user.snippet.marked("[", "]") == "When does the [train] to Sintra leave?"


@pytest.mark.req("S2-60")
def test_within_one_session(two):
    """A search can be kept to one session; one that is not there is an error."""
    assert found(two.search("train", "work")) == [("work", "user")]
    assert found(two.search("train", session_id="work", tags=["travel"])) == []
    with pytest.raises(NotFound):
        two.search("train", session_id="none")
    with pytest.raises(InvalidId):
        two.search("train", session_id="../x")


@pytest.mark.req("S2-59")
def test_filters(two):
    """Tags, agent, model, role, tool and times narrow the search."""
    assert found(two.search("sintra", role="title")) == [("trip", "title")]
    assert found(two.search("travel")) == [("trip", "tag")]
    assert found(two.search("train", tags=["travel"], role="user")) == [("trip", "user")]
    assert found(two.search("train", agent_id="coder")) == [("work", "user")]
    assert found(two.search("train", model="small-1", role="assistant")) == [("trip", "assistant")]
    both = [("trip", "tool_call"), ("trip", "tool_result")]
    assert found(two.search("sintra", role="tool")) == both
    assert found(two.search("sintra", tool="Timetable")) == both
    assert two.search("sintra", tool="timetable") == []
    tomorrow = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    assert two.search("train", since=tomorrow) == []
    assert len(two.search("train", until=tomorrow)) == 3


def test_what_is_no_question(two):
    """A wrong limit, role, time or query is refused in words."""
    for wrong in ({"limit": -1}, {"role": "nobody"}, {"since": "yesterday"}, {"tags": "travel"}):
        with pytest.raises(UsageError):
            two.search("train", **wrong)
    with pytest.raises(UsageError, match="a query is a text"):
        two.search(b"train")


@pytest.mark.req("S2-58")
def test_a_word_just_said_is_found(hf):
    """Nothing need be flushed or closed, and what is being streamed is found too."""
    with hf.session("s") as s:
        for number in range(5):
            s.user(f"word{number}")
            assert [hit.seq for hit in hf.search(f"word{number}")] == [s.seq]
        s.append("delta", {"content": "half a sen"})
        s.append("delta", {"content": "tence"})
        assert [hit.snippet.text for hit in hf.search("sentence")] == ["half a sentence"]
        s.assistant("half a sentence, whole", covers_from=s.seq - 1)
        assert [hit.seq for hit in hf.search("sentence")] == [s.seq]


def test_across_processes(tmp_path):
    """What another process said is found here, and the other way round."""
    store = tmp_path / "store"
    code = (
        "import sys, holdfast\n"
        "with holdfast.open(sys.argv[1]) as hf:\n"
        "    s = hf.session('other')\n"
        "    s.user('a distant word')\n"
        "    print([hit.session_id for hit in hf.search('near')], flush=True)\n"
        "    sys.stdin.readline()\n"
    )
    with holdfast.open(store) as hf, hf.session("mine") as s:
        s.user("a near word")
        assert hf.search("distant") == []
        with subprocess.Popen(
            [sys.executable, "-c", code, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as other:
            assert other.stdout.readline() == "['mine']\n"
            # The other still has its session open, and has flushed nothing.
            assert [hit.session_id for hit in hf.search("distant")] == ["other"]
            other.stdin.write("\n")


def test_deleted_sessions_are_not_found(two):
    """The trash is not searched; what is brought back is found again."""
    two.delete("trip")
    assert found(two.search("train")) == [("work", "user")]
    two.undelete("trip")
    assert len(two.search("train")) == 3


def test_repaired_logs_are_searched_as_they_are_now(tmp_path):
    """What a repair could not keep is not found, the rest is."""
    with holdfast.open(tmp_path) as hf:
        with hf.session("s") as s:
            s.user("first thing")
            s.user("second thing")
            s.user("third thing")
        log = tmp_path / "sessions" / "s" / "events.jsonl"
        log.write_bytes(log.read_bytes().replace(b"second", b"sec0nd"))
        assert len(hf.search("thing")) == 2
        hf.repair("s")
        assert len(hf.search("thing")) == 2
        assert hf.search("second OR sec0nd") == []


def test_plain_logs_are_searched(tmp_path):
    """A recorded log without numbers and checksums is searched like any other."""
    folder = tmp_path / "sessions" / "plain"
    folder.mkdir(parents=True)
    lines = [
        f'{{"type":"user","timestamp":{n},"data":{{"role":"user","content":"entry {n} plain"}}}}\n' for n in range(3)
    ]
    (folder / "events.jsonl").write_text("".join(lines))
    with holdfast.open(tmp_path) as hf:
        assert sorted(hit.seq for hit in hf.search("plain")) == [0, 1, 2]
        assert [hit.seq for hit in hf.search('"entry 1"')] == [1]


def test_big_payloads_are_searched(hf):
    """Text that is kept beside the log is found, and shown from there."""
    with hf.session("s") as s:
        call = s.tool_call("Read", {"path": "big"})
        s.tool_result(call, {"content": "filler line\n" * 40_000 + "the needle\n"})
    [hit] = hf.search("needle")
    assert (hit.role, hit.tool) == ("tool_result", "Read")
    assert "the needle" in hit.snippet.text


def test_without_sqlite_the_logs_are_read(two, monkeypatch):
    """Where Python brings no SQLite, search is slower and finds the same."""
    from holdfast.catalog._index import PlainIndex

    expected = {query: found(two.search(query)) for query in ("train", "src/train", "intra", "")}
    plain = PlainIndex()
    monkeypatch.setattr(type(two._core.catalog), "_opened", lambda _: plain)
    assert {query: found(two.search(query)) for query in expected} == expected
    assert found(two.search("train", "work", limit=1)) == [("work", "user")]


@pytest.fixture(scope="module")
def some():
    """A session with words of many kinds."""
    with holdfast.open("memory:") as hf:
        with hf.session("s") as s:
            s.user('Could NOT connect: a->b() 日本語 👍🏽 שלום NEAR(a b) "quoted" ^x* col:val')
        yield hf


@given(st.text(st.characters() | st.sampled_from('"*^:()-+ANDORNEAR\0 日👍'), max_size=40))
@example('"')
@example("NEAR(a b")
@example('""" OR *')
@example("a" * 5000)
@example("said_words MATCH 'x'; DROP TABLE said")
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_hostile_queries_are_text(some, query):
    """Whatever is typed is looked for; nothing typed is ever an error."""
    assert isinstance(some.search(query), list)


def test_hostile_text_is_harmless_in_hits(hf):
    """Controls and turned directions in a session do not leave it through a hit."""
    with hf.session("s") as s:
        s.append(Event.make("user", {"content": "evil \x1b]0;x\x07 \u202e text end"}))
    [hit] = hf.search("evil")
    assert hit.snippet.text.isprintable()


def test_archived_sessions_are_searched(tmp_path):
    """A compressed log is searched like any other."""
    with holdfast.open(tmp_path) as hf:
        with hf.session("s") as s:
            for number in range(50):
                s.user(f"entry {number} archived")
        [before] = hf.search('"entry 31"')
        hf.archive("s")
        [after] = hf.search('"entry 31"')
        assert after.snippet.text == before.snippet.text == "entry 31 archived"
        assert (after.seq, after.timestamp) == (before.seq, before.timestamp)


def test_branches_are_searched(hf):
    """A fork has the words of its parent up to where it left, and its own."""
    with hf.session("parent") as s:
        s.user("shared word")
        at = s.seq
        s.user("parental word")
    child = hf.fork("parent", at=at)
    with hf.session(child) as s:
        s.user("filial word")
    assert {hit.session_id for hit in hf.search("shared")} == {"parent", child}
    assert {hit.session_id for hit in hf.search("parental")} == {"parent"}
    assert [hit.snippet.text for hit in hf.search("filial")] == ["filial word"]


def test_a_log_that_cannot_be_read_hides_no_other(tmp_path):
    """A session whose log is of a newer format is passed over; the others are found."""
    folder = tmp_path / "sessions" / "future"
    folder.mkdir(parents=True)
    start = '{"type":"session_start","timestamp":1,"data":{"format":99}}\n'
    said = '{"type":"user","timestamp":2,"data":{"content":"a common word"}}\n'
    (folder / "events.jsonl").write_text(start + said)
    with holdfast.open(tmp_path) as hf:
        with hf.session("now") as s:
            s.user("a common word")
        assert [hit.session_id for hit in hf.search("common")] == ["now"]


_LEFT = """
import os, sys, holdfast
s = holdfast.open(sys.argv[1]).session("left")
s.turn().__enter__()
s.user("the train was cut off")
s.flush()
os._exit(0)
"""


@pytest.mark.stores("files")
def test_what_sessions_must_be(hf, store_root):
    """Status and archive narrow a search as they narrow a list; a process that died counts as that."""
    with hf.session("bad") as s:
        s.user("the train is late")
        s.append("agent_error", {"agent": "a", "error": "no answer"})
    with hf.session("old") as s:
        s.user("a train of long ago")
    hf.archive("old")
    subprocess.run([sys.executable, "-c", _LEFT, str(store_root)], check=True)
    with hf.session("now") as s, s.turn():
        s.user("this train runs")
        for status in ("failed", "interrupted", "running"):
            listed = [row.session_id for row in hf.list(status=status)]
            assert [hit.session_id for hit in hf.search("train", status=status)] == listed, status
            assert len(listed) == 1, status
    assert found(hf.search("train", archived=True)) == [("old", "user")]
    assert len(hf.search("train", archived=False)) == 3
    with pytest.raises(UsageError):
        hf.search("train", status="odd")
