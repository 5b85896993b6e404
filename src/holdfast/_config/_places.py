"""The places of settings and sessions: in the project, and in the user's directories."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # the command's quick start loads this, and loading `typing` takes longer
if TYPE_CHECKING:
    from collections.abc import Callable

ENVIRONMENT = "HOLDFAST_STORE"
CONFIG_VARIABLE = "HOLDFAST_CONFIG"
PROJECT_FOLDER = ".holdfast"
PROJECT_FILE = "holdfast.toml"
AGENTS_FOLDER = "agents"
USER_FILE = "config.toml"
_PRICES_FILE = "prices.toml"
# Variables that say nothing about what sessions there are, or how they are listed.
_HARMLESS = {
    ENVIRONMENT,
    "HOLDFAST_GUIDE_WORD_MS",
    "HOLDFAST_MODEL_SERVERS",
    "HOLDFAST_PAGER",
    "HOLDFAST_PASSPHRASE",
    "HOLDFAST_PURE",
    "HOLDFAST_TRACEBACK",
}


def store_without_settings() -> str | None:
    """Return where the store is, if no other setting was given anywhere; None if settings have to be read."""
    given = [name for name, value in os.environ.items() if name.startswith("HOLDFAST_") and value]
    if not _HARMLESS.issuperset(given) or project_file() is not None:
        return None
    if os.path.isfile(user_file()) or os.path.isfile(prices_file()):
        return None
    named = os.environ.get(ENVIRONMENT)
    if named:
        return named if named.strip() else None
    return project_folder() or user_folder()


def project_file() -> str | None:
    return _upwards(PROJECT_FILE, os.path.isfile)


def project_folder() -> str | None:
    return _upwards(PROJECT_FOLDER, os.path.isdir)


def _upwards(name: str, is_there: Callable[[str], bool]) -> str | None:
    """Return the path of ``name`` in the working directory or above it, up to the root of the project."""
    folder = here("")
    while folder:
        candidate = os.path.join(folder, name)
        if is_there(candidate):
            return candidate
        parent = os.path.dirname(folder)
        # A project ends at its repository: a file above it is somebody else's.
        if parent == folder or os.path.exists(os.path.join(folder, ".git")):
            return None
        folder = parent
    return None


def here(name: str) -> str:
    try:
        return os.path.join(os.getcwd(), name) if name else os.getcwd()
    except FileNotFoundError:  # the working directory is gone
        return name


def agent_folders() -> list[tuple[str, bool]]:
    """Return where files of agents are looked for, the strongest first, and whether the place is the user's own."""
    project, own = project_folder(), os.path.join(os.path.dirname(user_file()), AGENTS_FOLDER)
    return [*([] if project is None else [(os.path.join(project, AGENTS_FOLDER), False)]), (own, True)]


def user_file() -> str:
    return os.path.join(_user_place("config", "~/.config"), USER_FILE)


def prices_file() -> str:
    """Return where the user's own prices are looked for."""
    return os.path.join(os.path.dirname(user_file()), _PRICES_FILE)


def user_folder() -> str:
    return _user_place("data", "~/.local/share")


def _user_place(kind: str, usual: str) -> str:
    """Return the user's own directory for configuration or data.

    platformdirs knows it for every system. On Linux it only reads a variable, and loading it takes
    longer than everything else at the first opening, so there the variable is read here.
    """
    if sys.platform == "linux" and "ANDROID_ROOT" not in os.environ:
        place = os.environ.get(f"XDG_{kind.upper()}_HOME", "")
        return os.path.join(place if place.strip() else os.path.expanduser(usual), "holdfast")
    import platformdirs

    find = {"config": platformdirs.user_config_dir, "data": platformdirs.user_data_dir}[kind]
    return find("holdfast", appauthor=False, roaming=True)
