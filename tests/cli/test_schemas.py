"""What `--json` prints is what the schemas say, no more and no less."""

from __future__ import annotations

import ast
import io
import json
from pathlib import Path

import click
import jsonschema
import pytest

from holdfast.apps.cli import _app as app_module
from holdfast.apps.cli import cli
from holdfast.apps.cli._app import VERBS
from holdfast.apps.cli._failure import Failure, explain, tell_failure
from holdfast.apps.cli._screen import Screen
from holdfast.apps.cli.schema import DOCUMENTS, schema_of
from holdfast.errors import NotFound


def closed(node):
    """The schema with no room for members that it does not name."""
    if isinstance(node, list):
        return [closed(one) for one in node]
    if not isinstance(node, dict):
        return node
    found = {name: closed(one) for name, one in node.items()}
    if "properties" in found and found.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found


def check(name, document):
    """Fails if a document is not as the schema of that name says, or has more than it names."""
    schema = schema_of(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, closed(schema))


@pytest.fixture
def full(library, trip):
    """A store in which every reading verb has something to say."""
    library.fork(trip, new_id="fork-a")
    with library.session("fork-a") as s:
        s.user("And Porto?")
        s.variables["budget"] = 1_000
        s.tool_result(s.tool_call("Read", {"path": "notes.md"}), "notes")
        s.assistant("By train.", usage={"input_tokens": 10, "output_tokens": 4})
        s.snapshot()
    with library.session(trip) as s:
        s.user("And Faro?")
        s.variables["budget"] = 800
        s.tool_call("Bus", {})  # has no result, so that a recovery has something to tell
    return trip


CALLS = {
    "list": ["list", "--json"],
    "search": ["search", "Lisbon", "--json"],
    "show": ["show", "trip-planner", "--json"],
    "recover": ["recover", "trip-planner", "--json", "--window-tokens", "30"],
    "stats": ["stats", "--json"],
    "stats-session": ["stats", "--session", "trip-planner", "--json"],
    "snapshots": ["snapshots", "fork-a", "--json"],
    "compare": ["compare", "trip-planner", "fork-a", "--json"],
    "title": ["title", "trip-planner", "--json"],
    "tag": ["tag", "trip-planner", "--json"],
    "tag-why": ["tag", "trip-planner", "--why", "--json"],
    "verify": ["verify", "--all", "--json"],
    "config": ["config", "show", "--all", "--json"],
    "config-check": ["config", "check", "--json"],
    "config-path": ["config", "path", "--json"],
    "doctor": ["doctor", "--json"],
    "metrics": ["metrics", "--json"],
    "prune": ["prune", "--keep", "1", "--dry-run", "--json"],
    "fork": ["fork", "trip-planner", "--at", "3", "--json"],
    "merge": ["merge", "trip-planner", "fork-a", "--json"],
    "reindex": ["reindex", "--json"],
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.usefixtures("full")
def test_documents(run, name):
    """One document, with every member that the schema promises and none that it does not name."""
    outcome = run(*CALLS[name])
    assert outcome.code == 0
    assert outcome.err == ""
    check(name, json.loads(outcome.out))


def test_lists_that_are_not_empty(run, full):
    """The documents above have something in their lists, so that their items were checked."""
    found = {name: json.loads(run(*CALLS[name]).out) for name in CALLS if name != "fork"}
    assert all(found["compare"][part] for part in ("turns", "tools", "files", "changes"))
    assert found["recover"]["issues"]
    assert found["recover"]["left_out"]
    assert found["recover"]["tokens"]
    assert found["merge"]["report"]["conflicts"]
    assert found["prune"]["decisions"]
    assert all(found["stats"][part] for part in ("periods", "models", "tools", "topics", "longest"))
    assert found["snapshots"]["snapshots"]
    assert found["tag-why"]["topics"]
    assert found["stats-session"]["turns"]


def test_other_verbs(run, full, tmp_path, damaged):
    """Documents of verbs that write, and of what they make."""
    check("fork", json.loads(run("restore", "fork-a", "--at", "4", "--json").out))
    check("verify", json.loads(run("verify", damaged, "--json").out))
    check("repair", json.loads(run("repair", damaged, "--json").out))
    check("copy", json.loads(run("copy", "--to", str(tmp_path / "other"), "--json").out))
    installed = ["export", full, "--format", "claude-code", "--install", "--cwd", tmp_path, "--json"]
    check("export-install", json.loads(run(*map(str, installed)).out))
    editor = ["acp", "install", "zed", "--file", tmp_path / "zed.json", "--json"]
    check("acp-install", json.loads(run(*map(str, editor)).out))


def test_tokens_and_spaces(run, tmp_path):
    """A token that is made, the list of them, and the spaces that they open."""
    made = ["serve", "token", "create", "--space", "team", "--scope", "read", "--json"]
    check("serve-token", json.loads(run(*made).out))
    tokens = json.loads(run("serve", "token", "list", "--json").out)
    spaces = json.loads(run("serve", "space", "list", "--json").out)
    assert (len(tokens["tokens"]), spaces["spaces"][0]["space"]) == (1, "team")
    check("serve-tokens", tokens)
    check("serve-spaces", spaces)


def test_imports(run, tmp_path):
    """What came in, what failed and what was passed over."""
    messages = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "good.json").write_text(json.dumps(messages))
    (tmp_path / "in" / "bad.json").write_text("{")
    document = json.loads(run("import", str(tmp_path / "in"), "--json").out)
    assert document["sessions"]
    check("import", document)
    check("import-watch", document["sessions"][0])


