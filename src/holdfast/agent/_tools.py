"""Tools: plain functions with type hints and a docstring, and their declared properties."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, get_type_hints, overload

from holdfast.agent._context import ToolContext
from holdfast.agent._options import check_function, check_map, check_permission, check_texts, check_whole
from holdfast.errors import UsageError
from holdfast.session import in_thread

if TYPE_CHECKING:
    from pydantic_ai.tools import Tool as EngineTool

HOUR_MS = 3_600_000
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}\Z", re.ASCII)
_UNCALLABLE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)


class _Described(NamedTuple):
    """The description of a function for a model, and the validation of its arguments."""

    schema: dict[str, Any]
    description: str
    check: Callable[[Any], Any] | None = None


class Tool:
    """A function that the model may call.

    ``read_only`` and ``idempotent`` declare that running it again is harmless: only such a call is run
    again after a crash. Results of an idempotent tool are also reused within ``cache_ms`` for the
    same arguments. ``needs_permission`` asks before each call, by ``permission`` or the agent's: with
    ``"suspend"`` the call waits for an answer. ``timeout_ms`` limits the wait for the tool.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        read_only: bool = False,
        idempotent: bool = False,
        needs_permission: bool = False,
        permission: Any = None,
        timeout_ms: int | None = None,
        cache_ms: int = HOUR_MS,
        namespace: str | None = None,
        priority: int = 0,
        schema: dict[str, Any] | None = None,
        on_refused: Callable[[ToolContext], None] | None = None,
    ) -> None:
        check_texts(name=name, description=description, namespace=namespace)
        check_function(function=function, on_refused=on_refused)
        check_map(schema=schema)
        check_permission(permission)
        check_whole(0, or_none=True, timeout_ms=timeout_ms)
        check_whole(0, cache_ms=cache_ms)
        self.function = function
        self.name = name or str(getattr(function, "__name__", ""))
        if not _NAME.match(self.name):
            raise UsageError(f"{self.name!r} is not a tool name", remedy="Use up to 64 letters, digits, - and _.")
        self.read_only = read_only
        self.idempotent = idempotent
        self.needs_permission = needs_permission or permission is not None
        self.permission = permission
        """Approves calls of this tool, in place of the agent's ``permission``."""
        self.timeout_ms = timeout_ms
        self.cache_ms = cache_ms if idempotent else 0
        self.namespace = namespace
        self.priority = priority
        self.on_refused = on_refused
        """Called when a call is recorded and not made, because it is wrong or not permitted."""
        self._parameters, self._hints = _parameters(function), _hints(function)
        self._takes_context = bool(self._parameters) and self._hints.get(self._parameters[0].name) is ToolContext
        self._given = description
        self._described = None if schema is None else _Described(schema, description or "")

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        return self.describe().schema

    @property
    def description(self) -> str:
        """The description for the model and for people."""
        if self._described is None and self._given is None:
            # The text before the arguments; a permission prompt must not wait for the library.
            about = inspect.getdoc(self.function) or ""
            return about.partition("\n\n")[0].strip()
        return self._given or self.describe().description

    def describe(self) -> _Described:
        """Make the schema, once, which needs the engine's library. Raises UsageError if none can be made."""
        if self._described is None:
            # The engine would show the model our context as an argument.
            shown = self._parameters[1:] if self._takes_context else self._parameters
            made = _engine_tool(self.name, inspect.getdoc(self.function), shown, self._hints)
            told = self._given or made.tool_def.description or ""
            check = made.function_schema.validator.validate_python
            self._described = _Described(made.tool_def.parameters_json_schema, told, check)
        return self._described

    @property
    def returns(self) -> Any:
        """The annotated type of its result."""
        return self._hints.get("return", Any)

    @property
    def repeatable(self) -> bool:
        """True if a call whose outcome is unknown may be run again."""
        return self.read_only or self.idempotent

    def check_args(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments as the function takes them. Raises UsageError if they do not fit.

        Their types are checked if a model got the schema; an engine that asks for none knows the function.
        """
        if self._described is None:
            return self._check_names(args)
        if self._described.check is None:
            return args
        try:
            checked: dict[str, Any] = self._described.check(args)
        except ValueError as error:
            raise UsageError(f"wrong arguments for {self.name}: {fault_of(error)}") from error
        return checked

    def _check_names(self, args: dict[str, Any]) -> dict[str, Any]:
        given = [None] if self._takes_context else []
        try:
            inspect.signature(self.function).bind(*given, **args)
        except TypeError as error:
            raise UsageError(f"wrong arguments for {self.name}: {error}") from error
        return args

    async def call(self, context: ToolContext, args: dict[str, Any]) -> Any:
        """Run the function: an async one here, any other in a thread of its own."""
        given = [context] if self._takes_context else []
        try:
            if inspect.iscoroutinefunction(self.function):
                return await self.function(*given, **args)
            found = await in_thread(lambda: self.function(*given, **args), name=f"tool-{self.name}")
            return await found if isinstance(found, Awaitable) else found
        # A tool is foreign code: it must not end the program that called it.
        except SystemExit as error:
            raise RuntimeError(f"the tool wanted to end the process ({error})") from error

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(function: None = None, /, **options: Any) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function: ``@tool`` or ``@tool(read_only=True, …)``."""
    if function is None:
        return lambda found: Tool(found, **options)
    return Tool(function)


def as_tools(given: Iterable[Any]) -> list[Tool]:
    """Return the given tools and plain functions as tools. Raises UsageError."""
    given = list(given)
    for item in given:
        if not isinstance(item, Tool) and not callable(item):
            raise UsageError(f"{item!r} is neither a function nor a Tool")
    made = [item if isinstance(item, Tool) else Tool(item) for item in given]
    names = [each.name for each in made]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"two tools have the name {twice[0]!r}")
    return made


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        return get_type_hints(target, include_extras=True)
    except (NameError, TypeError) as error:
        raise UsageError(
            f"the type hints of {getattr(function, '__name__', function)} cannot be read: {error}",
            remedy="Import the types that they name at module level.",
        ) from error


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    found = list(inspect.signature(function).parameters.values())
    if any(each.kind in _UNCALLABLE for each in found):
        raise UsageError("a tool takes its arguments by name: no *args, no positional-only ones")
    return found


def _engine_tool(
    name: str, about: str | None, parameters: list[inspect.Parameter], hints: dict[str, Any]
) -> EngineTool[None]:
    """Return the engine's tool for a function with these hints and docstring."""
    try:
        from pydantic_ai.tools import Tool as EngineTool
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the schema of the tool {name} needs the package {error.name}, which is not installed",
            remedy="Install it with: pip install 'holdfast[agent]'",
        ) from error

    def stand_in() -> None: ...

    stand_in.__name__, stand_in.__doc__ = name, about
    stand_in.__annotations__ = {p.name: hints[p.name] for p in parameters if p.name in hints}
    typed = [p.replace(annotation=hints.get(p.name, inspect.Parameter.empty)) for p in parameters]
    stand_in.__signature__ = inspect.Signature(typed)  # type: ignore[attr-defined]  # inspect reads it
    try:
        return EngineTool(stand_in, name=name, takes_ctx=False)
    except Exception as error:
        raise UsageError(
            f"no schema can be made for the tool {name}: {error}",
            remedy="Annotate its arguments with types that have a JSON schema, and its context with ToolContext.",
        ) from error


def fault_of(error: ValueError) -> str:
    """Return a validation error without the address of its documentation."""
    lines = [line for line in str(error).splitlines() if "For further information" not in line]
    return "; ".join(line.strip() for line in lines[1:]) or str(error)
