"""Importing from folders of which one may not read everything."""

from __future__ import annotations

import json

import pytest

from holdfast.errors import Forbidden
from holdfast.storage.outside import OutsideFile


@pytest.fixture
def rollouts(tmp_path, monkeypatch):
    """Three sessions of one tool, of which the second may not be read, not even by root."""
    folder = tmp_path / "rollouts"
    folder.mkdir()
    for number in range(3):
        id = f"{number}" * 8 + "-0000-7000-8000-" + "0" * 12
        content = [{"type": "input_text", "text": f"words {number}"}]
        item = {"type": "message", "role": "user", "content": content}
        lines = [
            {"timestamp": "2026-01-01T10:00:00Z", "type": "session_meta", "payload": {"id": id}},
            {"timestamp": "2026-01-01T10:00:01Z", "type": "response_item", "payload": item},
        ]
        path = folder / f"rollout-{number}-{id}.jsonl"
        path.write_text("\n".join(map(json.dumps, lines)))
    name = sorted(path.name for path in folder.iterdir())[1]
    lock(monkeypatch, name)
    return folder


def lock(monkeypatch, name):
    """Refuse to read what has that name."""
    read = OutsideFile.chunks

    def chunks(self, chunk_bytes):
        if self._name == name:
            raise Forbidden(f"not allowed while reading {name}", remedy="Check the store.")
        return read(self, chunk_bytes)

    monkeypatch.setattr(OutsideFile, "chunks", chunks)


def test_one_file_of_a_folder_may_not_be_read(hf, rollouts):
    """The others come in, and the one is named once."""
    report = hf.import_all([rollouts])
    assert len(report.ids) == 2
    [one] = report.skipped
    assert one.source.startswith("rollout-1-")
    assert "not allowed" in one.reason


def test_the_only_file_may_not_be_read(hf, rollouts):
    """The error is that of the file, and says nothing of a store."""
    path = next(path for path in rollouts.iterdir() if path.name.startswith("rollout-1-"))
    with pytest.raises(Forbidden) as caught:
        hf.import_(path)
    assert "store" not in caught.value.remedy
    assert len(hf.import_all([path]).skipped) == 1
