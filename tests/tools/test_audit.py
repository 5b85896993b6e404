"""The audit of dependencies: what it claims, and what it does not."""

from __future__ import annotations

import importlib.util
import subprocess
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
    assert "nobody could be asked about 1 packages" in capsys.readouterr().out
