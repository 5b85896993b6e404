"""Branches: finding the end of an event, sharing bytes, and giving them back."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import Conflict, Damaged, InvalidId, Locked, NotFound, TooNew, UsageError
from holdfast.library import Holdfast
from holdfast.replay import PROVIDERS, recover, validate
from holdfast.session import Branches, Draft, check_new_id, detach_children, load, read_range
from holdfast.session import _branches as branches_module
from holdfast.session import _branches as places
from holdfast.storage import MemoryStore
from holdfast.testing import strategies

pytestmark = pytest.mark.req("S2-67")


def store_with(data: bytes, key="sessions/p"):
    """A memory store with one log of these bytes."""
    store = MemoryStore()
    lease = store.lease(key)
    store.log(key).append(data, 0, 1, lease.acquire("test", 1000))
    lease.release()
    return store


def bytes_of(store, key):
    """All bytes of a log."""
    return b"".join(store.log(key).read())


def fork(store, at=None, new_id="f", **options):
    """A fork of the session p."""
    branches = Branches(store)
    branches.make("p", new_id, branches.find("p", at), **options)
    return list(read_range(store.log(f"sessions/{new_id}")))


@settings(max_examples=30)
@given(strategies.logs(2))
def test_a_fork_at_any_event_has_what_its_parent_had(events):
    """At every seq: the same events up to there, valid in every dialect, the parent untouched."""
    data = strategies.encode_log(events)
    store = store_with(data)
    for at in range(len(events)):
        found = fork(store, at, f"f{at}")
        assert found[: at + 1] == list(read_range(store.log("sessions/p"), stop=at + 1))
        assert [event.type for event in found[at + 1 :]] == ["forked"]
        loaded = load(store.log(f"sessions/f{at}"), store.documents(f"sessions/f{at}"))
        assert (loaded.gaps, loaded.fold.state.status) == ([], "idle")
        assert loaded.fold.state.parent.seq == at
        for provider in PROVIDERS:
            assert validate(recover(found, provider).messages, provider).valid
    assert bytes_of(store, "sessions/p") == data


@settings(max_examples=30)
@given(strategies.logs(3), st.data())
def test_the_place_is_the_same_however_it_is_found(events, data):
    """Halving the log, reading all of it, and cutting it by hand give the same place."""
    raw = strategies.encode_log(events)
    at = data.draw(st.integers(0, len(events) - 1))
    store = store_with(raw)
    log, documents = store.log("sessions/p"), store.documents("sessions/p")
    near = places._NEAR_BYTES, places._NEAR_EVENTS
    try:
        places._NEAR_BYTES = data.draw(st.sampled_from([1, 64, 500]))
        places._NEAR_EVENTS = data.draw(st.sampled_from([0, 16]))
        found = places.find_place(log, documents, at).position
    finally:
        places._NEAR_BYTES, places._NEAR_EVENTS = near
    assert found == places.find_place(log, documents, at).position
    assert (found.seq, found.offset) == (at + 1, len(strategies.encode_log(events[: at + 1])))


def lines(count):
    """A log of so many messages."""
    from holdfast.model import Event

    events = [Event.make("session_start", {"format": 1, "log": "L"})]
    events += [Event.make("user", {"content": f"m{n}"}) for n in range(count)]
    return strategies.encode_log(events)


def test_a_long_log_is_looked_at_in_few_places():
    """The bytes read to find an event do not grow with the log."""
    store = store_with(lines(20_000))
    log = store.log("sessions/p")
    reads = []
    real = log.read

    def read(start=0):
        for chunk in real(start):
            reads.append(len(chunk))
            yield chunk

    log.read = read
    place = places.find_place(log, store.documents("sessions/p"), 10_300)
    assert place.position.seq == 10_301
    assert len(reads) < 16


def test_lines_that_lie_about_their_number_are_not_followed():
    """Events of very different lengths, and one that claims to be none: found all the same."""
    from holdfast.model import Event

    events = [Event.make("session_start", {"format": 1, "log": "L"})]
    events += [Event.make("user", {"content": "m" * (n * n % 2000)}) for n in range(300)]
    raw = strategies.encode_log(events)
    store = store_with(raw)
    log, documents = store.log("sessions/p"), store.documents("sessions/p")
    for at in (20, 150, 151, 299):
        found = places.find_place(log, documents, at).position
        assert found.offset == len(strategies.encode_log(events[: at + 1]))
    whole = raw.splitlines(keepends=True)
    whole[150] = b'{"seq":-1,"type":"user","data":{},"crc":"00000000"}\n'
    broken = store_with(b"".join(whole))
    with pytest.raises(Damaged):
        places.find_place(broken.log("sessions/p"), broken.documents("sessions/p"), 299)


def test_events_that_are_not_there_cannot_be_forked_at():
    """Beyond the end, negative, not a number, of an empty log."""
    store = store_with(lines(3))
    with pytest.raises(NotFound, match="no event 9; the last is 3") as caught:
        fork(store, 9)
    assert caught.value.session_id == "p"
    for wrong in (-1, True, "1", 1.0):
        with pytest.raises(UsageError, match="number from 0"):
            fork(store, wrong)
    empty = store_with(b"{")
    with pytest.raises(NotFound):
        fork(empty)
    assert not empty.exists("sessions/f")


def test_an_empty_log_cannot_be_forked():
    """It is said in words, and not as an event before the first."""
    store = MemoryStore()
    for at in (None, 0):
        with pytest.raises(NotFound, match="has no events"):
            places.find_place(store.log("sessions/p"), store.documents("sessions/p"), at)


def test_a_torn_end_is_left_behind():
    """What a crash left at the end is not part of a fork."""
    store = store_with(lines(3) + b'{"seq":4,"type":"us')
    assert [event.seq for event in fork(store)] == [0, 1, 2, 3, 4]


def test_damage_before_the_place_is_refused():
    """Before the damage a fork is made, behind it not; also where the damage is far away."""
    store = store_with(lines(3000).replace(b'"m5"', b'"m6"', 1))
    assert len(fork(store, 4)) == 6
    for at in (8, 2500, None):
        with pytest.raises(Damaged, match="before the place"):
            fork(store, at, "g")
    assert not store.exists("sessions/g")


@pytest.mark.unmeasured
def test_too_much_to_check_is_taken_as_it_is(monkeypatch):
    """Damage far back in a very long log comes along, and is told as in the parent."""
    monkeypatch.setattr(places, "_CHECKED_BYTES_MAX", 10)
    store = store_with(lines(9000).replace(b'"m5"', b'"m6"', 1))
    fork(store, 8000)
    assert load(store.log("sessions/f"), store.documents("sessions/f"), tolerant=True).gaps


def test_a_newer_format_is_refused():
    """Nothing is guessed about a format that is not known, wherever it begins."""
    from holdfast.model import Event

    first = strategies.encode_log([Event.make("session_start", {"format": 99})])
    later = strategies.encode_log([Event.make("user", {"content": "x"}), Event.make("opened", {"format": 99})])
    for data in (first, later):
        with pytest.raises(TooNew):
            fork(store_with(data))
    torn = later.replace(b"\n", b" \n", 1)[:-1]
    with pytest.raises((TooNew, Damaged)):
        fork(store_with(torn))


def test_inside_a_batch_the_whole_batch_is_taken():
    """A batch is all or nothing, in a fork too; one without its end is nothing."""
    from holdfast.model import Event

    batch = [
        Event("user", 0, 0, b'{"content":"a"}', None, None, True),
        Event("user", 0, 0, b'{"content":"b"}', None, None, True),
        Event("user", 0, 0, b'{"content":"c"}'),
        Event("user", 0, 0, b'{"content":"d"}', None, None, True),
    ]
    store = store_with(strategies.encode_log(batch))
    assert [event.seq for event in fork(store, 0)] == [0, 1, 2, 3]
    with pytest.raises(NotFound):
        fork(store, 3, "g")


def test_a_plain_log_is_forked_as_it_is():
    """Lines without numbers and checksums, also one without its newline, go on with ours."""
    plain = b'{"type":"user","timestamp":1,"data":{"content":"a"}}\n\n' * 3
    store = store_with(plain.rstrip())
    assert [event.data.get("content") for event in fork(store)][:3] == ["a", "a", "a"]
    found = fork(store, 1, "g")
    assert [event.type for event in found] == ["user", "user", "forked"]
    assert not load(store.log("sessions/g"), store.documents("sessions/g")).gaps


def test_a_failed_beginning_leaves_nothing():
    """If what comes after the fork cannot be recorded there is no new session."""
    store = store_with(lines(3))
    with pytest.raises(Exception, match="type"):
        fork(store, more=[Draft("no type!", {})])
    assert not store.exists("sessions/f")


def test_a_parent_that_is_replaced_while_it_is_read_is_looked_at_again(monkeypatch):
    """Half of one session and half of another are no damage; damage would be there again."""
    looks, real = [], branches_module.find_place

    def find_place(log, documents, at):
        looks.append(at)
        if len(looks) == 1:
            raise Damaged("what was read is of two sessions")
        return real(log, documents, at)

    monkeypatch.setattr(branches_module, "find_place", find_place)
    with Holdfast(MemoryStore()) as hf:
        with hf.session("a") as session:
            session.user("hello")
        hf.fork("a", new_id="b")
        assert hf.verify("b").ok
    assert looks == [None, None]


@pytest.mark.parametrize("said", ["longer than before", "before", "b", None])
def test_a_parent_that_is_made_anew_meanwhile_is_not_forked(said):
    """What is taken of another session under the same id is given up, and nothing stays."""
    with Holdfast(MemoryStore()) as hf:

        def record(text):
            with hf.session("a") as session:
                session.user(text)

        record("before")
        place = hf._core.branches.find("a")
        hf.erase("a")
        if said is not None:
            record(said)
        with pytest.raises((Conflict, NotFound)):
            hf._core.branches.make("a", "b", place)
        assert not hf.exists("b")


def test_an_id_that_is_taken_is_refused():
    """By another session, by one that differs in case, or by what is no id at all."""
    store = store_with(lines(3))
    with pytest.raises(UsageError, match="already"):
        fork(store, new_id="p")
    with pytest.raises(UsageError, match="already"):
        check_new_id(store, "p")
    with pytest.raises(InvalidId, match="only by case"):
        check_new_id(store, "P")
    with pytest.raises(InvalidId):
        check_new_id(store, "../p")
    assert check_new_id(store, "q") == "q"


def fill(hf, session_id, count=3):
    """A session with some messages."""
    with hf.session(session_id) as s:
        for n in range(count):
            s.user(f"message {n}")


def test_the_snapshot_comes_along(hf):
    """A fork opens as quickly as its parent, with the state of its own moment."""
    with hf.session("p") as s:
        s.variables["x"] = 1
        s.snapshot()
        s.variables["x"] = 2
    made = hf.fork("p")
    assert [one.whole for one in hf.snapshots(made)] == [True]
    assert hf.state(made).variables == {"x": 2}
    assert hf.snapshots(hf.fork("p", at=1)) == []


@pytest.mark.req("S2-67")
def test_the_root_is_told_without_reading_all(hf):
    """A fork knows the first of its line, also where it was made before its parent's own events."""
    fill(hf, "p")
    first = hf.fork("p", at=3)
    assert hf.state(hf.fork(first)).root == "p"
    early = hf.fork(first, at=2)
    assert (hf.state(early).root, hf.state(early).parent.session) == ("p", first)
    with hf.session(first) as s:
        s.user("more")
        s.snapshot()
    hf.store.detach(f"sessions/{first}")
    assert hf.state(hf.fork(first)).root == "p"


