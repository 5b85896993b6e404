"""The audit of dependencies: what it claims, and what it does not."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tool():
    spec = importlib.util.spec_from_file_location("audit", ROOT / "tools" / "audit.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("lock", sorted(ROOT.glob("requirements-*.lock")), ids=lambda p: p.name)
def test_every_locked_package_has_a_hash(tool, lock):
    """Nothing is installed that is not the very file that was locked."""
    assert tool.unhashed(lock) == []


def test_an_entry_without_a_hash_is_named(tool, tmp_path):
    """A hash that is missing is noticed."""
    lock = tmp_path / "x.lock"
    lock.write_text("a==1 \\\n    --hash=sha256:00\nb==2\nc==3 ; python_version > '3'\n")
    assert tool.unhashed(lock) == ["b", "c"]


def test_known_flaws_fail(tool, tmp_path, monkeypatch, capsys):
    """A known vulnerability fails; a package nobody could be asked about is told as unknown."""
    answer = (
        '{"dependencies":[{"name":"a","version":"1","vulns":[{"id":"PYSEC-1"}]},'
        '{"name":"b","skip_reason":"not found"}]}'
    )
    done = subprocess.CompletedProcess([], 1, stdout=answer, stderr="")
    monkeypatch.setattr(tool.subprocess, "run", lambda *_, **__: done)
    lock = tmp_path / "x.lock"
    lock.write_text("a==1 --hash=sha256:00\n")
    monkeypatch.setattr("sys.argv", ["audit.py", str(lock)])
    assert tool.main() == 1
    out = capsys.readouterr().out
    assert "a 1: PYSEC-1" in out
    assert "nobody could be asked about 1 packages" in out


def test_without_a_network_nothing_is_claimed(tool, tmp_path, monkeypatch, capsys):
    """Where the question cannot be asked, that is what it says."""

    def fail(*_, **__):
        raise OSError("no uv")

    monkeypatch.setattr(tool.subprocess, "run", fail)
    lock = tmp_path / "x.lock"
    lock.write_text("a==1 --hash=sha256:00\n")
    monkeypatch.setattr("sys.argv", ["audit.py", str(lock)])
    assert tool.main() == 0
    out = capsys.readouterr().out
    assert "nobody could be asked about 1 packages" in out
    assert out.splitlines()[-1].startswith("NOT AUDITED: 1 packages.")


FLAW = {
    "id": "PYSEC-2",
    "modified": "2026-01-02T03:04:05Z",
    "affected": [
        {
            "package": {"ecosystem": "PyPI", "name": "Some.Thing"},
            "ranges": [
                {"type": "ECOSYSTEM", "events": [{"introduced": "1.2"}, {"fixed": "1.10"}]},
                {"type": "ECOSYSTEM", "events": [{"introduced": "2"}, {"last_affected": "2.1"}]},
                {"type": "GIT", "events": [{"introduced": "0"}]},
            ],
            "versions": ["0.9", "dev"],
        },
        {"package": {"ecosystem": "npm", "name": "some-thing"}, "versions": ["5"]},
    ],
}


@pytest.mark.parametrize(
    ("version", "is_flawed"),
    [
        *[("0.9", True), ("1.1", False), ("1.2", True), ("1.9.3", True), ("1.10", False)],
        *[("2.1", True), ("2.1.1", False), ("5", False), ("dev", True)],
    ],
)
def test_versions_are_compared_as_versions(tool, version, is_flawed):
    """A version is affected by its name or by a range of versions, not by one of commits."""
    assert tool.is_affected(version, FLAW["affected"][0]) is is_flawed


@pytest.mark.parametrize("kind", ["zip", "json", "yaml"])
def test_a_copy_of_the_advisories(tool, tmp_path, monkeypatch, capsys, kind):
    """With a copy nobody is asked; what was withdrawn, or is of another world, does not count."""
    monkeypatch.setattr(tool.subprocess, "run", None)
    copy = tmp_path / "copy"
    gone = {**FLAW, "id": "PYSEC-3", "withdrawn": "2026"}
    if kind == "zip":
        with zipfile.ZipFile(copy, "w") as archive:
            archive.writestr("PYSEC-2.json", json.dumps(FLAW))
            archive.writestr("gone.json", json.dumps(gone))
    else:
        copy.mkdir()
        (copy / f"PYSEC-2.{kind}").write_text(json.dumps(FLAW))
        (copy / f"gone.{kind}").write_text(json.dumps(gone))
    lock = tmp_path / "x.lock"
    monkeypatch.setattr("sys.argv", ["audit.py", str(lock)])
    monkeypatch.setenv("ADVISORIES", str(copy))
    lock.write_text("some-thing==1.3 --hash=sha256:00\n")
    assert tool.main() == 1
    out = capsys.readouterr().out
    assert "x.lock: some-thing 1.3: PYSEC-2\n" in out
    assert "PYSEC-3" not in out
    assert "1 advisories in the copy, the newest of 2026-01-02" in out
    lock.write_text("some-thing==5 --hash=sha256:00\n")
    assert tool.main() == 0
    assert "NOT AUDITED" not in capsys.readouterr().out


def test_what_is_installed_is_what_is_locked(tool, tmp_path):
    """Another version than the locked one is named; entries for other machines do not count."""
    lock = tmp_path / "x.lock"
    lock.write_text("pytest==0.1 --hash=sha256:00\nmsgspec==0.1 ; sys_platform == 'none' \\\n")
    (found,) = tool.strangers(lock)
    assert found.startswith("pytest ")
    assert found.endswith("is installed, 0.1 is locked")
