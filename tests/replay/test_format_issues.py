"""Issues as a line of text."""

from __future__ import annotations

import pytest

from holdfast import format_issues, sanitize
from holdfast.errors import UsageError
from holdfast.replay import Issue


@pytest.mark.parametrize("wrong", [5, None, "x", [5], [None], [{"type": "x"}]])
def test_what_are_no_issues_is_refused(wrong):
    """A UsageError says where to take them from."""
    with pytest.raises(UsageError, match="list of Issue") as caught:
        format_issues(wrong)
    assert "sanitize" in caught.value.remedy


def test_issues_are_told_from_any_iterable():
    """Also from one that can be gone through once."""
    issues = sanitize(5).issues
    assert format_issues(iter(issues)) == format_issues(issues)
    assert "[not_a_list]" in format_issues(issues)
    assert format_issues(()) == "No issues found"


def test_issues_are_told_apart_without_their_content():
    """The same problem at the same place is one issue in a set, whatever content it names."""
    one, same, other = (Issue("dropped", where, "It was empty.", content) for where, content in ("a1", "a2", "b1"))
    assert one == same
    assert {one, same, other} == {one, other}
