"""``holdfast doctor``."""

from __future__ import annotations

import json
import os
import sqlite3
import tomllib
from contextlib import closing
from pathlib import Path
from unittest import mock

import pytest

import holdfast
from holdfast import __version__
from holdfast.apps.cli.checks import EXTRAS, find_extras
from holdfast.errors import NotFound, StoreError, Unavailable
from holdfast.library import Holdfast
from holdfast.storage import MemoryStore

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def checks(outcome):
    """The findings by name."""
    return {check["name"]: check for check in json.loads(outcome.out)["store"]["checks"]}


def test_a_healthy_store(run, trip, store_root, untouched):
    """Place, reason, health, versions and a verdict; nothing is written."""
    outcome = run("doctor")
    assert outcome.code == 0
    for words in (str(store_root), "HOLDFAST_STORE", "writable", "free", "Versions", "sqlite"):
        assert words in outcome.out
    assert outcome.out.splitlines()[-1] == "Everything is fine."


def test_json(run, trip):
    """--json has the same for programs."""
    document = json.loads(run("doctor", "--json").out)
    assert document["healthy"] is True
    assert document["versions"]["holdfast"] == __version__
    assert {"python", "sqlite", "msgspec", "platform"} <= set(document["versions"])
    assert {extra["name"] for extra in document["extras"]} == set(EXTRAS)


def test_damage_is_found(run, damaged, untouched):
    """A damaged session among the newest makes the verdict bad, with what to do."""
    outcome = run("doctor")
    assert outcome.code == 4
    assert "broken is damaged" in outcome.out
    assert "holdfast repair broken" in outcome.out
    assert checks(run("doctor", "--json"))["sample"]["state"] == "bad"


def test_silent_damage_is_found(run, trip, store_root):
    """A byte that changed in a log whose length and end did not is found: the logs are read."""
    assert "the newest 1 are whole" in checks(run("doctor", "--json"))["sample"]["finding"]
    log = store_root / "sessions" / trip / "events.jsonl"
    content = log.read_bytes()
    middle = len(content) // 2
    log.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    assert json.loads(run("list", "--json").out)["sessions"][0]["state"] == "ok"
    outcome = run("doctor")
    assert (outcome.code, f"{trip} is damaged" in outcome.out) == (4, True)


def test_a_big_store_keeps_nobody_waiting(run, trip, monkeypatch):
    """Logs beyond some size are not read, and that is said."""
    monkeypatch.setattr("holdfast.apps.cli._health._SAMPLE_BYTES_MAX", 10)
    found = checks(run("doctor", "--json"))["sample"]
    assert (found["state"], "1 more look so and were not read" in found["finding"]) == ("ok", True)


def test_a_log_that_goes_or_cannot_be_read(run, trip, monkeypatch):
    """One that is deleted meanwhile is no damage; one that cannot be read is."""
    for error, state in ((NotFound(session_id=trip), "ok"), (StoreError("no"), "bad")):
        monkeypatch.setattr(Holdfast, "verify", mock.Mock(side_effect=error))
        assert checks(run("doctor", "--json"))["sample"]["state"] == state


def test_the_trash_is_told(run, trip):
    """What can be restored is counted."""
    run("delete", trip)
    assert "1 session; back with" in checks(run("doctor", "--json"))["trash"]["finding"]


def test_a_newer_session_is_told(run, too_new):
    """A session of a newer version is a warning, not a defect of the store."""
    outcome = run("doctor")
    assert outcome.code == 0
    assert "from-the-future (too new)" in outcome.out


@pytest.mark.parametrize(("setting", "words"), [("option", "given with --store"), ("environment", "HOLDFAST_STORE")])
def test_why_the_store_is_there(run, store_root, setting, words):
    """The place is told with what said so."""
    arguments = ["--store", str(store_root)] if setting == "option" else []
    assert words in json.loads(run("doctor", *arguments, "--json").out)["store"]["reason"]


