"""Bundles that somebody changed: payloads, keys and lines that are not what they say."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from zlib import crc32

import pytest

import holdfast
from holdfast.errors import HoldfastError, Tampered
from holdfast.model import encode_line

KEY = bytes(range(32))
QUICK = {"autosave_ms": 0, "snapshot_ms": 0}
PAYLOAD = "the genuine payload " * 100
SMALL = holdfast.Limits(blob_bytes_min=500)
PLAIN = b'"type":"user","timestamp":1,"data":{"role":"user","content":"I am the attacker"}'


def packed(id, log, documents):
    """A bundle whose sizes and checksums are right, whatever is in it."""
    out, members = io.BytesIO(), []
    files = {"events.jsonl": log} | documents
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(f"sessions/{id}/{name}", data)
            digest = hashlib.sha256(data).hexdigest()
            members.append({"name": f"sessions/{id}/{name}", "bytes": len(data), "sha256": digest})
        manifest = {"format": "holdfast-bundle", "version": 1, "sessions": [{"id": id}], "members": members}
        archive.writestr("manifest.json", json.dumps(manifest))
    return out.getvalue()


def unpacked(data):
    """The log and the documents of the only session of a bundle."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = [name for name in archive.namelist() if name != "manifest.json"]
        found = {name.split("/", 2)[2]: archive.read(name) for name in names}
    return found.pop("events.jsonl"), found


def lines_of(*bodies):
    crc, log = 0, b""
    for seq, body in enumerate(bodies):
        line, crc = encode_line(seq, body, crc)
        log += line
    return log


def reference(data):
    digest = hashlib.sha256(data).hexdigest()
    return {"$blob": digest, "bytes": len(data), "media": "application/json"}


def bring(hf, tmp_path, data):
    place = tmp_path / "bundle.zip"
    place.write_bytes(data)
    return hf.import_(place)


@pytest.mark.unmeasured
@pytest.mark.req("C18")
def test_payloads_that_name_each_other_without_end(tmp_path):
    """Twelve small ones, each naming the next twenty times: everything comes to its end."""
    blob, documents = b'"a"', {}
    for _ in range(12):
        documents["blobs/" + hashlib.sha256(blob).hexdigest()] = blob
        blob = json.dumps([reference(blob)] * 20).encode()
    documents["blobs/" + hashlib.sha256(blob).hexdigest()] = blob
    told = json.dumps({"toolCallId": "c", "result": reference(blob)}).encode()
    known = json.dumps({"name": "v", "value": reference(blob)}).encode()
    log = lines_of(
        b'"type":"session_start","timestamp":1,"data":{"format":1}',
        b'"type":"tool_call","timestamp":1,"data":{"id":"c","tool":"t","params":{}}',
        b'"type":"tool_result","timestamp":1,"data":%b' % told,
        b'"type":"variable_set","timestamp":1,"data":%b' % known,
    )
    with holdfast.open("memory:", config={"redaction": {"mode": "mark"}}) as hf:
        [id] = bring(hf, tmp_path, packed("bomb", log, documents))
        assert 0 < len(hf.export(id, format="markdown")) < 4 << 20
        with hf.session(id, **QUICK) as session:
            assert 0 < len(str(session.messages())) < 8 << 20
            assert len(str(session.variables["v"])) < 8 << 20


@pytest.fixture(params=["plain", "sealed"])
def shop(request, tmp_path):
    """A store with a session that has a payload, and a bundle of it with one event more."""
    sealed = request.param == "sealed"
    with holdfast.open(tmp_path / "a", key=KEY, limits=SMALL) as hf:
        with hf.session("s", **QUICK, seal=sealed) as session:
            session.append("tool_call", {"id": "c", "tool": "t", "params": {}})
            session.tool_result("c", {"content": PAYLOAD})
        old = hf.export("s", format="bundle")
        with hf.session("s", **QUICK) as session:
            session.user("one more")
        new = hf.export("s", format="bundle")
    with holdfast.open(tmp_path / "b", key=KEY, limits=SMALL) as hf:
        bring(hf, tmp_path, old)
        yield hf, new


def test_a_bundle_does_not_take_the_place_of_a_payload(shop, tmp_path):
    """Bytes under the name of a payload that is here change nothing of it."""
    hf, new = shop
    log, documents = unpacked(new)
    spoilt = {name: b"not it" if name.startswith("blobs/") else data for name, data in documents.items()}
    assert spoilt != documents
    bring(hf, tmp_path, packed("s", log, spoilt))
    assert "one more" in hf.export("s", format="markdown")
    assert PAYLOAD in hf.export("s", format="neutral")
    assert hf.verify("s").ok


@pytest.mark.parametrize("shop", ["sealed"], indirect=True)
def test_lines_put_into_a_sealed_bundle(shop, tmp_path):
    """Plain ones, ones of another session, keys of another one: refused before all."""
    hf, new = shop
    log, documents = unpacked(new)
    before = [event.data for event in hf.events("s")]
    with hf.session("t", **QUICK, seal=True) as session:
        session.user("another")
    other, others = unpacked(hf.export("t", format="bundle"))
    plain, _ = encode_line(log.count(b"\n"), PLAIN, crc32(log))
    for id, bad, keys in (
        ("s", log + plain, documents),
        ("s", lines_of(PLAIN), documents),
        ("x", log, documents | {"seal.json": others["seal.json"]}),
        ("x", other, documents),
    ):
        with pytest.raises(HoldfastError) as caught:
            bring(hf, tmp_path, packed(id, bad, keys))
        assert isinstance(caught.value, Tampered)
        assert not hf.exists("x")
    assert [event.data for event in hf.events("s")] == before


def _chained(depth):
    """Payloads each of which holds the next, four hundred of them or each deep in itself."""
    blob, documents = b'"a"', {}
    for _ in range(400 if not depth else 5):
        documents["blobs/" + hashlib.sha256(blob).hexdigest()] = blob
        blob = b"[" * depth + json.dumps([reference(blob)]).encode() + b"]" * depth
    documents["blobs/" + hashlib.sha256(blob).hexdigest()] = blob
    return reference(blob), documents


def _escaped():
    value = {"$$blob": "1"}
    for _ in range(700):
        value = [value]
    return value, {}


@pytest.mark.parametrize(
    "made", [lambda: _chained(0), lambda: _chained(260), _escaped], ids=["long", "deep", "escaped"]
)
def test_what_is_nested_without_end_stops_nobody(tmp_path, made):
    """One such session, and the store can still be listed and searched, and it shown and forked."""
    value, documents = made()
    log = lines_of(
        b'"type":"session_start","timestamp":1,"data":{"format":1}',
        b'"type":"tool_call","timestamp":1,"data":{"id":"c","tool":"t","params":{}}',
        b'"type":"tool_result","timestamp":1,"data":%b' % json.dumps({"toolCallId": "c", "result": value}).encode(),
    )
    with holdfast.open("memory:", config={"redaction": {"mode": "off"}}) as hf:
        with hf.session("mine", **QUICK) as session:
            session.user("hello")
        [id] = bring(hf, tmp_path, packed("deep", log, documents))
        assert {row.session_id for row in hf.list()} == {"mine", id}
        assert [hit.session_id for hit in hf.search("hello")] == ["mine"]
        assert len([event.data for event in hf.events(id)]) == 3
        assert hf.export(id, format="markdown")
        assert hf.redact(id, find=["hello world"]).found == {}
        assert hf.fork(id)
