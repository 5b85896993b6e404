"""The class Event as tools see it that document or inspect it."""

from __future__ import annotations

import inspect
import pydoc

from holdfast.model import Event


def test_members_that_are_made_when_looked_at_can_be_read_on_the_class():
    """They give themselves, with their words, as properties do."""
    for name in ("data", "body"):
        found = getattr(Event, name)
        assert found is inspect.getattr_static(Event, name)
        assert inspect.getdoc(found).startswith(("The event's members", "``data`` as the typed"))
    assert dict(inspect.getmembers(Event))["data"] is Event.data
    assert "The event's members" in pydoc.render_doc(Event)
    assert Event.make("user", {"content": "x"}).data == {"content": "x"}
