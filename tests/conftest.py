"""What every test room shares: hypothesis profiles, a private store, a clean environment."""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import inspect
import os
import pkgutil
import signal
import sys
import threading
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings

# A loaded machine must not fail a test, so no profile has a deadline; a failure prints how to
# repeat it. A change is judged by the same inputs each time; HYPOTHESIS_PROFILE=fuzz looks longer,
# and for others every time.
settings.register_profile("push", deadline=None, print_blob=True, max_examples=25, derandomize=True, database=None)
settings.register_profile(
    "fuzz", deadline=None, print_blob=True, max_examples=5_000, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "push"))

# Rooms whose tests wait for processes, servers, terminals and browsers, or run through thousands of states.
_LONG = frozenset({"chat", "crash", "docs", "examples", "mcp", "simulation", "storage", "transcript", "tui", "web"})

_HEAVY = ("slow", "unmeasured")

# What is measured for coverage, as measuring doubles the time: of a test its first case, of a file
# of the terminal app its first tests, which go through its screens. Rooms of which every branch is
# to be covered measure each case, and searches too; rooms with many thousands of runs measure none.
_MEASURED = 1
_MEASURED_OF_A_FILE = {"tui": 4}
_EACH_MEASURED = frozenset({"model", "replay"})
_NONE_MEASURED = frozenset({"crash", "simulation"})
_runs: Counter[str] = Counter()

# Rooms whose tests decide when something happens: no timer of the library does anything by itself.
_WITHOUT_TIMERS = frozenset({"agent", "ipc", "mcp", "observe", "own", "runtime", "session"})

# Objects more than before, collections of these, collections of those.
_COLLECT_AFTER = (10_000, 20, 50)


def pytest_configure(config: pytest.Config) -> None:
    """What ``servers.py``, ``peers.py`` and ``noted.py`` have is there for every room."""
    for name in ("servers", "peers", "noted"):
        place = Path(__file__).with_name(f"{name}.py")
        spec = importlib.util.spec_from_file_location(name, place)
        if place.exists() and spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            config.pluginmanager.register(module, name)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Let one worker measure what is loaded while tests are found: all load the same."""
    worker = getattr(session.config, "workerinput", {"workerid": "gw0"})["workerid"]
    if worker == "gw0":
        return (yield)
    with _unmeasured():
        return (yield)


@pytest.fixture(autouse=True, scope="session")
def _clean_environment(tmp_path_factory):
    """Tests see no setting of the developer and never reach the developer's own sessions."""
    home = tmp_path_factory.mktemp("home")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # So a shell starts what is to run in its background, and what tests start would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
            patch.delenv(name)
        # Nor do they talk to a model that happens to be here, or wait for the guide to be read.
        for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENAI_BASE_URL"):
            patch.delenv(name, raising=False)
        patch.setenv("HOLDFAST_MODEL_SERVERS", "false")
        patch.setenv("HOLDFAST_GUIDE_WORD_MS", "0")
        patch.setenv("HOME", str(home))
        for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
            patch.setenv(name, str(home / name.lower()))
        yield


@pytest.fixture
def store_root(tmp_path: Path) -> Path:
    """A private directory (0700) for a file store, fresh for each test."""
    root = tmp_path / "store"
    root.mkdir(mode=0o700)
    root.chmod(0o700)  # mkdir's mode passes through the umask
    return root


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test marked ``stores("files", "sqlite")`` on a store of each kind."""
    mark = metafunc.definition.get_closest_marker("stores")
    if mark and mark.args and "store_url" in metafunc.fixturenames:
        metafunc.parametrize("store_url", mark.args, indirect=True)


@pytest.fixture
def store_url(request: pytest.FixtureRequest) -> str:
    """The address of an empty store: of files, or of the kind that the mark ``stores`` names.

    A server is started when a test needs it.
    """
    kind = getattr(request, "param", "files")
    if kind == "memory":
        return "memory:"
    if kind == "postgres":
        return request.getfixturevalue("postgres_url")
    if kind == "s3":
        return request.getfixturevalue("seaweed_server").url(uuid4().hex)
    root = request.getfixturevalue("store_root")
    return {"files": str(root), "sqlite": f"sqlite://{root}/sessions.db"}[kind]


@pytest.fixture
def hf(request: pytest.FixtureRequest, store_url: str) -> Iterator[Any]:
    """The sessions of an empty store; keywords of the mark ``stores`` are those of the class."""
    # A worker measures coverage only after it has loaded this file: what is imported here is not.
    from holdfast import Holdfast

    mark = request.node.get_closest_marker("stores")
    options = {"timers": request.path.parent.name not in _WITHOUT_TIMERS}
    with Holdfast(store_url, **options | (mark.kwargs if mark else {})) as library:
        yield library


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a test without a docstring: the promise it shows must be written down.

    Files with slow tests come first, so that no worker is left with one at the end.
    """
    silent = sorted({item.nodeid.partition("[")[0] for item in items if not _promise(item)})
    if silent:
        raise pytest.UsageError("tests without a docstring:\n  " + "\n  ".join(silent))
    slow = {item.path for item in items if any(map(item.get_closest_marker, ("slow", "unmeasured")))}
    items.sort(key=lambda item: item.path not in slow and item.path.parent.name not in _LONG)


def pytest_collection_finish() -> None:
    """What is there once all tests are found stays to the end: nobody looks through it for garbage.

    For what they make it is looked more rarely than by default: a third of what tests of the
    terminal app cost is that.
    """
    for room in _EACH_MEASURED:
        _load_whole(f"holdfast.{room}")
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)


def _load_whole(package: str) -> None:
    """Load each module of a package now, while it is measured: a test that is not may be first."""
    for found in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        importlib.import_module(found.name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Measure coverage where it tells something: measuring doubles the time and more.

    (pytest-cov's own mark does nothing in the workers of xdist.)
    """
    if _is_measured(item):
        return (yield)
    with _unmeasured():
        return (yield)


def _is_measured(item: pytest.Item) -> bool:
    """Not slow tests and searches, whose lines plain ones go through; first cases of the others."""
    room = item.path.parent.name
    if room in _NONE_MEASURED or any(map(item.get_closest_marker, _HEAVY)):
        return False
    if room in _EACH_MEASURED:
        return True
    function = item.nodeid.partition("[")[0]
    _runs[function] += 1
    searches = getattr(getattr(item, "function", None), "is_hypothesis_test", False)
    if searches or _runs[function] > _MEASURED:
        return False
    _runs[str(item.path)] += 1
    return _runs[str(item.path)] <= _MEASURED_OF_A_FILE.get(room, sys.maxsize)


@contextlib.contextmanager
def _unmeasured() -> Iterator[None]:
    """No coverage is measured meanwhile, in this thread and in those that it starts."""
    trace, trace_of_threads = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)
    try:
        yield
    finally:
        threading.settrace(trace_of_threads)
        sys.settrace(trace)


def _promise(item: pytest.Item) -> str | None:
    """The docstring of a test; for `class TestX(Machine.TestCase)` that of the class."""
    function = getattr(item, "function", None)
    if function is None:
        return "not a function"
    return item.cls.__doc__ if function.__name__ == "runTest" else inspect.getdoc(function)
