"""Errors as programs see them: with a remedy in the traceback."""

from __future__ import annotations

import subprocess
import sys
import traceback

import pytest

from holdfast.errors import NotFound, UsageError


@pytest.mark.parametrize("error", [NotFound("gone", remedy="Look elsewhere."), UsageError("wrong")])
def test_a_traceback_has_the_remedy(error):
    """Whoever reads a traceback, in a terminal or a notebook, reads what to do."""
    assert error.remedy in "".join(traceback.format_exception(error))


@pytest.mark.parametrize(
    ("wanted", "library", "install"),
    [
        ("import holdfast.integrations.pydantic_ai", "pydantic_ai", "'holdfast[agent]'"),
        ("import holdfast.apps.web.app", "starlette", "'holdfast[web]'"),
        ("from holdfast.apps.tui import SessionsApp", "textual", "'holdfast[tui]'"),
        ("import holdfast.integrations.llama_index", "llama_index", "llama-index-core"),
    ],
)
def test_a_library_that_is_not_installed(wanted, library, install):
    """The error about it names the command that installs it."""
    code = (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path, target=None):\n"
        f"        if name.partition('.')[0] == {library!r}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        f"try: {wanted}\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"pip install {install}" in done.stdout, done
