"""Names and modules of a package that are loaded when they are first asked for."""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # loading `typing` takes longer than what the command's quick start needs
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def _loaded(name: str) -> Any:
    """Return a module. Raises Unavailable where it cannot be read, such as with no descriptor left to open it."""
    try:
        return import_module(name)
    except OSError as error:
        from holdfast.errors import HoldfastError, Unavailable

        if isinstance(error, HoldfastError):
            raise
        raise Unavailable(
            f"a part of Holdfast cannot be loaded: {error.strerror or error}",
            remedy="Close files or raise the limit of open ones (`ulimit -n`), then try again.",
            errno=error.errno,
        ) from error


def lazy(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package whose names are defined in these modules.

    ``modules`` has the names of each module in one text: ``{"_fold": "Fold fold"}``.
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}

    def __getattr__(name: str) -> Any:  # noqa: N807 - what a module's own is called
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(_loaded(f"{package}.{homes[name]}"), name)
        # The next look finds it in the package itself. A submodule of the same name is overwritten.
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__


class _LazyModule:
    """A module that is loaded when something of it is first asked for."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(_loaded(self.name), name)


def lazy_modules(package: str, names: str) -> list[Any]:
    """Return modules of a package, each loaded with the first look into it.

    Give them the names of the modules where no type checker looks, and import those where only it
    does: ``if TYPE_CHECKING: … else: …``. So it sees through to their types.
    """
    return [_LazyModule(f"{package}.{name}") for name in names.split()]
