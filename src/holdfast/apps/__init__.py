"""What people run: the command, and later the terminal app, the web app and the bridges."""

from __future__ import annotations

import holdfast._lazy  # noqa: F401 - a library that a module here lacks is then told with what installs it
