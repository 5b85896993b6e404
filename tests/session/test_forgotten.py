"""What a session gives back when nobody refers to it any more."""

from __future__ import annotations

import threading

from holdfast.session import WhenForgotten, _lifetime


class Owner:
    """Someone who is forgotten."""


def test_it_is_done_when_the_owner_is_gone():
    """Nothing is in its way: whoever comes next finds it done."""
    done = []
    owner = Owner()
    WhenForgotten(owner, done.append, 1)
    del owner
    assert done == [1]


def test_it_is_done_once_when_it_is_called():
    """As closing does: what comes of it is given, and nothing more is done later."""
    done = []
    owner = Owner()
    release = WhenForgotten(owner, lambda: done.append(1) or "given")
    assert release() == "given"
    assert release() is None
    del owner
    assert done == [1]


def test_a_thread_that_holds_what_it_needs_is_not_held_up(monkeypatch):
    """The collector comes at any moment, also in the middle of something under a lock."""
    monkeypatch.setattr(_lifetime, "_PATIENCE_S", 0.01)
    lock, given = threading.Lock(), threading.Event()

    def give_back():
        with lock:
            given.set()

    owner = Owner()
    WhenForgotten(owner, give_back)
    with lock:
        del owner
        assert not given.is_set()
    assert given.wait(120)


def test_without_another_thread_it_is_left_for_the_exit(monkeypatch):
    """A process that ends starts none: then what is open is given back by the exit."""

    def refuse(*_):
        raise RuntimeError("no thread can be started")

    monkeypatch.setattr(_lifetime, "start_new_thread", refuse)
    done = []
    owner = Owner()
    release = WhenForgotten(owner, done.append, 1)
    del owner
    assert done == []
    release()
    assert done == [1]
