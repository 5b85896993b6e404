"""Build hook: compile the optional compiled part of the package, and write its page for a package index.

What it cannot be done for (no compiler, no headers, a platform or interpreter without a stable
interface) becomes the pure wheel, which does the same a little slower. ``HOLDFAST_PURE=1`` asks for
that one.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zlib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

FOLDER = "holdfast/model"
SOURCE = "_line_maker.c"
BUILT = "_line_maker.abi3.so"
FLAGS = ("-std=c11", "-O2", "-Wall", "-Wextra", "-fPIC", "-fvisibility=hidden")
COMPILE_SECONDS_MAX = 120
RELATIVE_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")


class CompiledPart(BuildHookInterface):  # type: ignore[type-arg, misc]  # its configuration is its own
    """Adds the compiled part to a wheel; leaves it in the tree for an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and mark the wheel as one for this platform; without success change nothing."""
        source = Path(self.root) / "src" / FOLDER / SOURCE
        self._scratch = tempfile.mkdtemp(prefix="holdfast-build-")
        built = Path(self._scratch) / BUILT
        if not can_compile() or not compiled(source, built):
            return
        if version == "editable":
            put_beside(source, built)
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{platform()}"
        build_data["force_include"][str(built)] = f"{FOLDER}/{BUILT}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was made meanwhile."""
        del version, build_data, artifact_path
        shutil.rmtree(self._scratch, ignore_errors=True)


class IndexPage(MetadataHookInterface):
    """Makes README.md the description of the package, with links that work away from this tree."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the description; the addresses are settings in pyproject.toml."""
        text = (Path(self.root) / "README.md").read_text("utf-8")
        page = on_an_index(text, self.config.get("pages", ""), self.config.get("pictures", ""))
        metadata["readme"] = {"content-type": "text/markdown", "text": page}


def on_an_index(text: str, pages: str, pictures: str) -> str:
    """Return Markdown with absolute links; without an address, the words of links alone, and no pictures."""

    def absolute(found: re.Match[str]) -> str:
        mark, words, path, place = found.groups("")
        base = pictures if mark else pages
        return f"{mark}[{words}]({base}{path}{place})" if base else "" if mark else words

    return RELATIVE_LINK.sub(absolute, text)


def can_compile() -> bool:
    """Return whether this interpreter and platform can build the compiled part."""
    return (
        not os.environ.get("HOLDFAST_PURE")
        and sys.implementation.name == "cpython"
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
        and sys.platform in {"linux", "darwin"}
        and (Path(sysconfig.get_path("include")) / "Python.h").is_file()
    )


def compiled(source: Path, target: Path) -> bool:
    """Compile with the compiler of this Python, else the system's; False if that fails."""
    named = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "")
    compilers = [words for words in (named, ["cc"]) if words and shutil.which(words[0])]
    linking = ["-shared"]
    if sys.platform == "darwin":
        # Both processors of a universal Python, and the oldest system that it is for.
        linking = ["-bundle", "-undefined", "dynamic_lookup"]
        linking += shlex.split(sysconfig.get_config_var("CFLAGS") or "")
    words = [
        *FLAGS,
        *linking,
        f"-I{sysconfig.get_path('include')}",
        f"-DSOURCE={zlib.crc32(source.read_bytes())}L",
        str(source),
        "-o",
        str(target),
    ]
    return any(_ran([*compiler, *words]) and target.is_file() for compiler in compilers)


def _ran(words: list[str]) -> bool:
    try:
        done = subprocess.run(  # noqa: S603 - a compiler, which whoever builds has chosen
            words, capture_output=True, timeout=COMPILE_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def put_beside(source: Path, built: Path) -> None:
    """Into the tree that an editable install loads; programs that use an older one keep theirs."""
    fresh = source.with_name(f".{BUILT}.{os.getpid()}")
    try:
        shutil.copyfile(built, fresh)
        fresh.replace(source.with_name(BUILT))
    except OSError:
        fresh.unlink(missing_ok=True)  # a tree that is not ours to write to


def platform() -> str:
    """Return the platform of a wheel compiled here, in the form of its file name."""
    if sys.platform == "linux":
        from packaging import tags

        known = list(tags.platform_tags())
        return next((one for one in known if one.startswith(("manylinux", "musllinux"))), known[0])
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")
