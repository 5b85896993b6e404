"""The optional parts of Holdfast: what each gives, and whether it is installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

__all__ = ["EXTRAS", "Extra", "find_extras", "installed_version"]

# By the names of the extras in pyproject.toml; a test compares the two.
EXTRAS: dict[str, tuple[str, tuple[str, ...]]] = {
    "agent": ("agents on any provider's model", ("pydantic-ai-slim",)),
    "local": ("a model that runs on this machine", ("xllamacpp",)),
    "tokens": ("exact token counts without a network", ("splintr-rs",)),
    "crypto": ("sealed sessions and keys", ("cryptography", "keyring")),
    "postgres": ("stores in PostgreSQL", ("asyncpg",)),
    "s3": ("stores in S3 and its kin", ("obstore",)),
    "tui": ("the terminal app", ("textual",)),
    "web": ("the web app and the HTTP service", ("jinja2", "starlette", "uvicorn", "websockets")),
    "acp": ("types of ACP; `holdfast acp` needs none", ("agent-client-protocol",)),
    "mcp": ("tools for models, by MCP", ("mcp",)),
    "otel": ("traces and metrics by OpenTelemetry", ("opentelemetry-api",)),
    "openai-agents": ("sessions of the OpenAI Agents SDK", ("openai-agents",)),
    "langgraph": ("checkpoints of LangGraph", ("langgraph", "langgraph-checkpoint")),
    "adk": ("sessions of Google's ADK", ("google-adk",)),
    "strands": ("sessions of Strands Agents", ("strands-agents",)),
    "claude-sdk": ("sessions of the Claude Agent SDK", ("anyio", "claude-agent-sdk")),
    "pydantic-ai": ("histories of Pydantic AI", ("pydantic-ai-slim",)),
}


class Extra(NamedTuple):
    """One optional part; ``missing`` names the packages that are not there."""

    name: str
    gives: str
    installed: bool
    missing: tuple[str, ...]
    install: str


def find_extras() -> list[Extra]:
    """Every optional part, and what it lacks."""
    return [_look(name, gives, packages) for name, (gives, packages) in EXTRAS.items()]


def installed_version(package: str) -> str | None:
    """The version of an installed package; None if there is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _look(name: str, gives: str, packages: tuple[str, ...]) -> Extra:
    missing = tuple(package for package in packages if installed_version(package) is None)
    return Extra(name, gives, not missing, missing, f"pip install 'holdfast[{name}]'")
