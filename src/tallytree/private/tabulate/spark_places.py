"""How the key of the contribution bound reaches the executors: they fetch it from the driver, over TLS.

The driver runs a small server for the time of one tabulation. It has a certificate of its own, made for this
tabulation. What is sent with the tasks, and so may be in a closure on a disk, is the server's address, the fingerprint
of its certificate and a random token. A task connects, compares the fingerprint, shows the token, and gets the key.
When the tabulation ends the server, its certificate and its token are gone, so what a closure, a log or an event file
holds opens nothing. The connection has forward secrecy (TLS 1.3). The key is in memory only: of the driver, and of the
Python workers while a task runs.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import os
import secrets
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

TOKEN_BYTES = 32
_SECONDS = 10
"""For one conversation; a peer that is silent is dropped."""


@contextmanager
def key_server(key: bytes, host: str, bind: str) -> Iterator[tuple[str, int, bytes, bytes]]:
    """Serve a key as long as the context lasts.

    Args:
        key: what a task gets.
        host: the driver's name for executors.
        bind: the address to listen at.

    Yields:
        Host, port, the SHA-256 fingerprint of the certificate, and the token.
    """
    certificate, context = _certificate()
    token = secrets.token_bytes(TOKEN_BYTES)
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    with socket.create_server((bind, 0), family=family, backlog=128) as listening:
        stop = threading.Event()
        server = threading.Thread(target=_serve, args=(listening, context, token, key, stop), daemon=True)
        server.start()
        try:
            yield host, listening.getsockname()[1], hashlib.sha256(certificate).digest(), token
        finally:
            stop.set()
            server.join()


def _serve(listening: socket.socket, context: ssl.SSLContext, token: bytes, key: bytes, stop: threading.Event) -> None:
    listening.settimeout(0.05)
    while not stop.is_set():
        try:
            peer, _ = listening.accept()
        except TimeoutError:
            continue
        except OSError:
            return
        threading.Thread(target=_answer, args=(peer, context, token, key, stop), daemon=True).start()


def _answer(peer: socket.socket, context: ssl.SSLContext, token: bytes, key: bytes, stop: threading.Event) -> None:
    # Whoever connects and cannot show the token gets nothing, and is not told why.
    with suppress(OSError), peer:
        peer.settimeout(_SECONDS)
        with context.wrap_socket(peer, server_side=True) as tls:
            shown = b""
            while len(shown) < TOKEN_BYTES and (more := tls.recv(TOKEN_BYTES - len(shown))):
                shown += more
            if hmac.compare_digest(shown, token) and not stop.is_set():
                tls.sendall(key)


def _certificate() -> tuple[bytes, ssl.SSLContext]:
    """A new certificate in DER, and the server's context; OpenSSL reads the private key from memory."""
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tallytree")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .sign(private, hashes.SHA256())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    pem = made.public_bytes(serialization.Encoding.PEM) + private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    memory = os.memfd_create("tallytree")
    try:
        os.write(memory, pem)
        context.load_cert_chain(f"/proc/self/fd/{memory}")
    finally:
        os.close(memory)
    return made.public_bytes(serialization.Encoding.DER), context


def place_function(host: str, port: int, fingerprint: bytes, token: bytes) -> Any:
    """`keyed_place` as a function of Spark: see `dialect.DUCKDB_FUNCTIONS`.

    It is a closure with imports of its own, so executors need pyarrow, and not this package.
    """

    def fetched() -> bytes:
        import hashlib
        import hmac
        import socket
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # the fingerprint is compared instead
        try:
            with socket.create_connection((host, port), timeout=30) as plain, context.wrap_socket(plain) as tls:
                shown = hashlib.sha256(tls.getpeercert(binary_form=True) or b"").digest()
                if not hmac.compare_digest(shown, fingerprint):
                    raise OSError("another certificate")
                tls.sendall(token)
                key = b""
                while len(key) < 32 and (more := tls.recv(32 - len(key))):
                    key += more
        except OSError:
            key = b""
        if len(key) != 32:
            raise RuntimeError("tallytree-key: the driver does not answer")
        return key

    def place(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        import hashlib

        import pyarrow as pa

        begun = hashlib.sha256(fetched())

        def of(content: str) -> int:
            one = begun.copy()
            one.update(content.encode())
            return int.from_bytes(one.digest()[:8], "big") >> 4

        for batch in batches:
            yield pa.array([of(content) for content in batch.to_pylist()], pa.int64())

    from pyspark.sql.functions import arrow_udf

    return arrow_udf(_annotated(place), "bigint")


def _annotated(place: Callable[..., Any]) -> Callable[..., Any]:
    """Types as objects, from which Spark takes that the function is one of iterators."""
    place.__annotations__ = {"batches": Iterator[pa.Array], "return": Iterator[pa.Array]}
    return place
