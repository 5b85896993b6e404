"""``holdfast serve`` and its tokens, as people type them."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import holdfast
from holdfast.apps.cli import App, cli, serve
from holdfast.apps.http.tokens import TokenBook
from holdfast.storage import FileStore


@pytest.fixture
def run(store_root):
    """Run a verb on a private store."""

    def call(*words):
        return CliRunner().invoke(cli, ["--store", str(store_root), *words])

    return call


def test_a_token_is_made_listed_and_revoked(run, store_root):
    """Shown once; listed without what it is; then it has been revoked."""
    made = run("serve", "token", "create", "--space", "alice", "--label", "phone", "--expires", "9d")
    assert made.exit_code == 0, made.output
    text = made.stdout.strip()
    store = FileStore(store_root)
    token = TokenBook(store).find(text)
    assert (token.space, token.scope, token.label) == ("alice", "write", "phone")
    listed = run("serve", "token", "list")
    assert token.id in listed.stdout
    assert "good" in listed.stdout
    assert text not in listed.stdout
    gone = run("serve", "token", "revoke", token.id)
    assert gone.exit_code == 0
    assert TokenBook(store).find(text) is None
    [row] = json.loads(run("serve", "token", "list", "--json").stdout)["tokens"]
    assert row["state"] == "revoked"
    assert "digest" not in row
    store.close()


def test_a_token_as_json(run):
    """With the scope that allows most of those named."""
    made = run("serve", "token", "create", "--space", "a", "--scope", "read,admin", "--json")
    told = json.loads(made.stdout)
    assert (told["space"], told["scope"], told["expires_at"]) == ("a", "admin", None)
    assert told["token"].startswith(f"hf_{told['id']}_")


def test_no_tokens_yet(run):
    """Said on standard error, with what to do."""
    outcome = run("serve", "token", "list")
    assert (outcome.exit_code, outcome.stdout) == (0, "")
    assert "token create" in outcome.stderr


def test_spaces_are_listed_and_removed(run, store_root):
    """With what they have; removed means no token counts and sessions are in the trash."""
    for space in ("alice", "alice", "bob"):
        run("serve", "token", "create", "--space", space)
    with holdfast.open(store_root) as hf, hf.space("alice") as alice, hf.space("bob") as bob:
        for library, ids in ((alice, ("one", "two", "kept")), (bob, ("his",))):
            for id in ids:
                with library.session(id) as session:
                    session.user("hello")
        alice.policies.hold("kept", "case 7")
    listed = json.loads(run("serve", "space", "list", "--json").stdout)["spaces"]
    assert listed == [{"space": "alice", "sessions": 3, "tokens": 2}, {"space": "bob", "sessions": 1, "tokens": 1}]
    gone = run("serve", "space", "remove", "alice")
    assert gone.exit_code == 1  # not all of it
    assert "kept stays: " in gone.stderr
    assert run("serve", "space", "list").stdout.split()[3:] == ["alice", "1", "0", "bob", "1", "1"]
    with holdfast.open(store_root) as hf, hf.space("alice") as alice, hf.space("bob") as bob:
        assert {row.session_id for row in alice.trash.list()} == {"one", "two"}
        assert [row.session_id for row in bob.list()] == ["his"]
    assert run("serve", "space", "remove", "bob").exit_code == 0


def test_no_spaces_yet(run):
    """Said on standard error; what is no name of a space is refused."""
    outcome = run("serve", "space", "list")
    assert (outcome.exit_code, outcome.stdout) == (0, "")
    assert "token create" in outcome.stderr
    assert run("serve", "space", "remove", "../x").exit_code == 2


def test_on_a_terminal_it_asks_before_a_space_is_removed(run, monkeypatch):
    """No means that nothing happens."""
    run("serve", "token", "create", "--space", "alice")
    monkeypatch.setattr(App, "can_ask", True)
    monkeypatch.setattr(serve.click, "confirm", lambda *_, **__: False)
    assert run("serve", "space", "remove", "alice").exit_code == 1
    assert '"tokens":1' in run("serve", "space", "list", "--json").stdout.replace(" ", "")


def test_a_token_for_metrics(run):
    """It needs no space, is told as what it is, and makes no space."""
    made = run("serve", "token", "create", "--scope", "metrics")
    assert made.exit_code == 0
    assert "for /metrics" in made.stderr
    assert '"spaces":[]' in run("serve", "space", "list", "--json").stdout.replace(" ", "")
    id = made.stdout.split("_")[1]
    assert "of metrics has been revoked" in run("serve", "token", "revoke", id).stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("token", "create"), 2),
        (("token", "create", "--space", "a", "--scope", "metrics"), 2),
        (("token", "create", "--space", "a", "--scope", "metrics,read"), 2),
        (("token", "create", "--space", "../x"), 2),
        (("token", "create", "--space", "Alice"), 2),
        (("token", "create", "--space", "a", "--scope", "root"), 2),
        (("token", "create", "--space", "a", "--expires", "2001-01-01"), 2),
        (("token", "create", "--space", "a", "--expires", "soon"), 2),
        (("token", "revoke", "none"), 3),
        (("tokens",), 2),
        (("--no-agent", "--model", "x"), 2),
        (("--port", "70000"), 2),
    ],
)
def test_what_is_wrong_is_said(run, store_root, words, code):
    """In a sentence, with the exit code for it, and nothing is made."""
    outcome = run("serve", *words)
    assert outcome.exit_code == code, outcome.stderr
    assert outcome.stderr.startswith("error: ")
    assert list(store_root.iterdir()) == []


def test_tokens_are_not_of_a_space(run, store_root, monkeypatch):
    """With a space set, tokens and the server are refused: they are for all of them."""
    monkeypatch.setenv("HOLDFAST_SPACE", "alice")
    for words in (("token", "list"), ("--no-agent", "--port", "0")):
        outcome = run("serve", *words)
        assert outcome.exit_code == 2
        assert "HOLDFAST_SPACE" in outcome.stderr
