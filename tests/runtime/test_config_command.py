"""``holdfast config``: what is set, by what, and whether it is right."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from holdfast.apps.cli import cli


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The command in a project of its own."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(cli, ["config", *words])


def test_show_tells_each_setting_with_its_origin(run, tmp_path, monkeypatch):
    """Values, the place that set them, and the variable that could."""
    (tmp_path / "holdfast.toml").write_text("autosave_ms = 0\n")
    monkeypatch.setenv("HOLDFAST_MODEL", "local")
    for name in ("HOLDFAST_MODEL_SERVERS", "HOLDFAST_GUIDE_WORD_MS"):
        monkeypatch.delenv(name)
    settings = json.loads(run("show", "--json").stdout)["settings"]
    assert settings["autosave_ms"] == {
        "value": 0,
        "from": str(tmp_path / "holdfast.toml"),
        "variable": "HOLDFAST_AUTOSAVE_MS",
        "meaning": "flush what changed this often; 0 for never",
    }
    assert settings["model"]["from"] == "environment variable HOLDFAST_MODEL"
    assert "durability" not in settings
    table = run().stdout
    assert "autosave_ms  0 " in table


def test_show_all_has_every_setting(run):
    """With --all also what is not set."""
    assert "local.context_tokens" in run("show", "--all").stdout


def test_check_is_content_or_names_the_mistake(run, tmp_path, monkeypatch):
    """Exit code 0 when fine; 2 with file, key and suggestion otherwise."""
    fine = run("check")
    assert (fine.exit_code, fine.stdout) == (0, "The configuration is fine.\n")
    (tmp_path / "holdfast.toml").write_text("autosav_ms = 0\n")
    monkeypatch.setenv("HOLDFAST_MODLE", "local")
    wrong = run("check")
    assert wrong.exit_code == 2
    assert "holdfast.toml: unknown setting 'autosav_ms'; did you mean 'autosave_ms'?" in wrong.stdout
    assert "HOLDFAST_MODLE is no setting; did you mean 'model'?" in wrong.stdout
    assert json.loads(run("check", "--json").stdout)["ok"] is False


def test_path_tells_which_files_are_looked_for(run, tmp_path):
    """Both files with whether they are there."""
    (tmp_path / "holdfast.toml").write_text("")
    files = json.loads(run("path", "--json").stdout)["files"]
    assert files[0] == {"path": str(tmp_path / "holdfast.toml"), "exists": True, "whose": "project"}
    assert files[1]["path"].endswith("config.toml")
    assert "(not there)" in run("path").stdout


def test_a_broken_file_stops_other_commands_with_a_sentence(run, tmp_path):
    """``holdfast list`` with a broken file: exit code 2, the file named, no stack trace."""
    (tmp_path / "holdfast.toml").write_text("store = \n")
    result = CliRunner().invoke(cli, ["list"])
    assert result.exit_code == 2
    assert "holdfast.toml" in result.stderr
    assert "Traceback" not in result.stderr
