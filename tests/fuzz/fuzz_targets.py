"""What is fuzzed: each target takes any bytes, and raises nothing that is not documented."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec

from holdfast.apps.acp.recording.recorder import Notes
from holdfast.apps.acp.recording.values import clean
from holdfast.apps.http._operations import ENDPOINTS
from holdfast.apps.ipc.bridge import _RpcAsker, _TagAsker
from holdfast.apps.wire.frames import RpcError, Splitter, parse, parse_object
from holdfast.errors import HoldfastError
from holdfast.formats import READERS, Source, claims, reader_of
from holdfast.model import Event, LineReader
from holdfast.replay import PROVIDERS, recover, validate

CORPUS = Path(__file__).parent / "corpus"
# What the import tells as damage of a file, and goes on after: see library/_import_run.py.
OF_A_FILE = (HoldfastError, ValueError, TypeError, LookupError, AttributeError, RecursionError)
NAMES = ("a.jsonl", "a.json", ".aider.chat.history.md", "rollout-a.jsonl", "logs.json")
TYPES = ("user", "assistant", "tool_call", "tool_result", "thinking", "system", "compaction")


def line_decoder(data):
    """Lines of a log: nothing raises, and what is read was whole."""
    reader = LineReader()
    half = len(data) // 2
    events = [*reader.feed(data[:half]), *reader.feed(data[half:]), *reader.finish()]
    seqs = [event.seq for event in events]
    assert seqs == sorted(set(seqs))
    assert 0 <= reader.position.offset <= len(data)


def importers(data):
    """The bytes as a file of every tool."""
    source = Source.of_bytes(NAMES[len(data) % len(NAMES)], data)
    for name in READERS:
        reader = reader_of(name)
        if claims(reader, source):
            try:
                for foreign in reader.read(source):
                    assert foreign is not None
            except OF_A_FILE:
                continue


def sanitiser(data):
    """The bytes as the data of events: what a provider gets is valid by its rules."""
    events = []
    for seq, piece in enumerate(data.split(b"\n")[:12]):
        try:
            found = msgspec.json.decode(piece)
        except (ValueError, RecursionError):
            found = piece.decode("utf-8", "replace")
        value = found if isinstance(found, dict) else {"content": found, "id": "a", "tool": "t"}
        type = TYPES[(seq + len(data)) % len(TYPES)]
        try:
            events.append(Event.make(type, value, seq=seq))
        except HoldfastError:
            continue
    provider = PROVIDERS[len(data) % len(PROVIDERS)]
    assert validate(recover(events, provider).messages, provider).errors == []


def bridge(data):
    """Lines to the bridge: a frame, or the refusal that is sent back."""
    splitter = Splitter(4096)
    for line in [*splitter.feed(data), *splitter.end()]:
        if isinstance(line, bytes):
            try:
                frame = parse_object(line)
                is_rpc = "method" in frame or "jsonrpc" in frame
                (_RpcAsker(frame) if is_rpc else _TagAsker(frame)).read()
            except RpcError:
                continue


def acp(data):
    """Lines of an editor or an agent: taken down, whatever they hold."""
    notes = Notes(next_seq=lambda: 0)
    for line in data.split(b"\n")[:8]:
        try:
            frame = parse(line)
        except RpcError:
            continue
        for take in (notes.client, notes.agent):
            for _, value in take(frame).events:
                clean(value)


def http(data):
    """Bodies and parameters of the endpoints: a value, or the refusal that is sent back."""
    first = len(data) % len(ENDPOINTS)
    chosen = (ENDPOINTS + ENDPOINTS)[first : first + 6]
    for endpoint in chosen:
        if endpoint.body is not None:
            try:
                msgspec.json.decode(data, type=endpoint.body)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                continue
    text = data[:200].decode("latin-1")
    for endpoint in chosen:
        fields = msgspec.structs.fields(endpoint.query)
        try:
            msgspec.convert({f.name: text for f in fields}, endpoint.query, strict=False)
        except msgspec.ValidationError:
            continue


TARGETS = {f.__name__: f for f in (line_decoder, importers, sanitiser, bridge, acp, http)}
WEIGHTS = {"line_decoder": 10, "importers": 2, "sanitiser": 2, "bridge": 10, "acp": 5, "http": 3}
"""How the inputs of a campaign are shared out: the quick targets get more."""

WORDS = (
    *(b'{"type":', b'"content":', b'"role":"user"', b"[", b"]", b"{", b"}", b",", b'"', b"\n"),
    *(b"\0", b"\xff", b"\\ud800", b"1e999", b"-0", b"NaN", b"null", b"true", b'"$blob":'),
    *(b'{"jsonrpc":"2.0","method":"session/update","params":', b'"id":', b"9" * 70, b"[" * 80),
    *(b'"tool_use"', b'"toolCallId"', b'"sessionUpdate":"tool_call"', b'"type":"session_load"'),
    *(b"\x1b]0;x\x07", b'"params":', b'"timestamp":', b"\xed\xa0\x80", b'{"seq":0,', b',"crc":"'),
)


def corpus():
    """The files, each short enough to be changed often."""
    return [path.read_bytes()[:4096] for path in sorted(CORPUS.glob("*.jsonl"))]


def mutated(seeds, chance: random.Random) -> bytes:
    """One of the files with a few changes, or a heap of words."""
    if chance.random() < 0.3:
        return b"".join(chance.choices(WORDS, k=chance.randrange(1, 14)))
    data = bytearray(chance.choice(seeds))
    start = chance.randrange(len(data) + 1)
    data = data[start : start + chance.randrange(1, 600)]
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(4)
        if kind == 0:
            data[at:at] = chance.choice(WORDS)
        elif kind == 1:
            del data[at : at + chance.randrange(1, 20)]
        elif kind == 2 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        else:
            data[at:at] = data[: chance.randrange(1, 60)]
    return bytes(data)
