"""Text of strangers in documents: joiners stay where they join, nothing else that is invisible."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.formats.writers.markdown import harmless, harmless_line
from holdfast.security import neutralise

FAMILY = "\N{WOMAN}\u200d\N{WOMAN}\u200d\N{GIRL}"
HEART = "\N{HEAVY BLACK HEART}\ufe0f\u200d\N{FIRE}"
PERSIAN = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"


@pytest.mark.parametrize("text", [FAMILY, HEART, PERSIAN, f"a {FAMILY}, {PERSIAN}"])
def test_what_is_written_with_joiners_stays(text):
    """Families, flaming hearts and Persian words read as they were written."""
    assert harmless(text) == harmless_line(text) == text


@pytest.mark.parametrize(
    "text", ["a\u200db", "\u200d", "\N{WOMAN}\u200d", "\N{WOMAN}\u200d\u200d\N{GIRL}", "\u0645\u200c "]
)
def test_what_joins_nothing_is_made_visible(text):
    """Between other characters a joiner only hides something."""
    assert not {"\u200c", "\u200d"} & set(harmless(text))


@given(st.text(st.sampled_from("a\n\x1b\u200b\u200c\u200d\u202e\ufe0f\N{WOMAN}\u0645\u0915")))
def test_nothing_else_passes(text):
    """But for the joiners it is what a terminal may show, and doing it twice changes nothing."""
    found = harmless(text)
    assert neutralise(found) == neutralise(text)
    assert harmless(found) == found
    assert "\u200d\u200d" not in found
    assert "\n" not in harmless_line(text)
