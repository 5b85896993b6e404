"""The verbs of sealed sessions: encrypt, decrypt, rotate, keys and erase."""

from __future__ import annotations

import json

import jsonschema
import pytest

from holdfast.apps.cli.schema import schema_of
from holdfast.library import make_key


@pytest.fixture
def keyed(tmp_path, monkeypatch):
    """A key file, named in the environment; its path."""
    path = tmp_path / "my.key"
    make_key(f"file:{path}")
    monkeypatch.setenv("HOLDFAST_KEY", f"file:{path}")
    return path


def document(outcome, name):
    found = json.loads(outcome.out)
    jsonschema.validate(found, schema_of(name))
    return found


@pytest.mark.usefixtures("keyed")
def test_sealing_and_unsealing(run, trip, library):
    """Named, or all; what a second call has to do is nothing."""
    assert run("encrypt", trip).out == f"sealed {trip}\n"
    assert run("encrypt", trip).out == "nothing to do\n"
    assert "Lisbon" in run("show", trip).out
    assert json.loads(run("list", "--json").out)["sessions"][0]["state"] == "ok"
    assert library.keys.is_sealed(trip)
    assert document(run("decrypt", "--all", "--json"), "encrypt")["changed"] == [f"sessions/{trip}"]
    assert run("encrypt").code == run("encrypt", trip, "--all").code == 2


def test_without_a_key_it_says_what_to_do(run, trip):
    """Exit code 4 and a remedy; the session is as it was."""
    outcome = run("encrypt", trip)
    assert outcome.code == 4
    assert "no key is set" in outcome.err
    assert "HOLDFAST_KEY" in outcome.err
    assert run("rotate", "--data").code == 4


def test_a_sealed_session_without_its_key(run, trip, keyed, monkeypatch):
    """Lists show it as sealed; showing it is refused with a remedy; verify compares checksums."""
    run("encrypt", trip)
    monkeypatch.delenv("HOLDFAST_KEY")
    assert "sealed" in run("list").out
    outcome = run("show", trip)
    assert outcome.code == 4
    assert "HOLDFAST_KEY" in outcome.err
    report = document(run("verify", trip, "--json"), "verify")["reports"][0]
    assert (report["ok"], report["sealed"], report["opened"]) == (True, True, False)
    monkeypatch.setenv("HOLDFAST_KEY", "env:OTHER")
    monkeypatch.setenv("OTHER", "0" * 64)
    assert "another key: file" in run("show", trip).err
    assert keyed.name not in run("show", trip).err


def test_rotation(run, trip, keyed, tmp_path, monkeypatch):
    """The new key opens, the old one does not; what to set is said."""
    run("encrypt", trip)
    new = f"file:{tmp_path / 'new.key'}"
    assert run("rotate").code == 2
    assert run("rotate", "--to", new).code == 4
    assert document(run("keys", "new", new, "--json"), "keys-new")["source"] == new
    outcome = run("rotate", "--to", new)
    assert outcome.out.startswith(f"rotated {trip}\n")
    assert new in outcome.err
    assert run("show", trip).code == 4
    monkeypatch.setenv("HOLDFAST_KEY", new)
    assert run("show", trip).code == 0
    changed = document(run("rotate", "--data", "--json"), "encrypt")["changed"]
    assert f"sessions/{trip}" in changed
    assert run("show", trip).code == 0


