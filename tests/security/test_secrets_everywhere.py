"""Formats of secrets x places that can hold text x ways in which it comes: none is in the bytes of the store.

A push tries every tenth format; ``CRASH_CAMPAIGN=full`` all of them. Nothing here is a real secret: each is made from
the pattern of its rule.
"""

from __future__ import annotations

import base64
import contextlib
import importlib.util
import io
import json
import logging
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import holdfast
from holdfast import Edited, Result
from holdfast.errors import SecretFound
from holdfast.model import is_id
from holdfast.security.redaction.rules import standard_rules


def _module(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(Path(name).stem, Path(__file__).parent / name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


specimen = _module("specimens.py").specimen
record_figure = _module("../crash/campaign_log.py").record
FULL = os.environ.get("CRASH_CAMPAIGN") == "full"
FORMATS = 300
REDACTING = {"redaction": {"mode": "mark", "environment": False}}
LONG = "plain words of a long output\n" * 3000  # a payload beside the log


class Planted(NamedTuple):
    """A made-up secret: the text that it came in, itself, and whether it is known without its neighbours."""

    text: str
    secret: str
    alone: bool


def planted() -> list[Planted]:
    """300 secrets of all formats: each rule once, then again with other signs."""
    rules = standard_rules().rules
    found: dict[str, Planted] = {}
    for number in range(10 * FORMATS):
        rule = rules[number % len(rules)]
        text, secret = specimen(rule, number // len(rules))
        if len(secret) >= 8:
            found.setdefault(secret, Planted(text, secret, not rule.guess and _is_alone(secret)))
        if len(found) == FORMATS:
            return list(found.values())
    raise AssertionError("too few formats")


def _is_alone(secret: str) -> bool:
    from holdfast.security import Scanner

    spans = Scanner().find(secret).spans
    return bool(spans) and not spans[0].guess and (spans[0].start, spans[0].stop) == (0, len(secret))


@cache
def chosen() -> list[Planted]:
    """Those that are tried: made when the first test asks, not while tests are found."""
    return planted() if FULL else planted()[::10]


def alone() -> list[Planted]:
    return [one for one in chosen() if one.alone]


def left(root: Path, secrets: list[str]) -> list[tuple[str, str]]:
    """Which secrets are in the bytes of which files; counted for the campaign."""
    found = held_in(root, secrets)
    record_figure("secrets", len(secrets), wrong=len(found))
    return found


def held_in(root: Path, secrets: list[str]) -> list[tuple[str, str]]:
    """Which secrets are in the bytes of which files, as they are or as JSON writes them."""
    forms = [(one, form) for one in secrets for form in {one, json.dumps(one)[1:-1]}]
    held = [(path, path.read_bytes()) for path in sorted(root.rglob("*")) if path.is_file()]
    return [(secret, path.name) for path, data in held for secret, form in forms if form.encode() in data]


def indexed(root: Path) -> list[str]:
    """Which secrets can be found by a part of them in the words of the search index, which are no bytes of the text."""
    words: set[str] = set()
    for path in root.rglob("*catalog*"):
        if path.is_file() and path.read_bytes()[:15] == b"SQLite format 3":
            with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as index:
                words.update(word for (word,) in index.execute("SELECT term FROM said_vocabulary"))
    parts = {one.secret: max(re.findall("[a-z0-9]*", one.secret.lower()), key=len) for one in chosen()}
    return [secret for secret, part in parts.items() if len(part) >= 8 and part in words]


Put = Callable[[Any, Any, str], None]


def ask(s: Any) -> str:
    """The id of a question that the session waits for from now on."""
    id = f"{s.seq + 1:012x}"
    s.append("suspended", {"id": id, "kind": "permission", "tool": "Run", "call": "c"})
    return id


def answer(hf: Any, s: Any, given: Any, **said: Any) -> None:
    """Answer a question as another process does: by a document that waits for who has the session."""
    hf.answer(ask(s), given, session_id=s.id, **said)


PLACES: dict[str, Put] = {
    "user": lambda hf, s, text: s.user(text),
    "assistant": lambda hf, s, text: s.assistant([{"type": "text", "text": text}]),
    "thinking": lambda hf, s, text: s.append("thinking", {"content": text}),
    "system": lambda hf, s, text: s.append("system", {"content": text}),
    "call": lambda hf, s, text: s.tool_call("Run", {"command": text, "deep": [{"er": [text]}]}),
    "result": lambda hf, s, text: s.append("tool_result", {"toolCallId": "c", "result": {"stdout": text}}),
    "payload": lambda hf, s, text: s.append("tool_result", {"toolCallId": "c", "result": LONG + text}),
    "json in json": lambda hf, s, text: s.user(json.dumps(json.dumps({"said": text}))),
    "title": lambda hf, s, text: s.append("title", {"title": text}),
    "tag": lambda hf, s, text: s.append("tag", {"tag": text}),
    "metadata": lambda hf, s, text: s.append("metadata", {"note": text}),
    "variable": lambda hf, s, text: s.append("variable_set", {"name": "v", "value": {"x": text}}),
    "memory": lambda hf, s, text: s.append("memory_set", {"key": "m", "value": text}),
    "todo": lambda hf, s, text: s.append("todo_update", {"todos": [{"content": text, "status": "pending"}]}),
    "plugin": lambda hf, s, text: s.append("plugin_state", {"name": "p", "state": {"x": text}}),
    "step": lambda hf, s, text: s.append("step_result", {"step": "a", "ok": True, "value": text}),
    "frame": lambda hf, s, text: s.append("frame", {"direction": "agent", "frame": {"params": {"x": text}}}),
    "raw": lambda hf, s, text: s.append("user", {"content": "x", "raw": {"of": "an adapter", "kept": [text]}}),
    "own type": lambda hf, s, text: s.append("my.own", {"anything": text}),
    "reason": lambda hf, s, text: s.append("suspended", {"reason": text}),
    "error": lambda hf, s, text: s.append("agent_error", {"agent": "a", "error": {"message": text}}),
    "answer": lambda hf, s, text: answer(hf, s, Result({"said": text})),
    "edited arguments": lambda hf, s, text: answer(hf, s, Edited({"command": text})),
    "refusal": lambda hf, s, text: answer(hf, s, False, because=text),
    "outsider": lambda hf, s, text: hf.inbox.token(ask(s), text),
    "lasting memory": lambda hf, s, text: s.memory.set(f"k{s.seq}", text, scope="persistent"),
}
NAMES: dict[str, Put] = {
    "member": lambda hf, s, text: s.append("metadata", {text: 1, "deep": [{text: {"x": 1}}]}),
    "call id": lambda hf, s, text: s.append("tool_call", {"id": text, "tool": "Run", "params": {}}),
    "tool": lambda hf, s, text: s.append("tool_call", {"id": "c", "tool": text, "params": {}}),
    "key": lambda hf, s, text: s.append("metadata", {"x": 1}, key=f"order:{text}"[:200]),
}


def record(root: Path, put: Put, texts: list[str], kind: str = "file") -> None:
    """Record each text at the place, close everything, and ask for lists and words, which are then in the index."""
    where = str(root) if kind == "file" else f"sqlite:///{root}/store.db"
    with holdfast.open(where, config=REDACTING) as hf:
        with hf.session("a", agent_id="agent") as s:
            for text in texts:
                put(hf, s, text)
            s.snapshot()
        hf.list()
        list(hf.search("words", limit=5))


@pytest.mark.parametrize("kind", ["file", "sqlite"])
@pytest.mark.parametrize("place", PLACES)
def test_no_secret_is_recorded_in_any_place(tmp_path, place, kind):
    """A secret of any format, in the text it comes in, is in no byte of log, payloads, snapshots and index."""
    record(tmp_path, PLACES[place], [f"see {one.text} there" for one in chosen()], kind)
    assert not left(tmp_path, [one.secret for one in chosen()])
    assert not indexed(tmp_path)


@pytest.mark.parametrize("place", NAMES)
def test_no_secret_is_recorded_as_a_name(tmp_path, place):
    """A token that is known by itself is in no name of a member, id, tool or key."""
    record(tmp_path, NAMES[place], [one.secret for one in alone()])
    assert not left(tmp_path, [one.secret for one in alone()])


@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_no_secret_comes_in_by_an_event_from_elsewhere(tmp_path, kind):
    """What a webhook tells is kept for who will wait for it: without secrets; a name that is one is refused."""
    where = str(tmp_path) if kind == "file" else f"sqlite:///{tmp_path}/store.db"
    with holdfast.open(where, config=REDACTING) as hf:
        for number, one in enumerate(chosen()):
            hf.inbox.signal(f"event{number}", {"body": f"see {one.text} there"})
        for one in alone():
            with pytest.raises(SecretFound):
                hf.inbox.signal(one.secret)
        assert not held_in(tmp_path, [one.secret for one in chosen()])
    assert not left(tmp_path, [one.secret for one in chosen()])


def test_names_that_cannot_be_marked_are_refused_without_repeating_them(tmp_path):
    """An id, run or type that is a token raises SecretFound, whose words do not have it either."""
    with holdfast.open(tmp_path, config=REDACTING) as hf, hf.session("a") as s:
        for one in alone():
            with pytest.raises(SecretFound) as refused:
                s.append("metadata", {"x": 1}, run=one.secret)
            assert one.secret not in f"{refused.value!r} {refused.value} {vars(refused.value)}"
            if is_id(one.secret):
                with pytest.raises(SecretFound) as refused:
                    hf.session(one.secret)
                assert one.secret not in f"{refused.value!r} {refused.value} {vars(refused.value)}"
    assert not left(tmp_path, [one.secret for one in alone()])


@pytest.mark.parametrize("size", range(1, 8))
def test_no_streamed_secret_is_recorded(tmp_path, size):
    """A secret that comes in pieces of any size, as words or as thoughts, is in no byte of the store."""
    with holdfast.open(tmp_path, config=REDACTING) as hf, hf.session("a") as s:
        for number, one in enumerate(chosen()):
            text = f"see {one.text} there\n"
            kind = "thinking" if number % 2 else "text"
            for at in range(0, len(text), size):
                s.delta(text[at : at + size], kind=kind)
            s.user("next")
    # Of a token that began with words, what came before it was known may be recorded: its end never is.
    ends = [one.secret[-max(8, len(one.secret) // 2) :] for one in chosen()]
    assert not left(tmp_path, ends)


CODES: dict[str, Callable[[str], str]] = {
    "percent": lambda text: "".join(f"%{ord(sign):02X}" if sign.isascii() else sign for sign in text),
    "percent of signs": lambda text: "".join(sign if sign.isalnum() else f"%{ord(sign):02x}" for sign in text),
    "entity": lambda text: "".join(f"&#{ord(sign)};" for sign in text),
    "entity of signs": lambda text: "".join(sign if sign.isalnum() else f"&#x{ord(sign):x};" for sign in text),
    "base64": lambda text: base64.b64encode(f"some words before {text} and after".encode()).decode(),
    "base64 for addresses": lambda text: base64.urlsafe_b64encode(f"{text} and words after".encode()).decode(),
}


@pytest.mark.parametrize("code", CODES)
def test_no_coded_secret_is_recorded(tmp_path, code):
    """A token that is coded for an address, a page or a mail is in no byte of the store, nor is its coded form.

    So is a secret that is known by its neighbours. In full, and not in one place only, at every place.
    """
    plain = [one for one in alone() if one.secret.isascii() and one.secret.isprintable()]
    coded = [CODES[code](one.secret) for one in plain]
    for name in {**PLACES, **NAMES} if FULL else ["result"]:
        texts = coded if name in NAMES else [f"see {text} there" for text in coded]
        record(tmp_path / name, {**PLACES, **NAMES}[name], texts)
    guessed = [CODES[code](one.text) for one in chosen() if one not in plain and one.text.isascii()]
    record(tmp_path / "guessed", PLACES["result"], [f"see {text} there" for text in guessed])
    assert not left(tmp_path, [one.secret for one in plain] + [text for text in coded + guessed if len(text) > 10])


@pytest.mark.parametrize("code", CODES)
def test_no_coded_secret_is_recorded_in_pieces(tmp_path, code):
    """Nor is it where it is streamed, in pieces of any size: a piece alone tells nothing of the whole."""
    plain = [one for one in alone() if one.secret.isascii() and one.secret.isprintable()]
    coded = [CODES[code](one.secret) for one in plain]
    for size in range(1, 8) if FULL else [3]:
        with holdfast.open(tmp_path / str(size), config=REDACTING) as hf:
            with hf.session("a") as s:
                for text in coded:
                    said = f"see {text} there\n"
                    for at in range(0, len(said), size):
                        s.delta(said[at : at + size])
                    s.user("next")
            events = [(event.type, event.data.get("content", "")) for event in hf.events("a")]
        told = "".join(text if type == "delta" else "\0" for type, text in events)
        wrong = [text for text in coded if text[-max(8, len(text) // 2) :] in told]
        record_figure("secrets", len(coded), wrong=len(wrong))
        assert wrong == []
        assert told.count("[secret:") >= len(coded)


def imported_files(folder: Path, texts: list[str]) -> Iterator[Path]:
    """The same conversation in two forms that are brought in."""
    messages = [{"role": "user" if n % 2 == 0 else "assistant", "content": text} for n, text in enumerate(texts)]
    plain = folder / "messages.json"
    plain.write_text(json.dumps(messages))
    yield plain
    lines = [
        {"type": "user", "uuid": f"u{n}", "sessionId": "s", "timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/tmp"}
        | {"message": {"role": "user", "content": text}, "version": "2.0.0"}
        for n, text in enumerate(texts)
    ]
    claude = folder / "c337d669-01ea-4875-a35d-b66bfa2a361a.jsonl"
    claude.write_text("".join(json.dumps(line) + "\n" for line in lines))
    yield claude


def test_no_imported_secret_is_recorded(tmp_path):
    """What another tool wrote down of a secret is brought in without it."""
    (tmp_path / "files").mkdir()
    store = tmp_path / "store"
    with holdfast.open(store, config=REDACTING) as hf:
        for path in imported_files(tmp_path / "files", [f"see {one.text} there" for one in chosen()]):
            assert hf.import_(path)
        hf.list()
    assert not left(store, [one.secret for one in chosen()])


@pytest.fixture(params=["file", "sqlite"])
def spoilt(tmp_path, request):
    """A store in which every secret is on record, in a session, its fork and the trash; and its folder."""
    where = str(tmp_path) if request.param == "file" else f"sqlite:///{tmp_path}/store.db"
    with holdfast.open(where, key=b"k" * 32) as hf:
        with hf.session("a", agent_id="agent", title=f"about {chosen()[0].text}") as s:
            for number, one in enumerate(chosen()):
                put = list(PLACES.values())[number % len(PLACES)]
                put(hf, s, f"see {one.text} there")
            s.snapshot()
        hf.fork("a")
        hf.delete(hf.fork("a"))
        hf.search("there")  # the index has its words then
        assert len({secret for secret, _ in held_in(tmp_path, [one.secret for one in chosen()])}) > 0.9 * len(chosen())
        assert indexed(tmp_path)
        yield hf, tmp_path


@pytest.mark.parametrize("act", ["redact", "erase", "encrypt"])
def test_no_secret_is_left_after_the_fact(spoilt, act):
    """After ``redact``, ``erase`` or ``encrypt`` of everything, the same search finds nothing."""
    hf, root = spoilt
    if act == "redact":
        hf.redact("a")
    elif act == "encrypt":
        hf.keys.encrypt()
    else:
        hf.erase("a")
        hf.purge_agent("agent")
    secrets = [one.secret for one in chosen()]
    assert not held_in(root, secrets)  # a database that is open has its journal beside it
    hf.list()
    assert not indexed(root)
    hf.close()
    assert not left(root, secrets)


def test_a_bundle_of_what_was_recorded_has_no_secret(tmp_path):
    """What leaves the store as a bundle or as text is as free of secrets as the store."""
    with holdfast.open(tmp_path / "store", config=REDACTING) as hf:
        with hf.session("a") as s:
            for one in chosen():
                s.user(f"see {one.text} there")
        (tmp_path / "out").mkdir()
        for form in ("bundle", "json", "jsonl", "markdown", "html", "text"):
            data = hf.export("a", form)
            (tmp_path / "out" / form).write_bytes(data if isinstance(data, bytes) else data.encode())
    assert not left(tmp_path / "out", [one.secret for one in chosen()])


class Telemetry:
    """An SDK of OpenTelemetry, figures for Prometheus and logs of every level, each as one text."""

    def __init__(self, hf: Any, logs: io.StringIO, *, content: bool) -> None:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        from holdfast.integrations.otel import observe
        from holdfast.observe import JsonFormatter, LogObserver, Metrics

        self.spans, self.reader, self.metrics = InMemorySpanExporter(), InMemoryMetricReader(), Metrics()
        self.traces, self.meters = TracerProvider(), MeterProvider([self.reader])
        self.traces.add_span_processor(SimpleSpanProcessor(self.spans))
        handler = logging.StreamHandler(logs)
        handler.setFormatter(JsonFormatter())
        self.logger = logging.getLogger("of the test")
        self.logger.setLevel(logging.DEBUG)
        self.logger.handlers[:] = [handler]
        observe(hf, tracer_provider=self.traces, meter_provider=self.meters, content=content)
        hf.observe(self.metrics)
        hf.observe(LogObserver(self.logger, content=content))

    def texts(self, hf: Any) -> dict[str, str]:
        from holdfast.integrations.otel import trace_session

        trace_session(hf, "a", tracer_provider=self.traces, content=True)
        found = {
            "traces": "".join(span.to_json() for span in self.spans.get_finished_spans()),
            "metrics": self.reader.get_metrics_data().to_json(),
            "prometheus": self.metrics.text(),
        }
        self.traces.shutdown()
        self.meters.shutdown()
        return found


@pytest.mark.parametrize("content", [False, True], ids=["figures", "content"])
def test_no_secret_is_in_traces_metrics_and_logs(tmp_path, content):
    """Whatever place it came in by, also where what was said is asked for: in no span, point, figure or record."""
    logs = io.StringIO()
    (tmp_path / "out").mkdir()
    puts = list(PLACES.values())
    with holdfast.open(tmp_path / "store", config=REDACTING) as hf:
        telemetry = Telemetry(hf, logs, content=content)
        with hf.session("a", agent_id="agent") as s:
            for number, one in enumerate(chosen()):
                puts[number % len(puts)](hf, s, f"see {one.text} there")
                s.append("turn_start", {"agent": "a", "prompt": one.text})
                s.append("agent_error", {"agent": "a", "error": {"message": one.text}})
            for number, one in enumerate(alone()):
                list(NAMES.values())[number % len(NAMES)](hf, s, one.secret)
                with pytest.raises(SecretFound):
                    s.append("metadata", {"x": 1}, run=one.secret)
            s.snapshot()
        for name, text in telemetry.texts(hf).items():
            (tmp_path / "out" / name).write_text(text)
    (tmp_path / "out" / "logs").write_text(logs.getvalue())
    assert logs.getvalue()
    assert not left(tmp_path, [one.secret for one in chosen()])


ECHO = """
import json, sys

def send(**frame):
    print(json.dumps({"jsonrpc": "2.0", **frame}), flush=True)

for line in sys.stdin:
    asked = json.loads(line)
    answers = {"initialize": {"protocolVersion": 1}, "session/new": {"sessionId": "s"}}
    if asked.get("method") == "session/prompt":
        text = asked["params"]["prompt"][-1]["text"]
        for at in range(0, len(text), 5):
            chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text[at : at + 5]}}
            send(method="session/update", params={"sessionId": "s", "update": chunk})
        send(id=asked["id"], result={"stopReason": "end_turn"})
    elif "id" in asked:
        send(id=asked["id"], result=answers.get(asked["method"], {}))
"""


def test_no_secret_that_passes_the_proxy_as_a_program_stays(tmp_path):
    """Prompts and streamed answers go through it as they are: store, log and what it says keep none of them."""
    command = [str(Path(sys.executable).with_name("holdfast")), "--store", str(tmp_path / "store"), "acp", "proxy"]
    environment = {**os.environ, "HOLDFAST_LOG_LEVEL": "debug", "HOLDFAST_LOG_FILE": str(tmp_path / "log")}
    frames = [{"method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": {}}}]
    frames.append({"method": "session/new", "params": {"cwd": str(tmp_path), "mcpServers": []}})
    with (
        (tmp_path / "said").open("wb") as said,
        subprocess.Popen(
            [*command, "--", sys.executable, "-c", ECHO],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            env=environment,
            text=True,
        ) as proxy,
    ):

        def call(number: int, frame: dict[str, Any]) -> Any:
            proxy.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, **frame}) + "\n")
            proxy.stdin.flush()
            for line in proxy.stdout:
                passed.append(line)
                answer = json.loads(line)
                if answer.get("id") == number and "method" not in answer:
                    return answer["result"]
            raise AssertionError((tmp_path / "said").read_text())

        passed: list[str] = []
        id = [call(number, frame) for number, frame in enumerate(frames, 1)][1]["sessionId"]
        for number, one in enumerate(chosen(), 3):
            text = [{"type": "text", "text": f"see {one.text} there"}]
            call(number, {"method": "session/prompt", "params": {"sessionId": id, "prompt": text}})
        proxy.stdin.close()
        proxy.wait(60)
    assert len(passed) > 2 * len(chosen())
    assert not left(tmp_path, [one.secret for one in chosen()])
