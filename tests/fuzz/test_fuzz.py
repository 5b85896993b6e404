"""Any bytes at all, to everything that reads bytes of others."""

from __future__ import annotations

import json
import os
import random

import pytest
from campaign_log import record
from fuzz_targets import CORPUS, PROVIDERS, TARGETS, WEIGHTS, corpus, mutated

from holdfast.model import LineReader
from holdfast.replay import recover, validate

INPUTS = int(os.environ.get("FUZZ_INPUTS", "6400"))
PARTS = 8 if INPUTS < 1_000_000 else 64
EXPECTED = json.loads((CORPUS / "expected.json").read_text(encoding="utf-8"))
SEEDS = corpus()


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", TARGETS)
def test_no_bytes_break_it(name, part):
    """Whatever comes is read or refused in a documented way; a failure names its input."""
    chance = random.Random(f"{name} {part}")
    count = INPUTS * WEIGHTS[name] // sum(WEIGHTS.values()) // PARTS
    for number in range(count):
        data = mutated(SEEDS, chance)
        try:
            TARGETS[name](data)
        except BaseException as error:
            error.add_note(f"input {number} of part {part}: {data!r}")
            raise
    assert count > 0
    record("fuzz", count)


@pytest.mark.parametrize("name", EXPECTED)
def test_failures_of_the_field_lose_no_whole_record(name):
    """Each failure that was reported elsewhere: every whole record is read, damage is told of."""
    data = (CORPUS / f"{name}.jsonl").read_bytes()
    reader = LineReader()
    events = [*reader.feed(data), *reader.finish()]
    assert len(events) == EXPECTED[name]["whole"]
    assert bool(reader.gaps) == EXPECTED[name]["damaged"]
    for provider in PROVIDERS:
        assert validate(recover(events, provider).messages, provider).errors == []


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_breaks_nothing(name):
    """The files as they are, to every target."""
    for path in sorted(CORPUS.glob("*.jsonl")):
        TARGETS[name](path.read_bytes())
