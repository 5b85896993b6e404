"""Names and modules of a package that are loaded when they are first asked for."""

from __future__ import annotations

import sys
from errno import EMFILE
from functools import partial
from importlib import import_module
from importlib.machinery import ExtensionFileLoader, PathFinder, SourceFileLoader
from os import strerror

TYPE_CHECKING = False  # loading `typing` takes longer than what the command's quick start needs
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, AnyStr


class _Modules:
    """Finds what Holdfast loads, so that a module that cannot be loaded is told as an error of ours.

    Much is loaded in the middle of a verb, when it is first needed; a process that may open no more files cannot.
    """

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> Any:
        """Find a module as Python would: one of Holdfast's, or one that a function of Holdfast asks for.

        Raises Unavailable where its folder cannot be read.
        """
        if name in _hooks:
            found = self._found_by_others(name, path, target)
            if found and isinstance(found.loader, SourceFileLoader):
                found.loader.exec_module = partial(_run_hook, _hooks.pop(name), found.loader.exec_module)  # type: ignore[method-assign]
            return found
        if name.startswith("holdfast."):
            found = _told(PathFinder.find_spec, name, path, target)
        elif _is_asked_by_a_function():
            found = _told(self._found_by_others, name, path, target)
        else:
            return None
        loader = found and found.loader
        if isinstance(loader, (SourceFileLoader, ExtensionFileLoader)):  # others may be shared by many modules
            loader.create_module = partial(_told, loader.create_module)  # type: ignore[method-assign]
            loader.exec_module = partial(_told, loader.exec_module)  # type: ignore[method-assign]
        return found

    def _found_by_others(self, *wanted: Any) -> Any:
        finders = (finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec"))
        return next(filter(None, (finder.find_spec(*wanted) for finder in finders)), None)


def _is_asked_by_a_function() -> bool:
    """Return True if the running import is inside a function of Holdfast, not at the top of a module."""
    frame = sys._getframe(2)  # noqa: SLF001 - nothing else tells a finder who asks
    while frame.f_back and frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame.f_code.co_name != "<module>" and frame.f_globals.get("__name__", "").startswith("holdfast.")


def _told(do: Callable[..., Any], *given: Any) -> Any:
    """Do what finds or loads a module, and all that it loads in turn. Raises Unavailable where a file does not open."""
    try:
        return do(*given)
    except (OSError, ImportError) as error:
        if isinstance(error, ModuleNotFoundError):
            _name_extra(error)
        # What is loaded as machine code says it in words only.
        number = error.errno if isinstance(error, OSError) else EMFILE
        if not isinstance(error, OSError) and strerror(EMFILE) not in str(error):
            raise
        from holdfast.errors import HoldfastError, Unavailable

        if isinstance(error, HoldfastError):
            raise
        raise Unavailable(
            f"a part of Holdfast cannot be loaded: {error}",
            remedy="Close files or raise the limit of open ones (`ulimit -n`), then try again.",
            errno=number,
        ) from error


# What has to be installed for a library that a part of Holdfast loads: extras of ours, else packages.
_EXTRAS = (
    "agent pydantic_ai, web starlette jinja2 uvicorn websockets, tui textual, mcp mcp mcp_types, local xllamacpp,"
    " postgres asyncpg, s3 obstore, crypto cryptography keyring, tokens splintr, otel opentelemetry,"
    " openai-agents agents, langgraph langgraph, adk google, strands strands, claude-sdk claude_agent_sdk anyio"
)
_PACKAGES = {"agent_framework": "agent-framework-core", "autogen_agentchat": "autogen-agentchat"}
_PACKAGES |= {
    "autogen_core": "autogen-agentchat",
    "langchain_core": "langchain-core",
    "llama_index": "llama-index-core",
    "pydantic_ai_harness": "pydantic-ai-harness",
    "pydantic_core": "autogen-agentchat",  # whatever else needs it loads its own framework first
}


def _name_extra(error: ModuleNotFoundError) -> None:
    """Let an error about a library that is not installed say what installs it."""
    missing = (error.name or "").partition(".")[0]
    extras = {library: extra for extra, *names in map(str.split, _EXTRAS.split(",")) for library in names}
    wanted = f"'holdfast[{extras[missing]}]'" if missing in extras else _PACKAGES.get(missing)
    if wanted and "pip install" not in error.msg:
        error.msg = f"{error.msg}: install it with pip install {wanted}"


_hooks: dict[str, Callable[[Any], None]] = {}


def when_loaded(name: str, do: Callable[[Any], None]) -> None:
    """Call ``do`` with a module of any library as soon as somebody has loaded it: now, if that is done."""
    if name in sys.modules:
        do(sys.modules[name])
    else:
        _hooks[name] = do


def _run_hook(do: Callable[[Any], None], execute: Callable[[Any], None], module: Any) -> None:
    execute(module)
    do(module)


def load(name: str) -> Any:
    """Return a module of any library, loaded inside of a function. Raises Unavailable where its file does not open."""
    return _told(import_module, name)


if not any(isinstance(finder, _Modules) for finder in sys.meta_path):
    sys.meta_path.insert(0, _Modules())


def lazy(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package whose names are defined in these modules.

    ``modules`` has the names of each module in one text: ``{"_fold": "Fold fold"}``.
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}

    def __getattr__(name: str) -> Any:  # noqa: N807 - what a module's own is called
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        # The next look finds it in the package itself. A submodule of the same name is overwritten.
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__


class _LazyModule:
    """A module that is loaded when something of it is first asked for."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        module = import_module(self.__name__)
        self.__dict__ = module.__dict__  # the next look finds its names without a call
        return getattr(module, name)


class _LazyPattern:
    """A regular expression that is compiled when something of it is first asked for."""

    def __init__(self, *given: Any) -> None:
        self._given = given

    def __getattr__(self, name: str) -> Any:
        import re

        value = self.__dict__[name] = getattr(re.compile(*self._given), name)
        return value


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return what ``re.compile`` does, for patterns that most programs never use: compiling takes long."""
    return _LazyPattern(pattern, flags)  # type: ignore[return-value]  # it has the same methods


def lazy_modules(package: str, names: str) -> list[Any]:
    """Return modules of a package, each loaded with the first look into it.

    Give them the names of the modules where no type checker looks, and import those where only it
    does: ``if TYPE_CHECKING: … else: …``. So it sees through to their types.
    """
    return [_LazyModule(f"{package}.{name}") for name in names.split()]
