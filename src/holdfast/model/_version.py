"""The version of the package: one place, read by the build as well."""

from __future__ import annotations

VERSION = "0.1.0"
