"""Model servers on this machine: those that answer at their usual ports, and their models.

All are asked at once, and an answer that is late or of another shape is ignored: their ports
are used by many other programs, too.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

WAIT_S = 0.2
_LOAD_S = 0.5  # time for loading the HTTP library, once a server is listening
_ANSWER_BYTES_MAX = 1 << 20
# Parts of the names of embedding models, which cannot chat.
_EMBEDDING_NAMES = ("embed", "bge-", "gte-", "e5-", "minilm", "rerank")
_EMBEDDING_FAMILIES = ("bert", "nomic-bert")


class ServedModel(NamedTuple):
    """One model of a server that runs here."""

    server: str
    """The name of the kind of server, such as Ollama."""
    url: str
    """The address of its OpenAI-compatible API."""
    name: str
    is_loaded: bool
    size: int | None
    """In bytes; None if the server does not report it."""


class _Listed(NamedTuple):
    name: str
    is_loaded: bool = False
    size: int | None = None
    is_embedding: bool = False


Ask = Callable[[str], Any]
"""Returns a server's answer for a path, as JSON values; None if there is no valid answer."""


def served_models(environment: Mapping[str, str]) -> list[ServedModel]:
    """Return the chat models of all servers that answer in time, in the order of the servers."""
    found: dict[str, list[ServedModel]] = {}
    threads = [
        threading.Thread(target=_ask_kind, args=(kind, environment, found), name="model-server", daemon=True)
        for kind in _KINDS
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + WAIT_S + _LOAD_S
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [model for kind in _KINDS for model in found.get(kind.name, [])]


def best_model(models: Iterable[ServedModel]) -> ServedModel | None:
    """Return the preferred model: a loaded one, else the largest if sizes are known, else the first."""
    known = list(models)
    loaded = next((model for model in known if model.is_loaded), None)
    largest = max((model for model in known if model.size), key=lambda model: model.size or 0, default=None)
    return loaded or largest or next(iter(known), None)


def ollama_root(environment: Mapping[str, str]) -> str:
    """Return the address of Ollama, from its own variable."""
    given = environment.get("OLLAMA_BASE_URL") or environment.get("OLLAMA_HOST") or ""
    if "://" not in given:
        host, _, port = given.rpartition(":") if given.rpartition(":")[2].isdecimal() else (given, "", "")
        given = f"http://{_reached(host)}:{port or 11434}"
    return given.rstrip("/").removesuffix("/v1")


def _reached(host: str) -> str:
    """Return the host at which a server that listens on ``host`` can be reached."""
    return "127.0.0.1" if host in ("", "0.0.0.0", "[::]") else host  # noqa: S104 - where to knock, not to listen


class _Kind(NamedTuple):
    """A kind of server: its port, and how it lists its models."""

    name: str
    address: Callable[[Mapping[str, str]], str]
    models: Callable[[Ask], Iterator[_Listed]]


def _ollama(ask: Ask) -> Iterator[_Listed]:
    tags = _rows(ask("/api/tags"), "models", "name")
    running = {row["name"] for row in _rows(ask("/api/ps"), "models", "name")} if tags else set()
    for row in tags:
        details = row.get("details")
        family = details.get("family") if isinstance(details, dict) else None
        yield _Listed(row["name"], row["name"] in running, _whole(row.get("size")), family in _EMBEDDING_FAMILIES)


def _lm_studio(ask: Ask) -> Iterator[_Listed]:
    newest = _rows(ask("/api/v1/models"), "models", "key")
    if newest:
        for row in newest:
            size, is_embedding = _whole(row.get("size_bytes")), row.get("type") == "embedding"
            yield _Listed(row["key"], bool(row.get("loaded_instances")), size, is_embedding)
        return
    # Its older API, and then the common one.
    for row in _rows(ask("/api/v0/models"), "data", "id") or _openai_rows(ask):
        yield _Listed(row["id"], row.get("state") == "loaded", None, row.get("type") == "embeddings")


def _serving(ask: Ask) -> Iterator[_Listed]:
    """Yield the models of servers that were started with one; a server with several reports which are loaded."""
    for row in _openai_rows(ask):
        status, meta = row.get("status"), row.get("meta")
        is_loaded = status.get("value") == "loaded" if isinstance(status, dict) else True
        yield _Listed(row["id"], is_loaded, _whole(meta.get("size")) if isinstance(meta, dict) else None)


def _openai_rows(ask: Ask) -> list[dict[str, Any]]:
    answer = ask("/v1/models")
    return _rows(answer, "data", "id") if isinstance(answer, dict) and answer.get("object") == "list" else []


def _at(port: int) -> Callable[[Mapping[str, str]], str]:
    return lambda _: f"http://127.0.0.1:{port}"


def _llama_root(environment: Mapping[str, str]) -> str:
    host, port = environment.get("LLAMA_ARG_HOST", ""), environment.get("LLAMA_ARG_PORT", "")
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return f"http://{_reached(host)}:{port if port.isdecimal() else 8080}"


_KINDS = (
    _Kind("Ollama", ollama_root, _ollama),
    _Kind("LM Studio", _at(1234), _lm_studio),
    _Kind("llama.cpp", _llama_root, _serving),
    _Kind("vLLM", _at(8000), _serving),
)


def _ask_kind(kind: _Kind, environment: Mapping[str, str], found: dict[str, list[ServedModel]]) -> None:
    root = kind.address(environment)
    left_s = _knock(root)
    if left_s is None:
        return
    listed = [one for one in kind.models(_asker(root, left_s)) if not _makes_vectors(one)]
    found[kind.name] = [ServedModel(kind.name, f"{root}/v1", one.name, one.is_loaded, one.size) for one in listed]


def _knock(root: str) -> float | None:
    """Return how much of the time is left after connecting; None if nothing listens, which is known at once."""
    began = time.monotonic()
    scheme, _, rest = root.partition("://")
    host, colon, port = rest.partition("/")[0].rpartition(":")
    if not colon:
        host, port = port, "443" if scheme == "https" else "80"
    try:
        with socket.create_connection((host.strip("[]"), int(port)), WAIT_S):
            return WAIT_S - (time.monotonic() - began)
    except (OSError, ValueError, OverflowError):
        return None


def _asker(root: str, left_s: float) -> Ask:
    # Loaded late: only if a server listens.
    from http.client import HTTPException
    from urllib.request import HTTPRedirectHandler, ProxyHandler, build_opener

    class Stay(HTTPRedirectHandler):
        """Follows no redirects: a redirect comes from another program."""

        def redirect_request(self, *_: Any) -> None:
            return None

    # Never through a proxy: the server is on this machine.
    opener = build_opener(ProxyHandler({}), Stay())
    deadline = time.monotonic() + left_s

    def ask(path: str) -> Any:
        left = deadline - time.monotonic()
        if left <= 0:
            return None
        try:
            with opener.open(root + path, timeout=left) as answer:
                data = b""
                # Piece by piece: a server that sends a byte now and then is late all the same.
                while (piece := answer.read1(_ANSWER_BYTES_MAX)) and len(data) < _ANSWER_BYTES_MAX:
                    data += piece
                    if time.monotonic() > deadline:
                        return None
                return msgspec.json.decode(data)
        except (OSError, HTTPException, ValueError):
            return None

    return ask


def _rows(answer: Any, member: str, name: str) -> list[dict[str, Any]]:
    """Return the rows of a list that have a name; none if the answer has another shape."""
    rows = answer.get(member) if isinstance(answer, dict) else None
    known = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return [row for row in known if isinstance(row.get(name), str) and row[name].strip()]


def _makes_vectors(model: _Listed) -> bool:
    name = model.name.lower()
    return model.is_embedding or any(part in name for part in _EMBEDDING_NAMES)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
