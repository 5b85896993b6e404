"""Fail if the chat would use a model whose packages are not installed: ``make chat`` then installs them."""

from __future__ import annotations

import argparse
import sys

from holdfast._config import configuration
from holdfast.agent import choose_model
from holdfast.errors import HoldfastError


def main() -> int:
    """Return 1, with a message, if something is to be installed."""
    options = argparse.ArgumentParser(add_help=False)
    options.add_argument("--model")
    asked, _ = options.parse_known_args()
    try:
        choice = choose_model(asked.model, configuration())
    except HoldfastError:
        return 0  # the chat itself tells what is wrong
    if not choice.needs_engine:
        return 0
    print(f"{choice.lacks or choice.name}: installing what talks to models", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
