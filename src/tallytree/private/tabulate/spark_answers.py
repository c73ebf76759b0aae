"""How keys, and what belongs to single tasks, reach the executors: tasks fetch it from the driver, over TLS.

The driver runs a small server for the time of one tabulation, or of one pass over bands. It has a certificate of its
own, made for this time. What is sent with the tasks, and so may be in a closure on a disk, is the server's address, the
fingerprint of its certificate and a random token (`Where`). A task connects, compares the fingerprint, shows the token
and the number of what it works on, and gets what is meant for it. At the end the server, its certificate and its token
are gone, so what a closure, a log or an event file holds opens nothing. The connection has forward secrecy (TLS 1.3).
What is sent is in memory only: of the driver, and of the Python workers while a task runs.

The key of the contribution bound is fetched so, for `keyed_place` on executors.
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
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

TOKEN_BYTES = 32
NUMBER_BYTES = 8
ANSWERS_AT_ONCE = 4
"""An answer may be a band's true statistics, so no more of them are in the driver's memory; other tasks wait."""

_PIECE = 2**20
_SECONDS = 10
"""For one step of a conversation; a peer that is silent is dropped."""


class Where(NamedTuple):
    """Where a task asks; it may be in a closure. It opens nothing once the server has ended."""

    host: str
    port: int
    fingerprint: bytes
    """SHA-256 of the server's certificate."""
    token: bytes


Answer = Callable[[int], bytes]
"""From the number of what a task works on to what it gets; any thread may call it, more than once."""


@contextmanager
def answering(answer: Answer, host: str, bind: str) -> Iterator[Where]:
    """Answer tasks as long as the context lasts.

    Args:
        answer: what a task gets; where it raises an error, the task gets nothing.
        host: the driver's name for executors.
        bind: the address to listen at.
    """
    certificate, context = _certificate()
    token = secrets.token_bytes(TOKEN_BYTES)
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    with socket.create_server((bind, 0), family=family, backlog=128) as listening:
        where = Where(host, listening.getsockname()[1], hashlib.sha256(certificate).digest(), token)
        stop = threading.Event()
        talk = _Talk(context, token, answer, stop, threading.Semaphore(ANSWERS_AT_ONCE))
        server = threading.Thread(target=_serve, args=(listening, talk), daemon=True)
        server.start()
        try:
            yield where
        finally:
            stop.set()
            server.join()


@dataclass(frozen=True, repr=False)
class _Talk:
    """What conversations need."""

    context: ssl.SSLContext
    token: bytes
    answer: Answer
    stop: threading.Event
    turns: threading.Semaphore


def _serve(listening: socket.socket, talk: _Talk) -> None:
    listening.settimeout(0.05)
    while not talk.stop.is_set():
        try:
            peer, _ = listening.accept()
        except TimeoutError:
            continue
        except OSError:
            return
        threading.Thread(target=_converse, args=(peer, talk), daemon=True).start()


def _converse(peer: socket.socket, talk: _Talk) -> None:
    # Whoever connects and cannot show the token gets nothing, and is not told why. An error must not be printed, since
    # it may be about true statistics: the caller's `answer` notes its own.
    with suppress(Exception), peer:
        peer.settimeout(_SECONDS)
        with talk.context.wrap_socket(peer, server_side=True) as tls:
            shown = b""
            while len(shown) < TOKEN_BYTES + NUMBER_BYTES and (more := tls.recv(TOKEN_BYTES + NUMBER_BYTES)):
                shown += more
            if not hmac.compare_digest(shown[:TOKEN_BYTES], talk.token):
                return
            number = int.from_bytes(shown[TOKEN_BYTES : TOKEN_BYTES + NUMBER_BYTES], "big", signed=True)
            with talk.turns:
                _send(tls, number, talk)


def _send(tls: ssl.SSLSocket, number: int, talk: _Talk) -> None:
    """Send the answer, preceded by its length, as long as the server lasts."""
    if talk.stop.is_set():
        return
    content = memoryview(talk.answer(number))
    tls.sendall(len(content).to_bytes(NUMBER_BYTES, "big"))
    for start in range(0, len(content), _PIECE):  # the time is for each piece
        if talk.stop.is_set():
            return
        tls.sendall(content[start : start + _PIECE])


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


def fetching(where: Where) -> Callable[[int], bytes]:
    """How a task asks.

    It is a closure with imports of its own, so that executors which only bound contributions need not have this
    package.

    Raises (when it is called):
        RuntimeError: the driver does not answer.
    """
    host, port, fingerprint, token = where

    def fetched(number: int) -> bytes:
        import hashlib
        import hmac
        import socket
        import ssl

        def read(tls: ssl.SSLSocket, size: int) -> bytearray:
            found = bytearray(size)
            view, done = memoryview(found), 0
            while done < size:
                more = tls.recv_into(view[done:])
                if not more:
                    raise OSError("the end")
                done += more
            return found

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # the fingerprint is compared instead
        try:
            with socket.create_connection((host, port), timeout=30) as plain, context.wrap_socket(plain) as tls:
                shown = hashlib.sha256(tls.getpeercert(binary_form=True) or b"").digest()
                if not hmac.compare_digest(shown, fingerprint):
                    raise OSError("another certificate")
                tls.settimeout(600)  # it may be the turn of other tasks
                tls.sendall(token + number.to_bytes(8, "big", signed=True))
                return bytes(read(tls, int.from_bytes(read(tls, 8), "big")))
        except OSError:
            pass
        raise RuntimeError("tallytree-key: the driver does not answer")

    return fetched


def place_function(where: Where) -> Any:
    """`keyed_place` as a function of Spark: see `session.DUCKDB_FUNCTIONS`.

    It is a closure with imports of its own, so executors need pyarrow, and not this package.
    """
    fetched = fetching(where)

    def place(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        import hashlib

        import pyarrow as pa

        begun = hashlib.sha256(fetched(0))

        def of(content: str | None) -> int | None:
            if content is None:
                return None
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
