"""Limits: the numbers of the design, settable, and never nonsense."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.errors import UsageError
from holdfast.model import FORMAT_VERSION, Limits


def test_the_defaults_are_those_of_the_design():
    """Text 1 MiB, blobs from 256 KiB to 64 MiB, session 100 MiB, 1000 live, 10 snapshots."""
    limits = Limits()
    assert limits.message_bytes_max == 1 << 20
    assert limits.blob_bytes_min == 256 << 10
    assert limits.blob_bytes_max == 64 << 20
    assert limits.session_bytes_max == 100 << 20
    assert limits.session_notice_percent == 80
    assert (limits.sessions_live_max, limits.snapshots_kept) == (1000, 10)
    assert (limits.depth_max, limits.integer_digits_max) == (64, 64)
    assert FORMAT_VERSION == 1


@pytest.mark.parametrize("name", Limits.__struct_fields__)
def test_every_limit_can_be_set_and_must_make_sense(name):
    """A whole number of at least one, or a typed error that names the limit."""
    assert getattr(Limits(**{name: 1}), name) == 1
    for wrong in (0, -1, 1.5, "5", None, True):
        with pytest.raises(UsageError, match=name):
            Limits(**{name: wrong})


@pytest.mark.parametrize(
    ("name", "most"), [("depth_max", 250), ("integer_digits_max", 4_300), ("session_notice_percent", 100)]
)
def test_some_limits_have_an_end(name, most):
    """Beyond them the interpreter itself would fail, or the number would mean nothing."""
    assert getattr(Limits(**{name: most}), name) == most
    with pytest.raises(UsageError, match=name):
        Limits(**{name: most + 1})


def test_limits_read_from_a_configuration_are_checked_too():
    """Whichever way they come, they are whole."""
    assert msgspec.convert({"depth_max": 7}, Limits).depth_max == 7
    with pytest.raises((UsageError, msgspec.ValidationError), match="depth_max"):
        msgspec.convert({"depth_max": 0}, Limits)


def test_limits_cannot_be_changed():
    """One store has one set of limits."""
    with pytest.raises(AttributeError):
        Limits().depth_max = 5
