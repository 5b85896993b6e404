"""What the tests of readers share: files in memory, and what became of them."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter

import pytest

from holdfast.formats import Source, fit_drafts
from holdfast.model import Event
from holdfast.replay import PROVIDERS, recover, runs, validate


def jsonl(*records):
    """Lines of JSON as bytes; text stands for a line that is none."""
    lines = [r if isinstance(r, str) else json.dumps(r, ensure_ascii=False) for r in records]
    return ("\n".join(lines) + "\n").encode()


class Told:
    """One session that was read, and the questions that tests ask about it."""

    def __init__(self, foreign):
        self.foreign = foreign
        self.drafts = list(fit_drafts(foreign))
        self.events = [
            Event.make(d.type, d.data, seq=n, timestamp=d.timestamp or 0, run=d.run, key=d.key)
            for n, d in enumerate(self.drafts)
        ]

    def of(self, type):
        return [d for d in self.drafts if d.type == type]

    def said(self, type="user", *, run=None):
        return [d.data["content"] for d in self.of(type) if d.run == run]

    def counts(self):
        kinds = ("user", "assistant", "thinking", "tool_call", "tool_result")
        found = Counter(d.type for d in self.drafts)
        return tuple(found[kind] for kind in kinds)

    def check(self):
        """Whatever was read, it has what every import must have."""
        keys = [d.key for d in self.drafts]
        assert len(set(keys)) == len(keys)
        for provider in PROVIDERS:
            assert validate(recover(self.events, provider).messages, provider).errors == []
        assert runs(self.events)[0].id is None
        return self


def _source(name, data, beside=None, folder=""):
    files = {name: data, **(beside or {})}

    def reach(other):
        from holdfast.formats import MemoryFile

        return MemoryFile(files[other]) if other in files else None

    return Source(name, {name: data}, is_file=True, beside=reach, folder=folder)


class Kit:
    """Readers, and the ways to feed them."""

    source = staticmethod(_source)
    jsonl = staticmethod(jsonl)

    @staticmethod
    def folder(files, name="folder"):
        return Source(name, files)

    @staticmethod
    def read(reader, source):
        assert reader.claims(source)
        return [Told(foreign).check() for foreign in reader.read(source)]

    def one(self, reader, source):
        (told,) = self.read(reader, source)
        return told

    @staticmethod
    def database(script, rows):
        """The bytes of a database: ``rows`` maps a table to lists of values."""
        connection = sqlite3.connect(":memory:")
        connection.executescript(script)
        for table, values in rows.items():
            for row in values:
                marks = ", ".join("?" * len(row))
                connection.execute(f"INSERT INTO {table} VALUES ({marks})", row)
        connection.commit()
        return connection.serialize()


@pytest.fixture(scope="session")
def kit():
    return Kit()
