"""The server of moto, with conditional writes that are one step.

By itself it looks at the condition and then stores, with nothing between the two that keeps others out: of four
writers over one version two were told that they had won, in 17 of 400 rounds where threads changed often.
"""

from __future__ import annotations

import threading

from moto.s3.responses import S3Response
from moto.server import main

_lock = threading.Lock()
_put_object = S3Response.put_object


def put_object(self):
    with _lock:
        return _put_object(self)


if __name__ == "__main__":
    S3Response.put_object = put_object
    main()
