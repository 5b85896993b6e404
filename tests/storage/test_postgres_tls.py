"""Secure connections to PostgreSQL: with certificates that can be trusted, and with others."""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
import os
import tempfile
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import Unavailable, UsageError
from holdfast.storage.postgres.store import PostgresStore


class Authority:
    """A certificate authority of our own."""

    def __init__(self, folder, name):
        from cryptography.hazmat.primitives.asymmetric import ec

        self._folder = folder
        self._name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.path = folder / f"{name}.crt"
        self.path.write_bytes(self._signed(name, self._key.public_key(), None))

    def write(self, name, address):
        """A certificate for an address, and its key."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        (self._folder / f"{name}.crt").write_bytes(self._signed(name, key.public_key(), address))
        secret = self._folder / f"{name}.key"
        secret.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        secret.chmod(0o600)
        owner = self._folder.stat()
        os.chown(secret, owner.st_uid, owner.st_gid)

    def _signed(self, name, public_key, address):
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.x509.oid import NameOID

        def named(text):
            return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(named(name))
            .issuer_name(named(self._name))
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=address is None, path_length=None), critical=True)
        )
        if address is not None:
            addresses = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
            builder = builder.add_extension(addresses, critical=False)
        made = builder.sign(self._key, hashes.SHA256())
        return made.public_bytes(serialization.Encoding.PEM)


@pytest.fixture(scope="module")
def tls_server(postgres_server):
    """A server of its own that speaks TLS, and an authority that it has its certificate from."""
    pytest.importorskip("cryptography", reason="cryptography is not installed")
    with tempfile.TemporaryDirectory(prefix="holdfast-tls-") as place:
        folder = Path(place)
        folder.chmod(0o755)
        server = type(postgres_server)(postgres_server._binaries, folder)
        server.make()
        server.trusted = Authority(folder, "trusted")
        server.trusted.write("good", "127.0.0.1")
        server.trusted.write("elsewhere", "127.0.0.2")
        Authority(folder, "stranger").write("bad", "127.0.0.1")
        yield server
        server.stop()


@pytest.fixture
def url_of(tls_server):
    """Starts the server with one of the certificates and gives an address that verifies it."""

    def start(certificate):
        tls_server.settings = {
            "ssl": "on",
            "ssl_cert_file": str(tls_server.folder / f"{certificate}.crt"),
            "ssl_key_file": str(tls_server.folder / f"{certificate}.key"),
        }
        tls_server.start()
        return f"{tls_server.url}?sslmode=verify-full&sslrootcert={tls_server.trusted.path}"

    yield start
    tls_server.stop()


def test_a_session_over_a_connection_that_was_verified(url_of):
    """With a certificate that can be trusted everything goes over TLS, and works."""
    url = url_of("good")
    with holdfast.open(url) as hf:
        with hf.session("s") as session:
            session.user("in secret")
        assert [event.data["content"] for event in hf.events("s", types=["user"])] == ["in secret"]
    with contextlib.closing(PostgresStore(url)) as store:
        used = "SELECT bool_and(ssl) FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        assert store.link.run(lambda connection: connection.fetchval(used)) is True


@pytest.mark.parametrize("certificate", ["bad", "elsewhere"])
def test_a_server_that_cannot_be_trusted_is_refused(url_of, certificate):
    """From a stranger, or for another address: refused at once, before anything is sent."""
    url = f"{url_of(certificate)}&retry_s=3000"
    with contextlib.closing(PostgresStore(url)) as store, pytest.raises(Unavailable, match="certificate") as caught:
        store.check()
    assert "sslmode" in caught.value.remedy
    assert caught.value.outcome != "unknown"


def test_a_file_of_certificates_that_is_not_there(tls_server):
    """A wrong name of a file is told as such, and not as a server that is away."""
    url = f"{tls_server.url}?sslmode=verify-full&sslrootcert={tls_server.folder}/nothing.crt"
    with pytest.raises(UsageError, match=r"no file .*nothing\.crt"):
        PostgresStore(url)


def test_nobody_said_whom_to_trust(tls_server, monkeypatch, tmp_path):
    """Without a file of certificates, where there is none in its usual place, it is asked for."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with (
        contextlib.closing(PostgresStore(f"{tls_server.url}?sslmode=verify-full")) as store,
        pytest.raises(UsageError, match="root certificate") as caught,
    ):
        store.check()
    assert "sslrootcert" in caught.value.remedy
