"""Adapters are tested where the frameworks are installed: `make test-frameworks`."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("agents") else ["test_*.py"]
