"""The guides for frameworks and their examples do what they say."""

from __future__ import annotations

import asyncio
import pkgutil
import re
import runpy
from pathlib import Path

import pytest

import holdfast
from holdfast import integrations

pytestmark = pytest.mark.filterwarnings("ignore")

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "howto" / "frameworks").glob("*.md"))
EXAMPLES = sorted((ROOT / "examples" / "frameworks").glob("*.py"))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder and a store of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_STORE", str(tmp_path / "store"))
    monkeypatch.setattr("holdfast.integrations._place._opened", {})
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield tmp_path
    loop.close()
    for opened in integrations._place._opened.values():
        opened.close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_blocks_of_a_guide_run(page, place):
    """All blocks in their order, in one namespace, in an empty folder."""
    namespace = {"__name__": "__main__"}
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        exec(compile(block, str(page), "exec"), namespace)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_the_second_run_of_an_example_knows_the_first(example, place, capsys):
    """Both runs end well and say different things; what they said is one session."""
    said = []
    for _ in range(2):
        runpy.run_path(str(example), run_name="__main__")
        said.append(capsys.readouterr().out)
    assert said[0] != said[1]
    assert all(said)
    with holdfast.open(place / "store") as hf:
        assert len(hf.list()) == 1


def test_every_adapter_has_its_guide():
    """Modules, guides and examples have the same names."""
    found = pkgutil.iter_modules(integrations.__path__)
    public = {module.name for module in found if not module.name.startswith("_")}
    names = sorted(public - {"otel"})  # no agent framework
    assert [page.stem.replace("-", "_") for page in PAGES if page.stem != "index"] == names
    assert [example.stem.removeprefix("with_") for example in EXAMPLES] == names
