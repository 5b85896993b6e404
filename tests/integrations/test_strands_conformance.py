"""The framework's own tests of session managers, on our repository."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

TESTS = 51
_ON_HOLDFAST = """
    import tests.fixtures.mock_session_repository as theirs

    import holdfast
    from holdfast.integrations.strands import HoldfastSessionRepository


    class OnHoldfast(HoldfastSessionRepository):
        def __init__(self):
            super().__init__(holdfast.open("memory:"))


    theirs.MockedSessionRepository = OnHoldfast
"""


def test_every_test_of_the_repository_session_manager_passes(sdist, tmp_path):
    """All of them, with our repository in the place of their own."""
    folder = sdist("strands-agents")
    (tmp_path / "on_holdfast.py").write_text(textwrap.dedent(_ON_HOLDFAST), encoding="utf-8")
    options = ["-q", "--noconftest", "-c", os.devnull, "--rootdir", str(folder)]
    options += ["-p", "on_holdfast", "-p", "no:cacheprovider"]
    told = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", *options),
            "tests/strands/session/test_repository_session_manager.py",
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{folder}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"{TESTS} passed" in told.stdout, told.stdout[-3000:] + told.stderr
    assert told.returncode == 0