def test_lines(run, full):
    """Each line of the events is a document of its own."""
    lines = run("show", full, "--events", "--json").out.splitlines()
    assert len(lines) > 5
    for line in lines:
        check("show-event", json.loads(line))


def test_the_state(run, full):
    """The state has what is promised; what else it has follows from the events."""
    check("show-state", json.loads(run("show", full, "--state").out))


@pytest.mark.parametrize(
    ("arguments", "kind", "code"),
    [
        (["show", "no-such"], "not_found", 3),
        (["show", "../x"], "invalid_id", 2),
        (["list", "--nonsense"], "usage", 2),
        (["lits"], "usage", 2),
        (["list", "--limit", "many"], "usage", 2),
        (["list", "--store", "ftp://example.com/x"], "usage", 2),
        (["show", "from-the-future"], "too_new", 4),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
@pytest.mark.usefixtures("trip", "too_new")
def test_errors(run, arguments, kind, code):
    """A failure is one line of JSON on standard error, with a code, a message and a remedy."""
    outcome = run(*arguments, "--json")
    assert outcome.code == code
    assert outcome.out == ""
    document = json.loads(outcome.err)
    check("error", document)
    assert document["error"]["code"] == kind
    assert document["error"]["exit_code"] == code
    assert document["error"]["remedy"]


def test_warnings(run, damaged):
    """What is to be known is JSON on standard error as well, and the document is whole."""
    outcome = run("show", damaged, "--json")
    assert outcome.code == 4
    check("show", json.loads(outcome.out))
    check("warning", json.loads(outcome.err))


def test_what_is_no_character(run, trip):
    """Half a surrogate pair, which JSON cannot hold, is replaced; the rest stays."""
    document = json.loads(run("search", "Lisbon\udc9b", "--json").out)
    assert document["query"] == "Lisbon?"
    check("search", document)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (NotFound(), "not_found"),
        (click.UsageError("x"), "usage"),
        (KeyboardInterrupt(), "stopped"),
        (click.Abort(), "stopped"),
        (OSError(), "system"),
        (ValueError(), "defect"),
    ],
)
def test_codes(error, kind):
    """Every failure has a code, whatever raised it."""
    assert explain(error).kind == kind


def test_nobody_to_be_told():
    """A standard error that is closed is no further failure."""

    class Closed(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    tell_failure(Screen(Closed()), Failure("x", "y", 1), as_json=True)


def test_after_two_dashes_there_are_no_options(run, trip):
    """A word that only looks like the option does not ask for JSON."""
    assert run("show", "--", "--json").err.startswith("error: ")


def test_every_verb_with_json_has_a_schema():
    """Each command that has the option is named by a schema."""
    told = " ".join(printed_by for printed_by, _ in DOCUMENTS.values())
    for name in VERBS:
        command = cli.get_command(click.Context(cli), name)
        if any("--json" in one.opts for one in command.params) and name != "export":
            assert f"holdfast {name} " in told, name


def test_the_verb(run):
    """Names are listed with what prints each, a schema is printed, a misspelt name is mended."""
    listed = run("schema").out
    assert all(name in listed for name in DOCUMENTS)
    assert "holdfast show --json" in listed
    assert json.loads(run("schema", "show").out)["title"] == "show"
    outcome = run("schema", "lsit")
    assert outcome.code == 3
    assert "did you mean list?" in outcome.err


def test_no_command_makes_its_answer_by_hand():
    """Each prints a struct, which has a schema; only a piece of an editor's settings is none."""
    found = []
    for path in sorted(Path(app_module.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            if is_call and node.func.attr in ("json", "json_line"):
                found += [path.name for given in node.args if isinstance(given, ast.Dict)]
    assert found == ["acp.py"]
