"""Make the search of a built documentation site work if its pages are opened from a folder.

There a browser fetches no file and starts no worker from one. So ``search.js``, which the theme loads as a script
then, has the index and the worker itself.

    python tools/disk_search.py site
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

# Runs before the theme starts its worker, which waits for the index.
SCRIPT = """\
var __index = %(index)s;
(() => {
  const source = %(worker)s;
  const Started = window.Worker;
  window.Worker = class extends Started {
    constructor() { super(URL.createObjectURL(new Blob([source], { type: "text/javascript" }))); }
  };
})();
"""


def main(site: Path) -> None:
    """Write search.js from the site's index and its search worker."""
    (worker,) = site.glob("assets/javascripts/workers/search.*.js")
    index = (site / "search.json").read_text(encoding="utf-8")
    script = SCRIPT % {"index": index, "worker": json.dumps(worker.read_text(encoding="utf-8"))}
    (site / "search.js").write_text(script, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
