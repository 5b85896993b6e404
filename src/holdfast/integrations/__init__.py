"""Other frameworks on our log: one module for each, loaded only when used.

Each class takes ``hf``: a Holdfast, a store URL or path, or None for the default place.
"""

from __future__ import annotations

import holdfast._lazy  # noqa: F401 - a library that a module here lacks is then told with what installs it
