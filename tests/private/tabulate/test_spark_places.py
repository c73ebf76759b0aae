"""The key of a contribution bound reaches those who have this tabulation's token, while it runs, and nobody else."""

import hashlib
import socket
import ssl

import pytest

pytestmark = pytest.mark.needs("cryptography")

KEY = bytes(range(32))


def asked(port, token):
    """What the server answers, and the fingerprint of its certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), timeout=5) as plain, context.wrap_socket(plain) as tls:
        assert tls.version() == "TLSv1.3"
        certificate = tls.getpeercert(binary_form=True)
        tls.sendall(token)
        return tls.recv(64), hashlib.sha256(certificate).digest()


@pytest.fixture
def server():
    from tallytree.private.tabulate.spark_places import key_server

    return lambda: key_server(KEY, "127.0.0.1", "127.0.0.1")


def test_who_has_the_token_gets_the_key_from_the_server_that_has_the_certificate(server):
    with server() as (host, port, fingerprint, token):
        assert host == "127.0.0.1"
        assert asked(port, token) == (KEY, fingerprint)
        assert asked(port, token)[0] == KEY  # a task that is tried again asks again


@pytest.mark.parametrize("wrong", [bytes(32), b"x" * 31 + b"\n", b"y" * 64])
def test_who_has_another_token_gets_nothing_and_the_server_goes_on(server, wrong):
    with server() as (_, port, _, token):
        assert asked(port, wrong)[0] == b""
        assert asked(port, token)[0] == KEY


def test_who_does_not_speak_tls_gets_nothing_and_does_not_hold_others_up(server):
    with server() as (_, port, _, token), socket.create_connection(("127.0.0.1", port)) as silent:
        silent.sendall(token)
        assert asked(port, token)[0] == KEY


def test_afterwards_the_server_is_gone_and_another_has_another_certificate_and_token(server):
    with server() as first, server() as second:
        assert first[2] != second[2]
        assert first[3] != second[3]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", first[1]), timeout=5)
