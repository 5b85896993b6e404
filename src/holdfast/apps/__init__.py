"""Applications: the command, the terminal app, the web app, and the protocol servers."""

from __future__ import annotations

import holdfast._lazy  # noqa: F401 - a library that a module here lacks is then told with what installs it
