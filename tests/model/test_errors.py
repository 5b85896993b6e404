"""Errors: typed, with a code and a remedy, and usable by programs."""

from __future__ import annotations

import ast
import copy
import pickle  # noqa: TID251 - errors cross processes
import re
from pathlib import Path

import pytest

from holdfast import errors
from holdfast.errors import (
    AgentError,
    Damaged,
    Forbidden,
    HoldfastError,
    InvalidData,
    InvalidId,
    Locked,
    NotFound,
    StoreError,
    Tampered,
    TooLarge,
    TooNew,
    Unavailable,
    UsageError,
)

SOURCES = Path(errors.__file__).parent
ALL = [getattr(errors, name) for name in errors.__all__]
BUILTINS = {
    UsageError: ValueError,
    StoreError: OSError,
    Locked: BlockingIOError,
    Unavailable: ConnectionError,
    NotFound: KeyError,
    Damaged: ValueError,
    TooNew: ValueError,
    TooLarge: ValueError,
    InvalidId: ValueError,
    InvalidData: ValueError,
    Tampered: ValueError,
    Forbidden: PermissionError,
    AgentError: RuntimeError,
}

each = pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)


def drawn_tree() -> dict[str, str | None]:
    """Each name in the drawing of the module's docstring, with the one it hangs under."""
    parents: dict[str, str | None] = {}
    path: list[tuple[int, str]] = []
    for line in re.findall(r"^    [│├└─ ]*[A-Z]\w+.*$", errors.__doc__, re.MULTILINE):
        depth, name = re.match(r"([│├└─ ]*)(\w+)", line).span(2)[0], re.search(r"\w+", line)[0]
        path = [entry for entry in path if entry[0] < depth]
        parents[name] = path[-1][1] if path else None
        path.append((depth, name))
    return parents


