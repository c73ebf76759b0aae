"""A key reaches those who have the token of this tabulation, or of this pass, while it runs, and nobody else."""

import hashlib
import socket
import ssl

import pytest

pytestmark = pytest.mark.needs("cryptography")

KEY = bytes(range(32))
LENGTH = (32).to_bytes(8, "big")


def asked(port, token, number=3):
    """What the server answers, and the fingerprint of its certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), timeout=5) as plain, context.wrap_socket(plain) as tls:
        assert tls.version() == "TLSv1.3"
        certificate = tls.getpeercert(binary_form=True)
        tls.sendall(token + number.to_bytes(8, "big", signed=True))
        return b"".join(iter(lambda: tls.recv(64), b"")), hashlib.sha256(certificate).digest()


@pytest.fixture
def server():
    from tallytree.private.tabulate.spark_answers import answering

    return lambda answer=lambda number: KEY: answering(answer, "127.0.0.1", "127.0.0.1")


def test_who_has_the_token_gets_the_key_from_the_server_that_has_the_certificate(server):
    with server() as (host, port, fingerprint, token):
        assert host == "127.0.0.1"
        assert asked(port, token) == (LENGTH + KEY, fingerprint)
        assert asked(port, token)[0] == LENGTH + KEY  # a task that is tried again asks again


def test_a_task_gets_what_is_meant_for_its_number(server):
    from tallytree.private.tabulate.spark_answers import fetching

    with server(lambda number: bytes(2**21 + number)) as where:
        fetched = fetching(where)
        assert [len(fetched(number)) for number in (0, 7, -1)] == [2**21, 2**21 + 7, 2**21 - 1]


def test_a_task_is_told_nothing_of_an_error_and_nothing_is_printed(server, capfd):
    from tallytree.private.tabulate.spark_answers import fetching

    def fails(number):
        raise ValueError("s3cr3t")

    with server(fails) as where, pytest.raises(RuntimeError, match=r"^tallytree-key: the driver does not answer$"):
        fetching(where)(0)
    assert "s3cr3t" not in "".join(capfd.readouterr())


def test_a_task_that_finds_another_certificate_shows_no_token(server):
    from tallytree.private.tabulate.spark_answers import fetching

    asked_for = []
    with (
        server(lambda number: asked_for.append(number)) as where,
        server() as other,
        pytest.raises(RuntimeError, match="does not answer"),
    ):
        fetching(where._replace(fingerprint=other.fingerprint))(0)
    assert asked_for == []


@pytest.mark.parametrize("wrong", [bytes(32), b"x" * 31 + b"\n", b"y" * 64])
def test_who_has_another_token_gets_nothing_and_the_server_goes_on(server, wrong):
    with server() as (_, port, _, token):
        assert asked(port, wrong)[0] == b""
        assert asked(port, token)[0] == LENGTH + KEY


def test_who_does_not_speak_tls_gets_nothing_and_does_not_hold_others_up(server):
    with server() as (_, port, _, token), socket.create_connection(("127.0.0.1", port)) as silent:
        silent.sendall(token)
        assert asked(port, token)[0] == LENGTH + KEY


def test_afterwards_the_server_is_gone_and_another_has_another_certificate_and_token(server):
    with server() as first, server() as second:
        assert first[2] != second[2]
        assert first[3] != second[3]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", first[1]), timeout=5)
