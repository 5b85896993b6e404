"""5,000 hostile strings through every command: what comes out has only sequences of our own."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import random
import re
import unicodedata

import pytest

import holdfast
from holdfast.apps.cli import cli
from holdfast.apps.cli._completion import SHELLS
from holdfast.apps.render.page import SGR, STYLES
from holdfast.testing.model_server import Say, ScriptedModel

pytestmark = pytest.mark.unmeasured

COUNT = 5_000
SESSIONS = 8
# What the command itself may write: the colours of its styles, and on a terminal what takes a
# line of progress away.
OURS = re.compile("\x1b\\[(?:0|" + "|".join(re.escape(one) for one in SGR.values()) + ")m")
PROGRESS = re.compile("\r\x1b\\[K")

C0 = [chr(code) for code in range(0x20) if chr(code) != "\n"] + ["\x7f"]
C1 = [chr(code) for code in range(0x80, 0xA0)]
TEXTS = ["a", "Lisbon", "漢字", "é", "0;1", "🧭", " ", "—"]
BODIES = ["2J", "H", "31m", "1;4;5;31m", "8m", "?1049h", "?25l", "6n", "999C", "2K", "3;5r", ">c"]
WORDS = ["0;owned", "52;c;aGk=", "8;;file:///etc/passwd", "1337;File=:AA", "4;1;?", "9;9;x", "q#0"]
ENDS = ["\x07", "\x1b\\", "\x9c", ""]
# Marks of direction, what has no width, separators of lines, tags, fillers.
INVISIBLE = [
    *map(chr, [0x061C, 0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x2028, 0x2029, 0x2060, 0xFEFF]),
    *map(chr, range(0x202A, 0x202F)),
    *map(chr, range(0x2066, 0x206A)),
    *map(chr, [0x00AD, 0x180E, 0x13430, 0x1343F, 0xE0001, 0xE0041, 0xE007F, 0xFFF9]),
]
LONE = ["\ud800", "\udc9b", "\udfff"]


def hostile_strings(count=COUNT):
    """The same strings every time, of each kind about as many."""
    chance = random.Random(97)
    pick = chance.choice
    kinds = [
        lambda: pick(C0),
        lambda: pick(C1),
        lambda: pick(["\x1b[", "\x9b"]) + pick(BODIES),
        lambda: pick(["\x1b]", "\x9d"]) + pick(WORDS) + pick(ENDS),  # OSC
        lambda: pick(["\x1bP", "\x90"]) + pick(WORDS) + pick(ENDS),  # DCS
        lambda: pick(["\x1b_", "\x9f"]) + pick(WORDS) + pick(ENDS),  # APC
        lambda: pick(["\x1b^", "\x9e"]) + pick(WORDS) + pick(ENDS),  # PM
        lambda: pick(["\x1bX", "\x98"]) + pick(WORDS) + pick(ENDS),  # SOS
        lambda: "\x1b" + pick("c78=>DEHMNOZ#6(0"),
        lambda: pick(INVISIBLE),
        lambda: "\r" + pick(TEXTS),
        lambda: "\b" * chance.randrange(1, 5),
        lambda: "[bold red]" + pick(["\x1b[5m", "[/]", "[link=file:///x]"]),
        lambda: pick(["$(id)", "`id`", "'; id; '", '"', "\\", "%s%n", "../x", "-rf", "*"]),
    ]
    for number in range(count):
        parts = [pick(TEXTS)]
        parts += [kinds[(number + turn) % len(kinds)]() for turn in range(chance.randrange(1, 4))]
        parts += [pick(TEXTS), pick(["", "\n", "\t"])]
        yield "".join(parts)


def harm_in(text):
    """The characters in an output that a terminal could obey or hide, beside our own sequences."""
    rest = OURS.sub("", text)
    return {
        one for one in set(rest) if one not in "\n\t" and unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    }


class Stream(io.TextIOWrapper):
    """Standard output or error as a program has it; a terminal if so wished."""

    def __init__(self, *, terminal, errors):
        self.bytes = io.BytesIO()
        super().__init__(self.bytes, encoding="utf-8", errors=errors, write_through=True)
        self._terminal = terminal

    def isatty(self):
        return self._terminal


def called(*arguments, terminal, store):
    """The command in this process with the streams that a process of its own would have."""
    out = Stream(terminal=terminal, errors="strict")
    err = Stream(terminal=terminal, errors="backslashreplace")
    settings = {"HOLDFAST_STORE": str(store), "TERM": "xterm-256color"}
    with pytest.MonkeyPatch.context() as patch:
        # However slow the machine is: what tells how far work is moves the cursor itself.
        patch.setattr("holdfast.apps.cli._progress._QUIET_SECONDS", 1e9)
        for name, value in settings.items():
            patch.setenv(name, value)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.main(list(arguments), standalone_mode=False)
    return code, out.bytes.getvalue().decode(), err.bytes.getvalue().decode()


@pytest.fixture(scope="module")
def strings():
    """All of them."""
    found = list(hostile_strings())
    assert len(set(found)) > 0.9 * COUNT
    return found


@pytest.fixture(scope="module")
def store(tmp_path_factory, strings):
    """Sessions in every place of which are some of the strings; each string is somewhere."""
    root = tmp_path_factory.mktemp("hostile") / "store"
    root.mkdir(mode=0o700)
    supply = iter(strings)
    with holdfast.open(root) as library:
        for number in range(SESSIONS):
            share = list(itertools.islice(supply, COUNT // SESSIONS))
            with library.session(f"evil-{number}", title=share[0], agent_id="agent") as s:
                _record(s, share[1:])
                s.snapshot()
    assert next(supply, None) is None
    return root


def _record(session, share):
    """Use up the strings in every kind of event that a screen shows."""
    take = iter(share)

    def some(count):
        return list(itertools.islice(take, count))

    for number in itertools.count():
        if not (part := some(25)):
            return
        # A NUL is refused when it is recorded; other tests give it to the command.
        word = itertools.cycle(text.replace("\0", "\1") for text in part).__next__
        session.tag(word())
        session.user(word())
        call = session.tool_call(word(), {word(): word(), "path": word()})
        session.tool_result(call, {word(): [word(), {word(): word()}]})
        session.extend(
            [
                ("delta", {"content": word() + "\x1b"}),
                ("delta", {"content": "[2J" + word()}),  # a sequence in two pieces
                ("assistant", {"content": [{"type": "text", "text": word()}], "agent": word()}),
                ("thinking", {"content": word()}),
                ("system", {"content": word()}),
                ("agent_error", {"error": word(), "agent": word()}),
                ("interrupted", {"reason": word()}),
                ("delegation", {"parent": word(), "child": word(), "task": word()}),
                ("x_" + "unknown", {word(): word()}),
            ]
        )
        session.variables[f"v{number}"] = word()


READING = [
    ["list"],
    ["list", "--tree"],
    ["search", "Lisbon", "--limit", "0"],
    ["search", "漢字", "--in", "evil-1"],
    *([["show", f"evil-{number}", "--full"] for number in range(SESSIONS)]),
    ["show", "evil-0"],
    ["show", "evil-0", "--at", "40"],
    ["show", "evil-0", "--events", "--full"],
    ["show", "evil-0", "--state"],
    ["show", "evil-0", "--messages"],
    ["stats"],
    ["stats", "--session", "evil-2"],
    ["stats", "--csv", "tools"],
    ["stats", "--csv", "tags"],
    ["snapshots", "evil-0"],
    ["recover", "evil-3"],
    ["compare", "evil-0", "evil-1"],
    ["tag", "evil-0"],
    ["tag", "evil-0", "--why"],
    ["title", "evil-4"],
    ["verify", "--all"],
    ["prune", "--dry-run", "--older-than", "1d"],
    ["doctor"],
    ["config", "show", "--all"],
    ["help", "show"],
    ["schema"],
]
WITHOUT_JSON = ("help", "schema")


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])
@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_reading(store, arguments, terminal):
    """Nothing that was recorded reaches a terminal as it is, nor a pipe."""
    colour = ["--color", "always" if terminal else "never"]
    code, out, err = called(*arguments, *colour, "--no-pager", terminal=terminal, store=store)
    assert code == 0, err
    assert harm_in(out) == set()
    assert harm_in(err) == set()
    assert out
    if not terminal:
        assert "\x1b" not in out + err


@pytest.mark.parametrize(
    "arguments", [one for one in READING if one[0] not in WITHOUT_JSON and "--csv" not in one], ids=" ".join
)
def test_reading_as_json(store, arguments):
    """JSON has no such character either, and is still JSON."""
    code, out, err = called(*arguments, "--json", "--no-pager", terminal=True, store=store)
    assert code == 0
    assert harm_in(out) == set()
    assert "\x1b" not in out
    lines = out.splitlines() if "--events" in arguments else [out]
    assert all(isinstance(json.loads(line), dict | list) for line in lines)
    assert all(json.loads(line) for line in err.splitlines())


def test_the_values_of_json_are_those_recorded(store, strings):
    """Escaping changes how a string is written, and not what it says."""
    shown = []
    for number in range(SESSIONS):
        _, out, _ = called("show", f"evil-{number}", "--events", "--json", terminal=True, store=store)
        for line in out.splitlines():
            shown.extend(_strings_in(json.loads(line)["data"]))
    wanted = {text for text in strings if "\0" not in text}
    everything = "\0".join(shown)  # which none of them holds
    assert [text for text in wanted if text not in everything] == []


def _strings_in(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from _strings_in(one)
    elif isinstance(value, list):
        for one in value:
            yield from _strings_in(one)


@pytest.mark.parametrize("format", ["markdown", "html", "text", "json", "jsonl", "anthropic"])
def test_exports_on_a_terminal(store, format):
    """A document that is shown instead of written is harmless as well."""
    code, out, err = called("export", "evil-5", "--format", format, "--no-pager", terminal=True, store=store)
    assert code == 0, err
    assert out
    assert harm_in(out) == set()


def test_changing(store, strings, tmp_path):
    """Every verb that changes something says what it did without harm."""
    words = (text.replace("\0", "\1") for text in strings[::61])
    evil = words.__next__
    for terminal in (True, False):
        mark = "t" if terminal else "p"
        calls = [
            ["fork", "evil-0", "--id", f"fork-{mark}", "--title", evil()],
            ["merge", "evil-0", f"fork-{mark}", "--id", f"merged-{mark}", "--title", evil()],
            ["restore", f"merged-{mark}", "--at", "3", "--id", f"back-{mark}"],
            ["title", f"fork-{mark}", evil()],
            ["tag", f"fork-{mark}", evil(), evil()],
            ["pin", f"fork-{mark}", "--hold", evil().replace("\n", " ")],
            ["pin", f"fork-{mark}", "--release"],
            ["archive", f"fork-{mark}"],
            ["repair", f"back-{mark}"],
            ["copy", f"back-{mark}", "--to", str(tmp_path / f"other-{mark}")],
            ["delete", f"back-{mark}", "--yes"],
            ["undelete", f"back-{mark}"],
            ["reindex"],
        ]
        for arguments in calls:
            code, out, err = called(*arguments, terminal=terminal, store=store)
            assert code == 0, (arguments, err)
            assert harm_in(out) == set()
            assert harm_in(PROGRESS.sub("", err)) == set()


def test_sealing_redacting_and_erasing(store, strings, tmp_path, monkeypatch):
    """Verbs that rewrite or destroy sessions with hostile words tell of it without harm."""
    words = [text.replace("\0", "\1").replace("\n", " ") for text in strings[::97]]
    for number, terminal in enumerate((True, False)):
        key, other = tmp_path / f"{number}.key", tmp_path / f"{number}-new.key"
        monkeypatch.setenv("HOLDFAST_KEY", f"file:{key}")
        calls = [
            ["keys", "new", f"file:{key}"],
            ["keys", "new", f"file:{other}"],
            ["keys", "check"],
            ["fork", "evil-6", "--id", f"sealed-{number}"],
            ["encrypt", f"sealed-{number}"],
            ["show", f"sealed-{number}", "--full", "--no-pager"],
            ["redact", f"sealed-{number}", "--find", words[number], "--dry-run"],
            ["redact", f"sealed-{number}", "--alone", "--find", words[number], "--yes"],
            ["keys"],
            ["rotate", "--to", f"file:{other}"],
            ["decrypt", f"sealed-{number}"],
            ["erase", f"sealed-{number}", "--yes"],
        ]
        for arguments in calls:
            code, out, err = called(*arguments, terminal=terminal, store=store)
            if arguments[0] == "rotate":
                monkeypatch.setenv("HOLDFAST_KEY", f"file:{other}")
            assert code in (0, 1), (arguments, err)
            assert harm_in(out) == set(), arguments
            assert harm_in(PROGRESS.sub("", err)) == set(), arguments


def test_answers_of_a_model(strings, tmp_path, monkeypatch):
    """What a model says is shown without harm as it comes, piece by piece."""
    rest = iter([text.replace("\0", "\1") for text in strings[::5]])

    def answer(_):
        return Say("".join(itertools.islice(rest, 100)) or "done")

    store = tmp_path / "talks"
    with ScriptedModel(answer) as model:
        monkeypatch.setenv("OPENAI_BASE_URL", model.openai_url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        for _ in range(COUNT // 5 // 100 // 2):
            for terminal in (True, False):
                code, out, err = called(
                    "run", "go on", "--model", "openai:scripted", "--new",
                    terminal=terminal, store=store,
                )  # fmt: skip
                assert code == 0, err
                assert out
                assert harm_in(out) == set()
                assert harm_in(err) == set()
    assert next(rest, None) is None


def test_failing(store, strings):
    """Whatever is given as a verb, an option, an id, a path or a value, the refusal is harmless."""
    words = [*strings[::37], *LONE]
    places = [
        lambda word: [word],
        lambda word: ["show", "--", word],
        lambda word: ["list", f"--{word}"],
        lambda word: ["list", "--since", word],
        lambda word: ["list", "--status", word],
        lambda word: ["recover", f"./{word}"],
        lambda word: ["import", f"./{word}"],
        lambda word: ["import", ".", "--format", word],
        lambda word: ["export", "evil-0", "--zone", word],
        lambda word: ["help", word],
        lambda word: ["schema", word],
        lambda word: ["stats", "--tz", word],
        lambda word: ["list", "--store", f"sqlite:///{word}"],
        lambda word: ["list", "--after", word],
        lambda word: ["search", "--", word],
        lambda word: ["completion", word],
        lambda word: ["acp", word],
    ]
    for number, word in enumerate(words):
        arguments = [one.replace("\0", "␀") for one in places[number % len(places)](word)]
        as_json = number // len(places) % 2
        extra = ["--json"] if as_json and "--" not in arguments else []
        code, out, err = called(*arguments, *extra, terminal=True, store=store)
        assert code in range(5), (arguments, err)
        assert "defect" not in err, (arguments, err)
        assert harm_in(out + err) == set(), arguments
        if extra and code:
            assert json.loads(err.splitlines()[-1])["error"]["exit_code"] == code


def test_names_and_contents_of_files(store, strings, tmp_path):
    """Files whose names and bytes are hostile, also such as are no text at all, are told of."""
    folder = os.fsencode(tmp_path / "in")
    os.mkdir(folder)
    names = [text.replace("/", "|").replace("\0", "0")[:60].encode() for text in strings[:60]]
    names += [b"\xff\xfe.jsonl", b"\x9b2J\xc3.json", b"\x1b]0;x\x07"]
    contents = [b"\x1b[2J", b"\xff\x9b\x00", b'{"messages": [{"role": "\x1b[5m"}]}', b"[]", b"{"]
    for number, name in enumerate(names):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(contents[number % len(contents)] + strings[number % 100].encode())
    messages = [{"role": "user", "content": strings[7]}, {"role": "assistant", "content": strings[8]}]
    with open(os.path.join(folder, b"\x1b[31mgood\xff.json"), "w", encoding="utf-8") as file:
        json.dump(messages, file)
    target = tmp_path / "target"
    for extra in (["--dry-run"], [], ["--json"]):
        for terminal in (True, False):
            _, out, err = called("import", os.fsdecode(folder), *extra, terminal=terminal, store=target)
            assert harm_in(out) == set()
            assert harm_in(err) == set()
            assert "defect" not in err
            if extra == ["--json"]:
                json.loads(out)
    for name in names[::9]:
        path = os.fsdecode(os.path.join(folder, name))
        for arguments in (["recover", path], ["import", path], ["import", path, "--json"]):
            _, out, err = called(*arguments, terminal=True, store=target)
            assert harm_in(out + err) == set()
            assert "defect" not in err


@pytest.mark.parametrize("kind", SHELLS)
def test_completion(store, monkeypatch, kind):
    """What a shell is offered has no control character: it would be typed by the shell."""
    for line in ("show ", "list --tag ", "list --agent ", "tag evil-0 "):
        words = f"holdfast {line}"
        monkeypatch.setenv("_HOLDFAST_COMPLETE", f"{kind}_complete")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", "" if kind == "fish" else str(len(words.split())))
        _, out, err = called(terminal=False, store=store)
        assert err == ""
        assert harm_in(out.replace("\t", "")) == set()
        assert "evil-0" in out or line != "show "


def test_our_sequences_are_those_of_the_styles():
    """The table for pipes says what rich makes of the styles, and no other sequence is written."""
    from rich.style import Style

    rendered = {name: Style.parse(look).render("x") for name, look in STYLES.items() if look}
    assert rendered == {name: f"\x1b[{code}mx\x1b[0m" for name, code in SGR.items()}


@pytest.mark.parametrize("arguments", [["list"], ["show", "evil-0", "--full"], ["show", "a\x1b[2J"]])
def test_in_a_real_terminal(tty, store, arguments):
    """The bytes that a terminal really gets have our colours, and nothing else to obey."""
    text = tty(*arguments, HOLDFAST_STORE=str(store), PAGER="cat").out
    assert "\x1b[" in text
    assert harm_in(text) == set()