def test_the_folder_of_a_project(shell, tmp_path):
    """Without a setting the project's folder counts, then the user's."""
    home = {"HOLDFAST_STORE": "", "XDG_DATA_HOME": str(tmp_path / "data")}
    user = json.loads(shell("doctor", "--json", env=home).out)["store"]
    assert user["place"].startswith(str(tmp_path / "data"))
    assert "user" in user["reason"]
    (tmp_path / ".holdfast").mkdir(mode=0o700)
    project = json.loads(shell("doctor", "--json", env=home).out)["store"]
    assert project["place"] == str(tmp_path / ".holdfast")
    assert "project" in project["reason"]


def test_a_store_that_is_not_there_yet(run, tmp_path):
    """A missing store is fine: it is made with the first event, and not by the doctor."""
    outcome = run("doctor", store=tmp_path / "later")
    assert outcome.code == 0
    assert "not there yet" in outcome.out
    assert not (tmp_path / "later").exists()


def test_stores_that_forget(run):
    """Stores that keep nothing say so."""
    assert "forgets" in run("doctor", "--store", "none:").out
    assert "as long as the program runs" in run("doctor", "--store", "memory:").out


def test_a_store_that_others_can_write(run, store_root):
    """A store that is refused is a finding with a remedy, not a failure of the doctor."""
    store_root.chmod(0o770)
    outcome = run("doctor")
    assert outcome.code == 4
    assert "can be written by others" in outcome.out
    assert "chmod go-w" in outcome.out


def test_a_misspelt_setting(run):
    """A variable that is almost a setting is pointed out."""
    outcome = run("doctor", env={"HOLDFAST_STROE": "x"})
    assert "HOLDFAST_STROE is no setting" in outcome.out


def test_little_space(run, monkeypatch):
    """Little space is a warning, none is bad."""
    real = os.statvfs

    class Full:
        f_bavail, f_frsize, f_flag = 100, 4096, 0

    monkeypatch.setattr(os, "statvfs", lambda path: Full())
    assert checks(run("doctor", "--json"))["space"]["state"] == "bad"
    Full.f_bavail = 50_000
    assert checks(run("doctor", "--json"))["space"]["state"] == "warning"
    monkeypatch.setattr(os, "statvfs", real)
    assert checks(run("doctor", "--json"))["writable"]["state"] == "ok"


def test_extras_are_those_of_the_project():
    """Every extra of the package is explained, with exactly the packages it needs."""
    declared = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    extras = declared["optional-dependencies"]
    for_users = {name for name in extras if name != "all" and not name.startswith("dev")}
    assert set(EXTRAS) == for_users
    for name, (_, packages) in EXTRAS.items():
        wanted = {line.partition(">")[0].partition("[")[0] for line in extras[name]}
        assert set(packages) == wanted, name


def test_a_missing_extra_tells_how_to_get_it(monkeypatch):
    """What is missing is named, with the command that installs it."""
    monkeypatch.setitem(EXTRAS, "made-up", ("something", ("no-such-package-anywhere",)))
    made_up = find_extras()[-1]
    assert not made_up.installed
    assert made_up.missing == ("no-such-package-anywhere",)
    assert made_up.install == "pip install 'holdfast[made-up]'"


def test_what_would_make_searches_faster_is_told(run, trip, monkeypatch):
    """A database without pg_trgm works, and the doctor says what would help."""
    from holdfast.catalog import Health
    from holdfast.library import Holdfast

    health = Health("PostgreSQL, schema holdfast", 1, 0, "CREATE EXTENSION pg_trgm would help")
    monkeypatch.setattr(Holdfast, "catalog_health", lambda _, **__: health)
    outcome = run("doctor", "--json")
    assert outcome.code == 0
    found = checks(outcome)["catalogue"]
    assert found["state"] == "warning"
    assert "CREATE EXTENSION pg_trgm" in found["finding"]


def test_what_a_crash_can_cost_is_told(run, trip):
    """In plain words, and a warning where the settings make it more than it need be."""
    usual = checks(run("doctor", "--json"))["durability"]
    assert (usual["state"], "safe from a crash at once" in usual["finding"]) == ("ok", True)
    always = checks(run("doctor", "--json", env={"HOLDFAST_DURABILITY": "always"}))["durability"]
    assert "power loss with every event" in always["finding"]
    never = checks(run("doctor", "--json", env={"HOLDFAST_DURABILITY": "os"}))["durability"]
    assert (never["state"], "last seconds" in never["finding"]) == ("warning", True)
    assert "barriers" in never["remedy"]


