"""Logs and traces as the settings want them, for every app that runs for long."""

from __future__ import annotations

import ast
import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast._config import configuration
from holdfast.apps.watched import watch
from holdfast.errors import Forbidden, NotFound, UsageError
from holdfast.library import Holdfast
from holdfast.observe import Metrics, log_to

APPS = Path(__file__).parents[2] / "src" / "holdfast" / "apps"


def record(hf):
    """One session, with a word in it, and something that is told of it."""
    with hf.session("a") as s:
        s.user("zanzibar")
        s.snapshot()


def told(text):
    """Which events of which sessions the lines tell of."""
    assert "zanzibar" not in text
    return [(line["event"], line["session_id"]) for line in map(json.loads, text.splitlines())]


@pytest.mark.parametrize(
    ("levels", "is_told"),
    [((None, "info"), True), ((None, "off"), False), (("off", "info"), False), (("info", "off"), True)],
)
def test_on_standard_error(hf, capsys, monkeypatch, levels, is_told):
    """As lines of JSON, as much as the setting says, else as much as is usual for the app."""
    setting, given = levels
    if setting is not None:
        monkeypatch.setenv("HOLDFAST_LOG_LEVEL", setting)
    watch(hf, level=given)
    record(hf)
    assert told(capsys.readouterr().err) == ([("snapshot_created", "a")] if is_told else [])


def test_spaces_are_told_apart(hf, capsys):
    """What watches a store watches the spaces in it, where other sessions have the same id."""
    watch(hf, level="info")
    with hf.space("alice") as alice, hf.space("bob") as bob:
        counted = Metrics()
        alice.observe(counted)
        record(alice)
        record(bob)
    record(hf)
    assert counted.figures.value("holdfast_snapshots_total", "ok") == 3
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line.get("space"), line["session_id"]) for line in lines] == [
        ("alice", "a"), ("bob", "a"), (None, "a"),
    ]  # fmt: skip


def test_a_screen_stays_as_it_is(hf, capsys, monkeypatch):
    """An app that someone looks at writes nothing between what it shows."""
    monkeypatch.setenv("HOLDFAST_LOG_LEVEL", "debug")
    watch(hf, level="debug", has_screen=True)
    record(hf)
    assert capsys.readouterr().err == ""
    assert hf._core.observers is None


@pytest.mark.parametrize("has_screen", [False, True])
def test_into_a_file(hf, tmp_path, capsys, monkeypatch, has_screen):
    """A private file has the lines instead, a screen or not; to name one is to want them."""
    file = tmp_path / "told.log"
    monkeypatch.setenv("HOLDFAST_LOG_FILE", str(file))
    watch(hf, has_screen=has_screen)
    record(hf)
    assert told(file.read_text("utf-8")) == [("snapshot_created", "a")]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert capsys.readouterr().err == ""


def test_a_file_may_be_moved_away(hf, tmp_path):
    """The next line makes a new one; a folder that went away disturbs nobody."""
    file = tmp_path / "logs" / "told.log"
    file.parent.mkdir()
    hf.observe(log_to(str(file), "info"))
    with hf.session("a") as s:
        s.user("x")
        s.snapshot()
        file.rename(tmp_path / "told.log.1")
        s.user("y")
        s.snapshot()
        (tmp_path / "logs").rename(tmp_path / "gone")
        s.user("z")
        s.snapshot()
    for kept in (tmp_path / "told.log.1", tmp_path / "gone" / "told.log"):
        assert told(kept.read_text("utf-8")) == [("snapshot_created", "a")]


def test_a_file_that_cannot_be_is_told_at_once(hf, tmp_path):
    """Before anything is served, with what is missing."""
    with pytest.raises(NotFound, match="there is no folder"):
        log_to(str(tmp_path / "none" / "told.log"), "info")
    with pytest.raises(UsageError, match="no file"):
        log_to(f"{tmp_path}/\0", "info")
    assert hf._core.observers is None


def test_a_strangers_project_names_no_file_of_mine(tmp_path, monkeypatch):
    """``log.file`` counts from the user's own places only; there a relative one is beside it."""
    own = tmp_path / "config" / "holdfast" / "config.toml"
    own.parent.mkdir(parents=True)
    own.write_text('log.file = "told.log"\n')
    own.chmod(0o600)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert configuration().get("log.file") == str(own.with_name("told.log"))
    (tmp_path / "holdfast.toml").write_text('log.file = "told.log"\n')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Forbidden, match=r"log\.file may not come from a project"):
        Holdfast("memory:")


def test_by_open_telemetry_if_it_is_set(hf, monkeypatch):
    """With the setting sessions are observed by it; without it nobody asks for it."""
    watch(hf)
    assert hf._core.observers is None
    monkeypatch.setenv("HOLDFAST_OTEL", "true")
    watch(hf, has_screen=True)
    assert [type(one).__name__ for one in hf._core.observers.all] == ["OtelObserver"]
    monkeypatch.delattr("holdfast.observe.observe")  # as in a program that has not asked for it
    monkeypatch.setitem(sys.modules, "holdfast.observe._otel", None)
    with pytest.raises(UsageError, match="needs the package") as refused:
        watch(hf)
    assert "holdfast[otel]" in refused.value.remedy


def test_nothing_is_loaded_for_nothing(tmp_path):
    """An app that is to tell nothing loads neither this room nor OpenTelemetry nor logging."""
    code = f"""
import sys
from holdfast.apps.watched import watch
from holdfast.library import Holdfast
with Holdfast({str(tmp_path / "s")!r}) as hf:
    watch(hf)
    with hf.session("a") as s:
        s.user("x")
print(*[name for name in sys.modules if name.startswith(
    ("holdfast.observe", "holdfast.session._observers", "opentelemetry", "logging"))])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def openings(path):
    """The functions of a module that open the library for as long as they serve."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("serve"):
            calls = {ast.unparse(one.func) for one in ast.walk(node) if isinstance(one, ast.Call)}
            if "Holdfast" in calls:
                yield f"{path.relative_to(APPS).parts[0]}.{path.stem}.{node.name}", "watch" in calls


def test_whatever_serves_is_watched():
    """Every function that serves a store until it is ended asks the settings."""
    found = dict(one for path in APPS.rglob("*.py") for one in openings(path))
    assert {name.partition(".")[0] for name in found} >= {"acp", "http", "ipc", "mcp", "web"}
    assert [name for name, is_watched in found.items() if not is_watched] == []
