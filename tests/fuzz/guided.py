"""The same targets, with inputs that are led by what they reach: needs atheris.

python tests/fuzz/guided.py TARGET [options of libFuzzer, such as -max_total_time=60]
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent


def main(name, *options):
    try:
        import atheris
    except ImportError:
        print("not led by coverage: atheris is not installed")  # noqa: T201 - what it is for
        return
    sys.path.insert(0, str(HERE))
    with atheris.instrument_imports(include=["holdfast"]):
        from fuzz_targets import TARGETS
    atheris.Setup([sys.argv[0], *options, str(HERE / "corpus")], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
