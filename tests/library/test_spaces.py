"""Spaces: many users in one store, none of whom can reach what another one has."""

from __future__ import annotations

import pickle  # noqa: TID251 - a library can be sent to another process by it

import pytest

import holdfast
from holdfast.errors import HoldfastError, InvalidId, NotFound, UsageError
from holdfast.storage import SpaceStore

SECRET = "zanzibar"
pytestmark = pytest.mark.stores("memory", "files", "sqlite", "postgres")


def fill(library, word, *, id="diary"):
    """A session with everything that could be seen from elsewhere."""
    with library.session(id, title=f"About {word}", agent_id="guide") as session:
        session.user(f"Tell nobody about {word}")
        session.assistant("x" * 400_000, model=f"model-{word}", usage={"output_tokens": 5})
        session.append("tag", {"add": [word]})
    return id


def tricks(other):
    """Names by which somebody might try to reach what another space has."""
    steps = ("../", "..%2f", "%2e%2e/", "..\\", "....//", "./../", "/", "//", "\0", "..;/", "%00")
    ends = (f"spaces/{other}/sessions/diary", f"{other}/sessions/diary", f"{other}/diary", "diary")
    heads = ("", "sessions/", "trash/", "agents/", f"spaces/{other}/", "diary/", "a/")
    for head in heads:
        for step in steps:
            for end in ends:
                for times in (1, 3):
                    yield head + step * times + end
    yield from (f"{other}:diary", f"{other}#diary", f"#{other}", f"diary@{other}", "dıary", "ＤＩＡＲＹ")
    yield from ("~/diary", f"spaces/{other}/sessions/diary", "..", ".", "", "*", "%", "_iary", "d%")


def reached(ask, name):
    """What a question gives; False if it is refused, without a word of what is elsewhere."""
    try:
        return ask(name)
    except HoldfastError as error:
        return SECRET in str(error)


def test_a_space_has_its_own_sessions(hf):
    """The same id in two spaces, and in none, is three sessions; each list has its own."""
    with hf.space("alice") as alice, hf.space("bob") as bob:
        for library, word in ((hf, "root"), (alice, SECRET), (bob, "bread")):
            fill(library, word)
        for library, word in ((hf, "root"), (alice, SECRET), (bob, "bread")):
            [row] = library.list()
            assert row.title == f"About {word}"
            assert library.state("diary").title == f"About {word}"
            assert {hit.session_id for hit in library.search(word)} == {"diary"}
            assert library.stats().sessions == 1
            assert library.session_ids() == ["diary"]


def test_nothing_of_another_space_is_seen(hf):
    """Lists, searches, figures, lineage, trash and agents know their own space only."""
    with hf.space("alice") as alice, hf.space("bob") as bob:
        fill(alice, SECRET)
        fork = alice.fork("diary")
        alice.delete(fork)
        assert alice.trash.list()
        for library in (bob, hf):
            assert not library.list(None)
            assert library.search(SECRET) == []
            assert library.session_ids() == []
            assert library.trash.list() == []
            assert library.stats().sessions == 0
            assert not library.exists("diary")
            with pytest.raises(NotFound):
                library.undelete(fork)
            assert list(library.store.folders("agents/")) == []
            assert library.list(None, tags=[SECRET]) == []
            assert library.list(None, agent_id="guide") == []


def test_no_name_reaches_another_space(hf):
    """Hundreds of tricks with ids: each is refused as no id, or is not there."""
    tried = 0
    with hf.space("alice") as alice, hf.space("bob") as bob:
        fill(alice, SECRET)
        before = list(alice.events("diary"))
        fill(bob, "bread", id="own")
        for name in tricks("alice"):
            for ask in (
                bob.exists, bob.info, bob.state, bob.verify, bob.snapshots, bob.delete,
                bob.undelete, bob.recover, bob.lineage, bob.export, bob.fork, bob.archive,
            ):  # fmt: skip
                assert reached(ask, name) is False
                tried += 1
            for key in (f"sessions/{name}", name):
                with pytest.raises(HoldfastError):
                    bob.store.documents(key)
        assert list(alice.events("diary")) == before
        assert [row.session_id for row in bob.list()] == ["own"]
    assert tried > 5000


def test_blobs_are_of_one_space(hf):
    """A long text is read with its session, and the document has no name in another space."""
    with hf.space("alice") as alice, hf.space("bob") as bob:
        fill(alice, SECRET)
        [name] = alice.store.documents("sessions/diary").names("blobs/")
        assert bob.store.documents("sessions/diary").names() == []
        assert bob.store.documents("sessions/diary").get(name) is None


@pytest.mark.parametrize("name", ["", "Alice", "a/b", "..", "a b", "spaces/x", "é", ".x", None, 5, "con", "x" * 129])
def test_a_name_that_is_none_is_refused(name):
    """InvalidId, before anything is made; capitals too, which some file systems do not tell."""
    with holdfast.open("memory:") as hf, pytest.raises(InvalidId):
        hf.space(name)


def test_a_space_has_no_spaces():
    """Nobody can go from one to the next by its name."""
    with holdfast.open("memory:", space="alice") as alice:
        with pytest.raises(InvalidId):
            alice.space("bob")
        with pytest.raises(InvalidId):
            SpaceStore(alice.store, "bob")


def test_a_space_is_opened_by_its_name(store_root):
    """open(…, space=) gives what hf.space gives, says so, and is pickled with it."""
    with holdfast.open(store_root, space="alice") as alice:
        fill(alice, SECRET)
        assert repr(alice).endswith(" space alice>")
        again = pickle.loads(pickle.dumps(alice))
    with again:
        assert [row.session_id for row in again.list()] == ["diary"]
    with holdfast.open(store_root) as hf, hf.space("alice") as inside:
        assert inside.info("diary").title == f"About {SECRET}"
        assert (store_root / "spaces" / "alice" / "catalog.db").exists()
    with pytest.raises(UsageError):
        hf.space("alice")


def test_closing_a_space_leaves_the_store_open(store_root):
    """Sessions of the space are closed; the store and other spaces go on."""
    with holdfast.open(store_root) as hf, hf.space("bob") as bob:
        with hf.space("alice") as alice:
            session = alice.session("one")
            session.user("hi")
        assert session.closed
        fill(bob, "bread")
        fill(hf, "root")


def test_a_space_can_be_set(store_root, monkeypatch):
    """By the environment or by config; a store object is taken as it is, and a given one counts."""
    with holdfast.open(store_root, space="alice") as alice:
        fill(alice, SECRET)
    with holdfast.open(store_root, config={"space": "alice"}) as found:
        assert found.session_ids() == ["diary"]
    monkeypatch.setenv("HOLDFAST_SPACE", "alice")
    with holdfast.open(store_root) as found:
        assert found.session_ids() == ["diary"]
    with holdfast.open(store_root, space="bob") as found:
        assert found.session_ids() == []
    monkeypatch.setenv("HOLDFAST_SPACE", "../bob")
    with pytest.raises(InvalidId):
        holdfast.open(store_root)
