"""``holdfast redact``, and what the command keeps of its own."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import holdfast
from holdfast.apps.cli import cli
from holdfast.library import Holdfast

TOKEN = "gh" + "p_" + "aB3dE5gH" * 4 + "abcd"


@pytest.fixture
def run(store_root):
    def run(*arguments, text=None):
        env = {"HOLDFAST_STORE": str(store_root), "COLUMNS": "100"}
        return CliRunner(env=env).invoke(cli, list(arguments), input=text)

    return run


@pytest.fixture
def leaked(store_root):
    with holdfast.open(store_root) as hf:
        with hf.session("trip") as session:
            session.user(f"use {TOKEN} at the blue door")
        hf.fork("trip", new_id="fork")
    return store_root


def _log(root, name="trip"):
    return (root / "sessions" / name / "events.jsonl").read_bytes()


def test_redact(run, leaked):
    """It says how many secrets of which kind went, and they are gone, also from relatives."""
    result = run("redact", "tri", "--yes")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "redacted trip: 2 secrets",
        "       2  github_pat",
        "  in 2 sessions that share events",
    ]
    assert TOKEN.encode() not in _log(leaked)
    assert TOKEN.encode() not in _log(leaked, "fork")
    assert "No known secrets were found in" in run("redact", "trip").stdout


def test_dry_run_and_json(run, leaked):
    """It can be asked first, and answers programs."""
    result = run("redact", "trip", "--dry-run", "--json")
    assert json.loads(result.stdout)["found"] == {"github_pat": 2}
    assert "would redact trip" in run("redact", "trip", "--dry-run", "--alone").stdout
    assert TOKEN.encode() in _log(leaked)


def test_texts_from_the_input(run, leaked):
    """A secret that no rule knows is given without standing in the shell's history."""
    result = run("redact", "trip", "--find", "-", "--find", "the blue", text="at the\n\n")
    assert result.exit_code == 0
    assert b"door" in _log(leaked)
    assert b"blue" not in _log(leaked)


def test_wrong_texts(run, leaked):
    """A text that is too short is refused, and nothing is changed."""
    before = _log(leaked)
    result = run("redact", "trip", "--find", "a")
    assert result.exit_code == 2
    assert _log(leaked) == before


def test_what_could_not_be_reached_is_told(run, leaked, monkeypatch):
    """The exit code says that something is left, and standard error says what."""
    from holdfast.library import RedactionReport

    def redact(self, id, **_):
        return RedactionReport(session_id=id, sessions={}, found={"jwt": 1}, unscanned=7, unreached=("x: no",))

    monkeypatch.setattr(Holdfast, "redact", redact)
    result = run("redact", "trip")
    assert result.exit_code == 1
    assert "not reached: x: no" in result.stderr
    assert "7 characters" in result.stderr


def test_the_command_records_marks(run, store_root, tmp_path):
    """What the command brings in is redacted without being asked to be."""
    place = tmp_path / "m.json"
    place.write_text(json.dumps([{"role": "user", "content": f"use {TOKEN}"}]))
    assert run("import", str(place), "--format", "messages").exit_code == 0
    [name] = [one.name for one in (store_root / "sessions").iterdir()]
    assert b"[secret:github_pat:" in _log(store_root, name)
    assert TOKEN.encode() not in _log(store_root, name)
