"""A store with logs as they are given, and every surface on which people read them."""

from __future__ import annotations

import json
import re
from itertools import count

import pytest
from click.testing import CliRunner

import holdfast
from holdfast.apps.acp.replay.replay import replay
from holdfast.apps.cli import cli
from holdfast.apps.render.transcript import lost_from
from holdfast.apps.tui._entry_lines import EntryLook, block_of
from holdfast.apps.tui._window import PageReader
from holdfast.session import resolve_blobs
from holdfast.testing.strategies import encode_log

EXPORTS = ("markdown", "html", "text", "json")
SURFACES = ("show", "show-full", *EXPORTS, "mcp", "web", "tui", "acp")


class Shelf:
    """Logs in a store, and what each surface makes of them."""

    def __init__(self, root, **options):
        root.mkdir(mode=0o700)
        self.root = root
        self.hf = holdfast.open(root, **options)
        self._numbers = count()
        self._visitor = self._server = None

    def put(self, events, damaged=()):
        """A session whose log holds these events, some of them damaged; its id."""
        id = f"s{next(self._numbers)}"
        folder = self.root / "sessions" / id
        folder.mkdir(parents=True, mode=0o700)
        folder.parent.chmod(0o700)
        lines = encode_log(events).splitlines(keepends=True)
        for seq in damaged:
            lines[seq] = lines[seq].replace(b'"data"', b'"dada"')
        (folder / "events.jsonl").write_bytes(b"".join(lines))
        (folder / "events.jsonl").chmod(0o600)
        return id

    def record(self, events):
        """A session that was told all of this, event by event; its id."""
        id, places = f"s{next(self._numbers)}", {}
        with self.hf.session(id) as session:
            for event in events[1:]:
                data = event.data
                if "covers_from" in data:
                    data["covers_from"] = places[data["covers_from"]]
                places[event.seq] = session.append(event.type, data, run=event.run).seq
        return id

    def read(self, surface, id):
        """All that the surface shows of a session, to the end."""
        if surface in EXPORTS:
            found = self.hf.export(id, surface)
            return found + _streamed(json.loads(found)) if surface == "json" else found
        return getattr(self, "_" + surface.replace("-", "_"))(id)

    def close(self):
        """Give everything back."""
        if self._visitor is not None:
            self._visitor.__exit__(None, None, None)
        self.hf.close()

    def run(self, *arguments):
        """What the command prints."""
        settings = {"HOLDFAST_STORE": str(self.root), "COLUMNS": "100"}
        result = CliRunner(env=settings).invoke(cli, list(arguments))
        assert result.exit_code == 0 or "is damaged; everything" in result.stderr, result.output
        return result.stdout

    def _show(self, id):
        return self.run("show", id)

    def _show_full(self, id):
        return self.run("show", id, "--full")

    def _mcp(self, id):
        """As an agent reads it: part by part, as each part says."""
        if self._server is None:
            server = pytest.importorskip("holdfast.apps.mcp.server", reason="no MCP SDK")
            self._server = server.SessionServer(self.hf)
        start, parts = 0, []
        while start is not None:
            part = self._server.read_session(id, start=start, limit=7)
            parts.append(part)
            more = re.search(r"\nMore: start=(\d+)\Z", part)
            assert more is None or int(more[1]) > start
            start = None if more is None else int(more[1])
        return "\n".join(parts)

    def alone(self, id, seq):
        """One event, as an agent reads it that wants more of it."""
        return self._server.read_session(id, start=seq, limit=1)

    def _web(self, id):
        """The page, and the parts before it that the reader scrolls to."""
        visitor, parts, url = self._entered(), [], f"/s/{id}"
        while url is not None:
            page = visitor.get(url)
            assert page.status_code == 200
            parts.append(page.text)
            earlier = re.search(r'data-get="([^"]*/earlier\?stop=\d+)"', page.text)
            url = None if earlier is None else earlier[1]
        return "\n".join(reversed(parts))

    def _entered(self):
        if self._visitor is None:
            pytest.importorskip("starlette", reason="starlette is not installed")
            from starlette.testclient import TestClient

            from holdfast.apps.web._actions import Talks
            from holdfast.apps.web._page import Site
            from holdfast.apps.web.app import make_app

            site = Site(hf=self.hf, where="a place", talks=Talks(self.hf, lambda: None))
            self._visitor = TestClient(make_app(site), base_url="http://127.0.0.1:8000")
            self._visitor.__enter__()
            self._visitor.get("/in", params={"token": site.door.link()})
        return self._visitor

    def visit(self, url):
        """Another page."""
        return self._entered().get(url).text

    def _tui(self, id):
        """The lines of every entry, unfolded, chunk by chunk from the end."""
        reader = PageReader(self.hf, id)
        chunk, drawn = reader.before(None), []
        while chunk is not None:
            blocks = [block_of(entry, chunk.who(entry), EntryLook(100), is_open=True) for entry in chunk.entries]
            drawn.insert(0, "\n".join(line.text for block in blocks for line in block.lines))
            chunk = reader.before(chunk.first) if chunk.first else None
        return "\n".join(drawn)

    def _acp(self, id):
        """What an editor is sent that loads the session; texts as they are, not escaped."""
        documents = self.hf.store.documents(f"sessions/{id}")
        events = resolve_blobs(self.hf.events(id), documents)
        lost = lost_from(self.hf, id)
        frames = replay(events, id, stop=None if lost is None else lost + 1)
        return "\n".join(_texts(json.loads(frame)) for frame in frames)


def _streamed(document):
    """The pieces of each run in a row: a program that reads them puts them together."""
    runs = {}
    for event in document["events"]:
        if event["type"] == "delta":
            runs.setdefault(event.get("run"), []).append(event["data"]["content"])
    return "\n".join("".join(pieces) for pieces in runs.values())


def _texts(value):
    if isinstance(value, dict):
        return "\n".join(f"{name} {_texts(item)}" for name, item in value.items())
    return "\n".join(map(_texts, value)) if isinstance(value, list) else str(value)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """A store for all tests of a module: each puts its own sessions there."""
    found = Shelf(tmp_path_factory.mktemp("shelf") / "store")
    yield found
    found.close()


@pytest.fixture(scope="module")
def discreet(tmp_path_factory):
    """A store that records marks in the place of secrets."""
    found = Shelf(tmp_path_factory.mktemp("discreet") / "store", config={"redaction": {"mode": "mark"}})
    yield found
    found.close()


@pytest.fixture(params=SURFACES)
def surface(request):
    """One of the places where people read a session."""
    return request.param


@pytest.fixture(scope="session")
def surfaces():
    """All of them."""
    return SURFACES
