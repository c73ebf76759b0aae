"""The explorer as a server: who reaches it, what it gives, and how its browser is led to it."""

import http.client
import os
import signal
import stat
import threading
from contextlib import closing
from pathlib import Path
from queue import Queue
from urllib.parse import urlsplit

import pytest

from helpers.explored import counts, explorer
from tallytree.views.explore import serving


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return counts().save(tmp_path_factory.mktemp("served") / "counts")


@pytest.fixture(scope="module")
def address(folder):
    with explorer(folder) as found:
        yield found


def answer(address, path, *, method="GET", **headers):
    """What is answered: status, headers, body."""
    place = urlsplit(address)
    with closing(http.client.HTTPConnection(place.hostname, place.port, timeout=600)) as connection:
        connection.request(method, path, headers=headers)
        got = connection.getresponse()
        return got.status, got.headers, got.read().decode(errors="replace")


def test_the_printed_address_gives_the_page(address):
    token = urlsplit(address).path
    assert len(token) > 40
    for path in (token, f"{token}index.html", f"{token}?at.area=S"):
        status, headers, text = answer(address, path)
        assert status == 200
        assert "<title>counts</title>" in text
        assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
    assert answer(address, token, method="HEAD")[2] == ""
    assert answer(address, token, method="POST")[0] == 501


def test_without_the_token_nothing_is_answered(address):
    token = urlsplit(address).path.strip("/")
    paths = [
        "/",
        "/index.html",
        "/none",
        f"/{token[:-1]}/",
        f"/{token}x/",
        f"/x/{token}/",
        f"/?{token}",
        "//",
        "/%C3%A9/",
    ]
    for path in paths:
        status, _, text = answer(address, path)
        assert (status, "Open the address that tallytree explore printed" in text) == (403, True), path
        assert token not in text.replace(path, "")


def test_other_names_of_this_machine_are_refused(address):
    path = urlsplit(address).path
    for host in ("evil.example", f"evil.example:{urlsplit(address).port}", "127.0.0.1.evil.example:80"):
        assert answer(address, path, Host=host)[0] == 403
    assert answer(address, path, Host=f"localhost:{urlsplit(address).port}")[0] == 200


def test_folders_are_not_listed_and_paths_that_climb_out_are_not_found(address):
    path = urlsplit(address).path
    for rest in ("../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "/etc/passwd", "release.json", "data/", "../"):
        status, _, text = answer(address, path + rest)
        assert status in (200, 404), rest
        assert "root:" not in text
        assert "Directory listing" not in text


def test_a_folder_without_a_page_is_not_listed(tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    with serving.opened_server(tmp_path, None, "token") as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        status, _, text = answer(serving.address_of(server, "token"), "/token/")
        server.shutdown()
    assert status == 404
    assert "secret" not in text


@pytest.mark.slow
def test_the_folder_of_the_page_is_removed_when_the_explorer_ends(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with explorer(folder):
        (made,) = tmp_path.glob("tallytree-explore-*")
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert list(tmp_path.iterdir()) == []


def test_the_signal_that_ends_services_ends_it_as_ctrl_c_does(tmp_path, monkeypatch):
    with serving.opened_server(tmp_path, None, "token") as server:
        before, serve_forever = signal.getsignal(signal.SIGTERM), server.serve_forever

        def ended_soon(**options):
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
            serve_forever(**options)

        monkeypatch.setattr(server, "serve_forever", ended_soon)
        serving.serve(server)
        assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.slow
def test_the_browser_is_led_to_the_address_by_a_file_that_nobody_else_can_read(monkeypatch):
    opened = Queue()
    monkeypatch.setattr(serving.webbrowser, "open", opened.put)
    with serving.opened_browser("http://127.0.0.1:9000/s3cr3t/"):
        uri = opened.get(timeout=600)
        file = Path(urlsplit(uri).path)
        assert "s3cr3t" not in uri
        assert 'content="0; url=http://127.0.0.1:9000/s3cr3t/"' in file.read_text()
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert not file.parent.exists()
