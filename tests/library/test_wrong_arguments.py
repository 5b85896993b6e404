"""Arguments of another kind than the documented one: a UsageError that names them."""

from __future__ import annotations

import pytest

from holdfast import Holdfast
from holdfast.errors import NotFound, UsageError


@pytest.fixture(scope="module")
def hf():
    """One session in memory, which nothing here changes."""
    with Holdfast("memory:", timers=False) as library:
        with library.session("a") as s:
            s.user("x")
        yield library


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda hf: hf.export("a", to=5), "to is a path"),
        (lambda hf: hf.export("a", to="x\ud800"), "to is a path"),
        (lambda hf: hf.export("a", cwd=5), "cwd is a path"),
        (lambda hf: hf.export("a", cwd="a\0b"), "cwd is a path"),
        (lambda hf: hf.export("a", progress=5), "progress is a function"),
        (lambda hf: hf.install("a", "codex", cwd=b"x"), "cwd is a path"),
        (lambda hf: hf.import_all(5), "paths are a list"),
        (lambda hf: hf.import_("x", verify_key=5), "verify_key is a text"),
        (lambda hf: hf.list(cwd=5), "cwd is a text"),
        (lambda hf: hf.list(archived=[]), "archived is True"),
        (lambda hf: hf.stats(model=[]), "model is a text"),
        (lambda hf: hf.topics("a", n=1.5), "n is a whole number"),
        (lambda hf: hf.verify("a", head=5), "head is a text"),
        (lambda hf: hf.reindex(progress=5), "progress is a function"),
        (lambda hf: hf.keys.remove(5), "a key is a text"),
    ],
)
def test_the_refusal_names_the_argument(hf, ask, words):
    """Before anything is read or written."""
    with pytest.raises(UsageError, match=words):
        ask(hf)


def test_a_key_that_is_none_opens_nothing(hf):
    """It is not found, whatever was given for it."""
    with pytest.raises(NotFound, match="no session is sealed"):
        hf.keys.remove(None)