def test_children_are_given_their_own_bytes(hf):
    """Before a parent goes for good, every branch that holds its bytes is made whole by itself."""
    fill(hf, "p")
    child = hf.fork("p")
    grandchild = hf.fork(child)
    early = hf.fork(child, at=1)
    fill(hf, "stranger")
    other = hf.fork("stranger")
    hf.delete(early)
    before = {id: list(hf.events(id)) for id in (child, grandchild)}
    done = detach_children(hf.store, "sessions/p")
    assert {key.rpartition("/")[0] for key in done} == {"sessions", "trash"}
    assert len(done) == 3
    assert hf.store.base_size(f"sessions/{other}") > 0
    assert all(hf.store.base_size(f"sessions/{id}") == 0 for id in (child, grandchild))
    hf.store.drop("sessions/p")
    assert {id: list(hf.events(id)) for id in before} == before
    assert hf.verify(child).ok
    hf.undelete(early)
    assert hf.verify(early).ok
    assert detach_children(hf.store, "sessions/p") == []


def test_only_branches_that_hold_its_own_bytes_are_touched(hf):
    """A fork that goes does not concern its siblings."""
    fill(hf, "p")
    a, b = hf.fork("p"), hf.fork("p")
    of_a = hf.fork(a)
    assert detach_children(hf.store, f"sessions/{a}") == [f"sessions/{of_a}"]
    assert hf.store.base_size(f"sessions/{b}") > 0


def test_an_open_child_is_not_changed_below_its_writer(hf):
    """A branch that someone has open is refused, and its bytes stay."""
    fill(hf, "p")
    child = hf.fork("p")
    with hf.session(child) as s:
        s.user("at work")
        with pytest.raises(Locked):
            detach_children(hf.store, "sessions/p")
        s.user("still at work")
    assert hf.verify(child).ok


@pytest.mark.parametrize("claim", [b'{"type":"forked","data":[]}\n', b"nonsense\n"])
def test_a_claim_that_is_no_data_names_no_root(claim):
    """A first line that says nothing useful is passed over."""
    log = SimpleNamespace(read=lambda _: iter([claim]), unseal=None)
    store = SimpleNamespace(base_size=lambda _: 1, log=lambda _: log)
    assert Branches(store)._root_of("sessions/p", places.EventEnd(places.START)) is None
