"""What people read of the golden sessions, word for word, on every surface that prints text."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast import Holdfast
from holdfast.apps.cli import cli
from holdfast.apps.mcp._answers import read_events

HERE = Path(__file__).parent
NAMES = ("full", "plain", "plain-then-chained", "damaged", "torn")
SURFACES = ("show", "show-full", "markdown", "text", "html", "mcp")


@pytest.fixture(autouse=True)
def _utc(monkeypatch):
    """Times are printed in the zone of the reader."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def printed(root, surface):
    """What a surface prints of session ``a``, without what the machine or the clock puts in."""
    if surface.startswith("show"):
        full = ["--full"] if surface == "show-full" else []
        settings = {"HOLDFAST_STORE": str(root), "COLUMNS": "100"}
        found = CliRunner(env=settings).invoke(cli, ["show", "a", *full]).stdout
        return found.split("\n\n", 1)[1]
    with Holdfast(root, timers=False) as hf:
        if surface == "mcp":
            return read_events(hf, "a", start=0, limit=1000)
        found = hf.export("a", surface)
    head = {"html": "<main>", "markdown": "\n---\n"}.get(surface)  # figures are not words
    return found if head is None else found.split(head, 1)[1].partition("</main>")[0]


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("name", NAMES)
def test_a_golden_session_reads_as_it_did(store_root, name, surface):
    """A change of what people read is seen and meant: GOLDEN=write takes it over."""
    folder = store_root / "sessions" / "a"
    folder.mkdir(parents=True, mode=0o700)
    folder.parent.chmod(0o700)
    (folder / "events.jsonl").write_bytes((HERE / "v1" / f"{name}.jsonl").read_bytes())
    (folder / "events.jsonl").chmod(0o600)
    blob = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    (folder / "blobs").mkdir(mode=0o700)
    (folder / "blobs" / blob).write_bytes(b"hello")
    (folder / "blobs" / blob).chmod(0o600)
    found = printed(store_root, surface)
    expected = HERE / "transcripts" / f"{name}.{surface}.txt"
    if os.environ.get("GOLDEN") == "write":
        expected.write_text(found, encoding="utf-8")
    assert found == expected.read_text(encoding="utf-8")
