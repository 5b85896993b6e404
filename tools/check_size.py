"""Refuse modules over 600 lines and functions over 70, so that each can be read as a whole."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

MODULE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
TREES = ("src", "tests", "tools", "bench", "examples")


def functions_of(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function of a module, including nested ones."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def oversized(path: Path) -> Iterator[str]:
    """Yield a line of text for each part of the file that is too long."""
    source = path.read_text(encoding="utf-8")
    lines = source.count("\n")
    if lines > MODULE_LINES_MAX:
        yield f"{path}: {lines} lines, the limit for a module is {MODULE_LINES_MAX}"
    for function in functions_of(ast.parse(source, str(path))):
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        if length > FUNCTION_LINES_MAX:
            yield (
                f"{path}:{function.lineno}: {function.name} has {length} lines, "
                f"the limit for a function is {FUNCTION_LINES_MAX}"
            )


def is_ours(path: Path, root: Path) -> bool:
    """Return whether a file is part of the project: hidden folders contain installed files."""
    return not any(part.startswith(".") for part in path.relative_to(root).parts)


def main(trees: list[str]) -> int:
    """Check the given trees, or the project's own; return 1 if something is too long."""
    roots = [Path(tree) for tree in trees or TREES]
    files = [path for root in roots for path in sorted(root.rglob("*.py")) if is_ours(path, root)]
    found = [text for path in files for text in oversized(path)]
    for text in found:
        print(text)
    print(f"sizes: {len(files)} modules, {len(found)} too long")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
