"""A log as the format page says that it is kept, read without the code that is being tested."""

from __future__ import annotations

import json

from backports import zstd


def is_of_a_log(path):
    """Whether a file is part of a log that can be seen."""
    above, _, name = path.rpartition("/")
    return name in ("events.jsonl", "events.jsonl.zst", "base.json") and "/." not in above


def log_content(content, folder):
    """The bytes of a log by what the format page says, not by the code that is being tested."""
    plain = content(f"{folder}/events.jsonl")
    if plain is not None:
        return plain
    packed = content(f"{folder}/events.jsonl.zst")
    if packed is not None:
        try:
            return zstd.decompress(packed)
        except zstd.ZstdError:
            return b""  # no events: whatever was promised is missed
    try:
        sizes = json.loads(content(f"{folder}/base.json"))["bytes"]
    except ValueError:
        return b""
    names = ["base.jsonl", *(f"base.{number}.jsonl" for number in range(2, len(sizes) + 1))]
    parts = [(content(f"{folder}/{name}") or b"")[:size] for name, size in zip(names, sizes, strict=True)]
    return b"".join(parts) + (content(f"{folder}/own.jsonl") or b"")


def read_log(disk, folder):
    """The bytes of the log in a folder on a recording disk, as programs see them."""
    image = disk.image()

    def content(path):
        inode = 1
        for name in path.strip("/").split("/"):
            inode = image.entries[inode].get(name)
            if inode is None:
                return None
        return image.contents[inode]

    return log_content(content, folder)
