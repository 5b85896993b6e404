"""``holdfast acp install`` writes an editor's settings, once and with a backup."""

from __future__ import annotations

import json

import pytest


def test_the_proxy_is_written_in_front_of_an_agent(run, tmp_path):
    """The entry holds the whole command; a second time there is nothing to do."""
    file = tmp_path / "settings.json"
    args = ("acp", "install", "zed", "--file", str(file), "--", "gemini", "--acp")
    first = run(*args)
    assert first.code == 0
    assert "gemini (Holdfast)" in first.out
    entry = json.loads(file.read_text())["agent_servers"]["gemini (Holdfast)"]
    assert entry["args"][-5:] == ["acp", "proxy", "--", "gemini", "--acp"]
    second = run(*args)
    assert "has it already" in second.out
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("settings")] == ["settings.json"]


def test_print_writes_nothing(run, tmp_path):
    """It shows what would be written, and where."""
    file = tmp_path / "settings.json"
    outcome = run("acp", "install", "zed", "--file", str(file), "--print")
    assert outcome.code == 0
    assert '"acp"' in outcome.out
    assert not file.exists()


def test_json_for_programs(run, tmp_path):
    """The file, the entry, and where the old settings are."""
    file = tmp_path / "settings.json"
    file.write_text("{}")
    outcome = run("acp", "install", "zed", "--file", str(file), "--name", "Mine", "--json")
    found = json.loads(outcome.out)
    assert found["written"] is True
    assert found["name"] == "Mine"
    assert found["backup"].startswith(str(file))


def test_settings_that_cannot_be_read_are_told(run, tmp_path):
    """With what to do, and the file stays."""
    file = tmp_path / "settings.json"
    file.write_text("{ broken")
    outcome = run("acp", "install", "zed", "--file", str(file))
    assert outcome.code == 1
    assert "cannot be read" in outcome.err
    assert "--print" in outcome.err
    assert file.read_text() == "{ broken"


def test_an_editor_that_is_not_known(run):
    """Wrong usage, with those that are."""
    outcome = run("acp", "install", "ed")
    assert outcome.code == 2
    assert "zed, jetbrains" in outcome.err


@pytest.mark.parametrize(("named", "written"), [("/kept/here", ["--store", "/kept/here"]), ("s3://u:word@host/b", [])])
def test_the_store_of_the_environment_is_written(run, tmp_path, named, written):
    """An editor that is started from a menu lacks the variable; a password is kept out."""
    file = tmp_path / "zed.json"
    outcome = run("acp", "install", "zed", "--file", str(file), "--json", store=named)
    assert json.loads(outcome.out)["entry"]["args"] == [*written, "acp", "agent"]
    assert ("has a password" in outcome.err) == (not written)
    assert "word" not in file.read_text()
