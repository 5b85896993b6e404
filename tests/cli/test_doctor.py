"""``holdfast doctor``."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest

from holdfast import __version__
from holdfast.apps.cli._extras import EXTRAS, find_extras

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


def test_the_trash_is_told(run, trip):
    """What can be brought back is counted."""
    run("delete", trip)
    assert "1 session; back with" in checks(run("doctor", "--json"))["trash"]["finding"]


def test_a_newer_session_is_told(run, too_new):
    """A session of a newer version is a warning, not a defect of the store."""
    outcome = run("doctor")
    assert outcome.code == 0
    assert "from-the-future (too new)" in outcome.out


@pytest.mark.parametrize(
    ("setting", "words"),
    [("option", "given with --store"), ("environment", "HOLDFAST_STORE")],
)
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
    from holdfast.catalog._catalog import Health
    from holdfast.catalog._postgres_index import _NO_TRIGRAMS
    from holdfast.library import Holdfast

    health = Health("PostgreSQL, schema holdfast", 1, 0, _NO_TRIGRAMS)
    monkeypatch.setattr(Holdfast, "catalog_health", lambda _: health)
    outcome = run("doctor", "--json")
    assert outcome.code == 0
    found = checks(outcome)["catalogue"]
    assert found["state"] == "warning"
    assert "CREATE EXTENSION pg_trgm" in found["finding"]