def test_who_can_look_into_the_store(run, trip, store_root):
    """A folder that others may read is a warning with its remedy."""
    assert checks(run("doctor", "--json"))["private"]["state"] == "ok"
    store_root.chmod(0o755)
    found = checks(run("doctor", "--json"))["private"]
    assert (found["state"], "mode 755" in found["finding"]) == ("warning", True)
    assert found["remedy"] == f"Close it: chmod go-rwx {store_root}"


def test_writers_that_live_and_writers_that_are_gone(run, trip, store_root):
    """Who has a session open is named, and who left one open and is gone; neither is wrong."""
    assert checks(run("doctor", "--json"))["writers"]["finding"] == "none"
    log = store_root / "sessions" / trip / "events.jsonl"
    *lines, _closed = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines))
    with holdfast.open(store_root) as hf, hf.session("now") as s:
        s.user("hi")
        found = checks(run("doctor", "--json"))["writers"]
    assert "open now: now" in found["finding"]
    assert f"no longer runs: {trip} (process " in found["finding"]
    assert "Nothing is lost" in found["remedy"]


def test_a_catalogue_that_was_behind(run, trip):
    """How far is told once; then it has caught up."""
    assert "was behind by 1 session" in checks(run("doctor", "--json"))["catalogue"]["finding"]
    assert "behind" not in checks(run("doctor", "--json"))["catalogue"]["finding"]


def test_a_catalogue_that_lies(run, trip, store_root):
    """An index that hides what was said is found by comparing it with the logs, and made anew."""
    run("list")
    with closing(sqlite3.connect(store_root / "catalog.db")) as index, index:
        index.execute("DELETE FROM said")
    assert "made anew" in checks(run("doctor", "--json"))["catalogue"]["finding"]
    assert "made anew" not in checks(run("doctor", "--json"))["catalogue"]["finding"]


def test_keys(run, trip, store_root, tmp_path):
    """None, one that opens everything, and one that does not."""
    assert "none set" in checks(run("doctor", "--json"))["keys"]["finding"]
    keys = {}
    for name in ("right", "wrong"):
        (tmp_path / name).write_text(os.urandom(32).hex())
        (tmp_path / name).chmod(0o600)
        keys[name] = {"HOLDFAST_KEY": f"file:{tmp_path / name}"}
    assert run("encrypt", trip, env=keys["right"]).code == 0
    right = checks(run("doctor", "--json", env=keys["right"]))["keys"]
    assert (right["state"], "opens" in right["finding"]) == ("ok", True)
    wrong = checks(run("doctor", "--json", env=keys["wrong"]))["keys"]
    assert (wrong["state"], trip in wrong["finding"]) == ("warning", True)


def test_which_model_would_answer(run):
    """By name, with the reason; a wrong setting is told and is no failure of the doctor."""
    found = checks(run("doctor", "--json", env={"HOLDFAST_MODEL": "openai:gpt-5"}))["model"]
    assert found["finding"].startswith("openai:gpt-5 (")
    local = checks(run("doctor", "--json", env={"HOLDFAST_MODEL": "local"}))["model"]
    assert "tiny" in local["finding"]


def test_a_store_that_does_not_answer(run, monkeypatch):
    """A server that is gone is bad; one that answers is told with its time."""
    assert "ms" in checks(run("doctor", "--store", "memory:", "--json"))["answers"]["finding"]
    real = MemoryStore.check
    asked = []

    def gone(store):
        if asked:
            raise Unavailable("the server is gone")
        asked.append(store)
        real(store)

    monkeypatch.setattr(MemoryStore, "check", gone)
    outcome = run("doctor", "--store", "memory:", "--json")
    assert outcome.code == 4
    assert checks(outcome)["answers"]["finding"] == "the server is gone"
