"""What keeps recorded text from doing harm: neutralising it for terminals and documents."""

from __future__ import annotations

from holdfast.security._text import escape_json, neutralise, neutralise_line

__all__ = ["escape_json", "neutralise", "neutralise_line"]
