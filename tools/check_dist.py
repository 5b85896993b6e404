"""Build wheel and sdist, and try them as a user would: in fresh environments, with each extra.

    python tools/check_dist.py [EXTRA …]

There are two wheels: one with the compiled part, for this platform, and the pure one for all.
Without names every extra of the project but those for development is tried, and every pair of them
is resolved: what one needs must leave room for the other. Packages come from wherever this
machine's pip or uv gets them; what cannot be installed fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from itertools import combinations
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
TRY = """
import holdfast, sys
from holdfast.model import line_maker, make_line
assert (line_maker() is not make_line) == (sys.argv[3] == "compiled"), line_maker()
with holdfast.open(sys.argv[1]) as hf, hf.session("s") as s:
    s.user("hello")
    assert s.messages("anthropic") == [{"role": "user", "content": "hello"}]
if sys.argv[2] in ("agent", "all"):  # some public names need it
    assert all(hasattr(holdfast, name) for name in holdfast.__all__)
"""
# The purpose of each extra, as far as it can be loaded without a server or a key.
LOADS = {
    "acp": "holdfast.apps.acp.proxy.server",
    "adk": "holdfast.integrations.adk",
    "agent": "holdfast.agent",
    "claude-sdk": "holdfast.integrations.claude_sdk",
    "crypto": "cryptography.hazmat.primitives.ciphers.aead",
    "langgraph": "holdfast.integrations.langgraph",
    "mcp": "holdfast.apps.mcp",
    "openai-agents": "holdfast.integrations.openai_agents",
    "otel": "opentelemetry",
    "postgres": "holdfast.storage.postgres.store",
    "pydantic-ai": "holdfast.integrations.pydantic_ai",
    "s3": "holdfast.storage.s3.store",
    "strands": "holdfast.integrations.strands",
    "tui": "holdfast.apps.tui",
    "web": "holdfast.apps.http",
}


def run(*words: str | Path, where: Path, **variables: str) -> str:
    """Return the output of a command, run without our environment; a failure ends the check."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "VIRTUAL_ENV", "PYTHON"))
    }
    done = subprocess.run(  # noqa: S603 - our own words
        [str(word) for word in words],
        cwd=where,
        env={**environment, "HOME": str(where), **variables},
        stdout=subprocess.PIPE,
        text=True,
        timeout=900,
        check=True,
    )
    return done.stdout


def build() -> tuple[list[Path], Path]:
    """Build the wheels, the pure one first and a compiled one if this machine can make it, and the sdist."""
    shutil.rmtree(DIST, ignore_errors=True)
    words = (sys.executable, "-m", "hatchling", "build", "-d", DIST)
    run(*words, "-t", "wheel", where=ROOT, HOLDFAST_PURE="1")
    run(*words, where=ROOT)
    wheels, [sdist] = sorted(DIST.glob("*.whl"), key=is_compiled), DIST.glob("*.tar.gz")
    [pure, *compiled] = wheels
    assert not is_compiled(pure), pure
    assert all(map(is_compiled, compiled)), compiled
    return wheels, sdist


def is_compiled(wheel: Path) -> bool:
    """Return whether a wheel has the compiled part, which its name must show."""
    with zipfile.ZipFile(wheel) as archive:
        found = any(name.endswith(".so") for name in archive.namelist())
    assert found == ("-abi3-" in wheel.name) == (not wheel.name.endswith("-none-any.whl")), wheel
    return found


def attempt(package: Path, extra: str, uv: str | None, *, compiled: bool) -> None:
    """Install into a fresh environment, record something, show it, and use the extra."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        python = place / "env" / "bin" / "python"
        run(sys.executable, "-m", "venv", *(["--without-pip"] if uv else []), "env", where=place)
        wanted = f"holdfast[{extra}] @ {package.as_uri()}" if extra else f"holdfast @ {package.as_uri()}"
        installer = (
            (uv, "pip", "install", "--quiet", "--python", python)
            if uv
            else (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        )
        run(*installer, wanted, where=place)
        kind = "compiled" if compiled else "pure"
        run(python, "-W", "error", "-c", TRY, place / "store", extra, kind, where=place)
        holdfast = python.with_name("holdfast")
        version = run(holdfast, "--version", where=place)
        listed = run(holdfast, "--store", place / "store", "list", where=place)
        assert "hello" in listed, listed
        if extra in LOADS:
            run(python, "-c", f"import {LOADS[extra]}", where=place)
        print(f"{package.name} [{extra or 'alone'}]: {version.strip()}")


def conflicts(needs: dict[str, list[str]], uv: str) -> dict[tuple[str, str], str]:
    """Return each pair of extras that cannot be installed together, with the reason."""
    words = (uv, "pip", "compile", "--quiet", "--python-version", "3.11", "-")
    found = {}
    for one, other in combinations(needs, 2):
        wanted = "\n".join([*PROJECT["dependencies"], *needs[one], *needs[other]])
        done = subprocess.run(  # noqa: S603 - our own words
            words, input=wanted, capture_output=True, text=True, timeout=900, check=False
        )
        if done.returncode:
            found[one, other] = done.stderr
    return found


def main(*names: str) -> None:
    """Build, then try each."""
    [pure, *compiled], sdist = build()
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    extras = [name for name in PROJECT["optional-dependencies"] if not name.startswith("dev")]
    if uv and not names:
        needs = {name: PROJECT["optional-dependencies"][name] for name in extras if name != "all"}
        apart = conflicts(needs, uv)
        assert not apart, "\n".join(f"{' and '.join(pair)}: {why}" for pair, why in apart.items())
        print(f"every pair of {len(needs)} extras can be installed together")
    # An sdist is compiled during installation, if possible.
    attempt(sdist, "", uv, compiled=bool(compiled))
    for wheel in compiled:
        attempt(wheel, "", uv, compiled=True)
    for extra in names or ("", *extras):
        attempt(pure, extra, uv, compiled=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
