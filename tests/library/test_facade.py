"""The shape of the facade: one class in one file, whose parts are loaded when they are needed."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from typing import get_args

import pytest

import holdfast
from holdfast import Holdfast, Runtime, Session, agent, replay, session
from holdfast.apps.http._requests import MessagesAsked
from holdfast.errors import UsageError

PARTS = {"branches", "copy", "export", "finder", "health", "imports", "keys"} | {
    "redaction", "retention", "trash", "views"
}  # fmt: skip
METHODS = {
    kind: [
        node
        for node in ast.walk(ast.parse(inspect.getsource(kind)))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name[0] != "_"
    ]
    for kind in (Holdfast, Session)
}


@pytest.mark.parametrize("kind", METHODS)
def test_the_facade_is_one_class_in_one_file(kind):
    """Nothing is inherited, and every public name is defined in the file of the class."""
    assert kind.__bases__ == (object,)
    public = {name for name in dir(kind) if not name.startswith("_")}
    assert public == {node.name for node in METHODS[kind]}
    assert inspect.getsource(inspect.getmodule(kind)).count("\n") <= 600


@pytest.mark.parametrize("method", [*METHODS[Holdfast], *METHODS[Session]], ids=lambda node: node.name)
def test_a_method_is_a_contract_and_a_call(method):
    """Each says what it does, and leaves the doing to a part: no loops, branches or handlers."""
    assert ast.get_docstring(method)
    steps = [step for step in method.body if not isinstance(step, ast.Expr)]
    assert len(method.body) <= 4
    refused = (ast.For, ast.While, ast.If, ast.Try, ast.With)
    assert not [step for step in steps if isinstance(step, refused)]


def test_groups_hold_what_is_rarely_used(tmp_path):
    """Keys, trash and policies are groups of their own, and their lists are empty at first."""
    with holdfast.open(tmp_path / "s") as hf:
        assert (hf.keys.list(), hf.trash.list(), hf.policies.list()) == ([], [], [])
        for group in (hf.keys, hf.trash, hf.policies, hf.agents, hf.foreign):
            assert not callable(group)
            assert type(group).__doc__


def test_a_key_is_made_and_told_by_its_fingerprint(tmp_path):
    """A new key opens what it seals, and the list of keys names it."""
    source = f"file:{tmp_path / 'key'}"
    with holdfast.open(tmp_path / "s") as hf:
        made = hf.keys.new(source)
    with holdfast.open(tmp_path / "s", key=source, seal=True) as hf:
        with hf.session("a") as s:
            s.user("x")
        assert [one.id for one in hf.keys.list()] == [made]


def test_policies_are_those_that_prune_carries_out(tmp_path):
    """The list has the policies of the configuration, in their order."""
    rules = {"retention": {"policies": [{"tag": "draft", "keep": 10}]}}
    with holdfast.open(tmp_path / "s", config=rules) as hf:
        assert [(one.tag, one.keep) for one in hf.policies.list()] == [("draft", 10)]


def test_parts_are_loaded_when_they_are_needed(tmp_path):
    """Opening a store and recording a session loads no part of the facade."""
    code = f"""
import json, sys, holdfast
with holdfast.open({str(tmp_path / "s")!r}) as hf, hf.session("a") as s:
    s.user("x")
print(json.dumps([name for name in sys.modules if name.startswith("holdfast.library._")]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.removeprefix("holdfast.library._") for name in json.loads(done.stdout)}
    assert loaded.isdisjoint(PARTS), loaded & PARTS


def test_observing_means_measuring():
    """What listens to events subscribes, to a store or a runtime; only a store is observed."""
    assert hasattr(Runtime, "subscribe")
    assert not hasattr(Runtime, "observe")
    assert hasattr(Holdfast, "subscribe")
    assert hasattr(Holdfast, "observe")


@pytest.mark.parametrize("name", ["resume", "repair", "durability"])
def test_what_an_open_may_be_told_is_typed(name, tmp_path):
    """Each of these has its words as a type, and any other word is refused at run time."""
    annotation = inspect.signature(Holdfast.session).parameters[name].annotation
    words = get_args(getattr(holdfast.session, annotation.removesuffix(" | None")))
    assert len(words) >= 2
    with holdfast.open(tmp_path / "s") as hf:
        with pytest.raises(UsageError, match=name):
            hf.session("a", **{name: "sometimes"})
        assert not hf.exists("a")


def test_one_form_is_the_default_wherever_a_conversation_is_asked_for():
    """A session, the library, the replay and HTTP give the neutral form unless another is named."""
    doors = (holdfast.Session.messages, holdfast.Holdfast.recover, replay.recover)
    found = [inspect.signature(door).parameters["provider"].default for door in doors]
    assert [*found, MessagesAsked().provider] == ["neutral"] * 4


def test_words_that_a_public_argument_takes_are_in_its_type():
    """A type checker knows every provider, way with incomplete calls, strategy and scope."""
    assert get_args(replay.Provider) == replay.PROVIDERS
    assert get_args(replay.Incomplete) == ("mark", "drop", "keep")
    assert get_args(agent.Strategy) == ("none", "window", "summarise")
    assert get_args(agent.Scope) == ("once", "session", "always")
    assert get_args(session.MemoryScope) == ("session", "persistent")