def test_every_error_stands_where_the_drawing_says():
    """The docstring shows the whole tree, and nothing else is exported."""
    defined = {
        value.__name__: value.__bases__[0].__name__
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert defined == drawn_tree() | {"HoldfastError": "Exception"}
    assert defined.keys() == set(errors.__all__)


@pytest.mark.parametrize(("kind", "builtin"), BUILTINS.items(), ids=lambda kind: kind.__name__)
def test_errors_are_builtins_where_one_says_the_same(kind, builtin):
    """`except KeyError` keeps working."""
    assert issubclass(kind, builtin)
    assert issubclass(kind, HoldfastError)


@each
def test_every_error_has_a_stable_code_of_its_own(kind):
    """Programs match on it; it is in snake case and unlike any other."""
    assert re.fullmatch(r"[a-z]+(_[a-z]+)*", kind.code)
    assert [other for other in ALL if other.code == kind.code] == [kind]
    assert "code" in vars(kind)


@each
def test_every_error_has_a_message_and_a_remedy(kind):
    """The docstring is the message; the remedy is one sentence that says what to do."""
    error = kind()
    assert str(error) == error.message == kind.__doc__.strip().partition("\n")[0].rstrip(".")
    assert error.remedy.endswith(".")
    assert error.remedy[0].isupper()
    assert error.args == (error.message,)


@each
def test_messages_remedies_and_fields_can_be_given(kind):
    """What is known about the case is on the error, as attributes."""
    error = kind("it broke", remedy="Mend it.", session_id="s", seq=0, pid=None)
    assert (str(error), error.message, error.remedy) == ("it broke", "it broke", "Mend it.")
    assert (error.session_id, error.seq) == ("s", 0)
    assert error.fields == {"session_id": "s", "seq": 0}
    assert kind.remedy != "Mend it."


@each
def test_a_field_that_was_not_given_is_none(kind):
    """Handlers need not ask first; names that are no fields are no attributes."""
    assert kind().needed_bytes is None
    for name in ("__wrapped__", "_private", "_repr_html_"):
        with pytest.raises(AttributeError):
            getattr(kind(), name)


@each
def test_a_field_that_is_added_later_is_an_attribute_too(kind):
    """A layer above may know more."""
    error = kind()
    error.fields["unsaved"] = ["event"]
    assert error.unsaved == ["event"]


@each
@pytest.mark.parametrize("move", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_errors_survive_copies_and_processes(kind, move):
    """Type, message, remedy and fields come along."""
    error = kind("it broke", remedy="Mend it.", session_id="s", errno=28)
    found = move(error)
    assert type(found) is kind
    assert str(found) == "it broke"
    assert (found.remedy, found.fields) == ("Mend it.", error.fields)
    assert (found.session_id, found.errno) == ("s", 28)


@pytest.mark.parametrize("kind", [kind for kind in ALL if issubclass(kind, OSError)])
def test_fields_that_the_operating_system_knows_are_its_own(kind):
    """`except OSError as e: e.errno` works, with the number and the name of the file."""
    error = kind("full", errno=28, filename="a.txt", strerror="no space")
    assert (error.errno, error.filename, error.strerror) == (28, "a.txt", "no space")
    assert str(error) == "full"
    assert kind().errno is None
    assert isinstance(error, OSError)


def test_builtin_handlers_keep_working():
    """Code that knows nothing of Holdfast catches what it means."""
    with pytest.raises(KeyError):
        raise NotFound
    with pytest.raises(ValueError, match="not allowed"):
        raise InvalidId
    with pytest.raises(BlockingIOError):
        raise Locked(pid=1, host="h")
    with pytest.raises(PermissionError):
        raise Forbidden
    assert str(NotFound("there is none")) == "there is none"


@each
def test_every_error_has_a_status_and_an_exit_code(kind):
    """The status is one of HTTP's for failures, the exit code one that the command documents."""
    assert 400 <= kind.status < 600
    assert kind.exit in {1, 2, 3, 4}


def test_a_status_is_what_http_means_by_it():
    """A wrong request is 400, what the state of a session forbids 409, a full store 507."""
    statuses = {kind.code: kind.status for kind in (InvalidId, Damaged, TooNew, errors.StoreFull)}
    assert statuses == {"invalid_id": 400, "damaged": 409, "too_new": 409, "store_full": 507}


def numbers_of_errors(source):
    """The lines of a module in which classes of errors are mapped to numbers."""
    names = set(errors.__all__)

    def is_number(node):
        if isinstance(node, ast.Name):  # by convention, a constant
            return node.id.isupper()
        return isinstance(node, ast.Constant) and type(node.value) is int

    def is_error(node):
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        found = {part.attr if isinstance(part, ast.Attribute) else getattr(part, "id", "")
                 for part in parts}  # fmt: skip
        return bool(found) and found <= names

    for node in ast.walk(ast.parse(source)):
        pairs = []
        if isinstance(node, ast.Tuple | ast.List):
            pairs = list(zip(node.elts, node.elts[1:], strict=False))
        elif isinstance(node, ast.Dict):
            pairs = list(zip(node.keys, node.values, strict=True))
        elif isinstance(node, ast.match_case) and isinstance(node.body[0], ast.Return):
            classes = [one.cls for one in ast.walk(node.pattern) if isinstance(one, ast.MatchClass)]
            pairs = [(one, node.body[0].value) for one in classes]
        if any(is_error(one) and is_number(other) for one, other in pairs):
            yield getattr(node, "lineno", 0)


@pytest.mark.unmeasured
def test_no_module_repeats_statuses_or_exit_codes():
    """Only errors.py says which number stands for which error."""
    table = "T = ((NotFound, 404), ((UsageError, InvalidId), EXIT_USAGE))\nD = {Locked: 409}"
    choice = "match e:\n    case errors.NotFound() | InvalidId():\n        return 404"
    assert len([*numbers_of_errors(table), *numbers_of_errors(choice)]) == 4
    found = {
        f"{path.relative_to(SOURCES)}:{line}"
        for path in SOURCES.rglob("*.py")
        for line in numbers_of_errors(path.read_text(encoding="utf-8"))
    }
    assert found == set()