@pytest.mark.usefixtures("keyed")
def test_keys(run, trip, tmp_path, monkeypatch):
    """Listed, made, added, checked, removed; never shown."""
    assert run("keys").out == "nothing is encrypted here\n"
    run("encrypt", trip)
    [first] = document(run("keys", "--json"), "keys")["keys"]
    assert first["available"]
    assert first["id"] in run("keys").out
    spare = f"file:{tmp_path / 'spare.key'}"
    assert run("keys", "new", spare).out.startswith("made ")
    assert run("keys", "new", spare).code == 4
    assert run("keys", "add", spare).code == 0
    assert len(document(run("keys", "--json"), "keys")["keys"]) == 2
    assert run("keys", "check").out == "everything that is sealed opens\n"
    monkeypatch.setenv("HOLDFAST_KEY", spare)
    assert run("keys", "remove", first["id"]).code == 0
    assert run("keys", "remove", "nobody").code == 3
    monkeypatch.setenv("HOLDFAST_KEY", f"file:{tmp_path / 'my.key'}")
    outcome = run("keys", "check")
    assert outcome.code == 4
    assert outcome.out.startswith("closed ")
    assert not document(run("keys", "check", "--json"), "keys-check")["ok"]
    assert run("keys", "add").code == run("keys", "list", "x").code == 2
    assert run("keys", "new", "env:X").code == 2
    for path in tmp_path.glob("*.key"):
        assert path.read_text().strip() not in run("keys", "--json").out


@pytest.mark.usefixtures("keyed")
def test_forks_and_failures_are_named(run, trip, library):
    """What shares events and was not named; what could not be done gives exit code 1."""
    library.fork(trip, new_id="second")
    assert "second" in run("encrypt", trip).err
    with library.session("second") as s:
        s.user("open")
        outcome = run("encrypt", "--all")
        assert outcome.code == 1
        assert "failed second" in outcome.err


@pytest.mark.usefixtures("keyed")
def test_erasing(run, trip, library):
    """Wants --yes where nobody can be asked; takes forks along, or names them."""
    library.fork(trip, new_id="second")
    outcome = run("erase", trip)
    assert outcome.code == 2
    assert "--yes" in outcome.err
    outcome = run("erase", trip, "--keep-forks", "--yes")
    assert outcome.out == f"erased {trip}\n"
    assert "sessions/second" in outcome.err
    library.fork("second", new_id="third")
    library.delete("second")
    assert run("erase", "second", "--yes").out == "erased trash/0.second\nerased third\n"
    assert run("erase", "second", "--yes").code == 3
    with library.session("last") as s:
        s.user("hello")
    assert document(run("erase", "last", "--yes", "--json"), "erase")["erased"] == ["sessions/last"]


def test_erasing_asks_first(run, trip, monkeypatch):
    """On a terminal: what goes is named, and no means no."""
    from holdfast.apps.cli import trash

    monkeypatch.setattr(trash, "_may_erase", lambda *_: False)
    outcome = run("erase", trip)
    assert outcome.code == 1
    assert "Nothing was erased" in outcome.err
    assert run("show", trip).code == 0


def test_signed_exports(run, trip, tmp_path):
    """Signed with a key, verified with its public key; anything else is refused."""
    key = f"file:{tmp_path / 'sign.key'}"
    make_key(key)
    public = run("keys", "public", key).out.strip()
    assert document(run("keys", "public", key, "--json"), "keys-new")["id"] == public
    path = str(tmp_path / "trip.holdfast")
    assert run("export", trip, "-o", path, "--sign", key).code == 0
    other = str(tmp_path / "other")
    assert run("import", path, "--verify-key", public, store=other).code == 0
    with (tmp_path / "trip.holdfast").open("ab") as file:
        file.write(b"x")
    assert run("import", path, "--verify-key", public, store=other).code == 4
    assert run("import", "--scan", "--verify-key", public, store=other).code == 2


def test_on_a_terminal_it_is_asked_for_what_it_needs(tty, trip, library):
    """A passphrase without an echo, and whether the session is really to go."""
    library.fork(trip, new_id="second")
    shown = tty("encrypt", trip, keys=b"Q\n", HOLDFAST_KEY="passphrase")
    assert "Passphrase" in shown.out
    assert "Q" not in shown.out
    assert library.keys.is_sealed(trip)
    shown = tty("erase", "second", keys=b"n\n")
    assert "Permanently destroy" in shown.out
    assert library.exists("second")
