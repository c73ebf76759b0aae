"""The explorer as a server: who reaches it, what it gives, and what it says where it cannot start."""

import csv
import http.client
import io
import json
import shutil
import socket
import stat
import time
from contextlib import closing
from pathlib import Path
from queue import Empty, Queue
from urllib.parse import urlsplit

import pytest

import tallytree as tt
from helpers.explored import cookie_of, counts, explorer
from tallytree._explore.shown import ReleaseReplacedError, open_release

pytestmark = pytest.mark.needs("nicegui", "vl_convert")
nicegui = pytest.importorskip("nicegui")
pytest.importorskip("vl_convert")
from tallytree._explore import server  # noqa: E402
from tallytree._explore.page import MAX_WAITING  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return counts().save(tmp_path_factory.mktemp("served") / "counts")


COUNTING = """
import gc
from nicegui import Client, app
@app.get("/live")
def live():
    gc.collect()
    return {"kept": len(Client.instances), "alive": sum(isinstance(each, Client) for each in gc.get_objects())}
from tallytree.cli import main
main()
"""
"""The explorer, with an address that says how many pages it holds."""


@pytest.fixture(scope="module")
def address(folder):
    with explorer(folder, program=("-c", COUNTING)) as found:
        yield found


def answer(address, path="/", cookie=None, **headers):
    """What is answered to whoever opened the printed address before, or to another cookie: status, headers, body."""
    place = urlsplit(address)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    given["Cookie"] = cookie_of(address) if cookie is None else cookie
    with closing(http.client.HTTPConnection(place.hostname, place.port, timeout=30)) as connection:
        connection.request("GET", path, headers=given)
        got = connection.getresponse()
        return got.status, got.headers, got.read().decode(errors="replace")


def asked(address, path="/", **headers):
    status, _, text = answer(address, path, **headers)
    return status, text


SOCKET = "/_nicegui_ws/socket.io/?EIO=4&transport="


def socket_opens(address, cookie):
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec_WebSocket_Version": "13"}
    return answer(address, SOCKET + "websocket", cookie, Sec_WebSocket_Key="dGhlIHNhbXBsZSBub25jZQ==", **upgrade)[0]


def test_without_the_token_nothing_is_answered(address):
    name, _, token = cookie_of(address).partition("=")
    style = f"/_nicegui/{nicegui.__version__}/static/nicegui.css"
    paths = ["/", "/?table=1", "/view.csv", "/view.svg", "/none", "/favicon.ico", SOCKET + "polling", style,
             f"/view.csv?token={token}", "/?token=", f"/?token={token}x", "/?token=%C3%A9"]  # fmt: skip
    for path in paths:
        for cookie in ("", f"{name}=", f"{name}={token[:-1]}", f"{name}=\xe9", f"other={token}"):
            status, _, text = answer(address, path, cookie.encode("latin-1"))
            assert (status, "Open that address, as it is in the terminal" in text) == (403, True), (path, cookie)
    assert answer(address, style)[0] == answer(address, SOCKET + "polling")[0] == 200


def test_without_the_token_no_socket_is_opened(address):
    assert socket_opens(address, "") == 403
    assert socket_opens(address, cookie_of(address)) == 101


def test_the_printed_address_gives_a_cookie_in_place_of_the_token(address):
    token = urlsplit(address).query
    status, headers, text = answer(address, f"/?table=2&{token}&search=d%C3%A9%22%3E", "")
    assert status == 200
    assert headers["Set-Cookie"].split("; ") == [cookie_of(address), "HttpOnly", "Path=/", "SameSite=strict"]
    assert headers["Refresh"] == "0; url=/?table=2&search=d%C3%A9%22%3E"
    assert token.removeprefix("token=") not in headers["Refresh"] + text
    assert len(token) > 40


def test_every_answer_says_what_a_browser_may_do_with_it(address):
    nonces = set()
    for path, cookie in (("/", None), ("/", None), ("/none", None), ("/view.svg", None), ("/", "")):
        _, headers, text = answer(address, path, cookie)
        rules = dict(each.split(" ", 1) for each in headers["Content-Security-Policy"].split("; "))
        assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == "'none'"
        assert not {"*", "http:", "https:", "'unsafe-inline'"} & set(rules["script-src"].split())
        assert rules["connect-src"] == rules["form-action"] == "'self'"
        nonces.add(nonce := rules["script-src"].split("'nonce-")[1].split("'")[0])
        assert text.count("<script") == text.count(f'<script nonce="{nonce}"')
        assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == ("nosniff", "no-referrer")
    assert len(nonces) == 5


def test_few_pages_are_held_that_no_browser_has_connected_to(address):
    for _ in range(2 * MAX_WAITING):
        assert answer(address)[0] == 200
    live = lambda: json.loads(answer(address, "/live")[2])  # noqa: E731
    assert live()["kept"] <= MAX_WAITING + 8  # those of tests before, which are no views
    until = time.monotonic() + 30  # the tasks of a page end within seconds
    while live()["alive"] > MAX_WAITING + 8:
        assert time.monotonic() < until, live()
        time.sleep(0.2)


def test_the_browser_is_led_to_the_address_by_a_file_that_nobody_else_can_read(monkeypatch):
    opened = Queue()
    monkeypatch.setattr(server.webbrowser, "open", opened.put)
    with socket.socket() as answering:
        answering.bind(("127.0.0.1", 0))
        port = answering.getsockname()[1]
        with server.opened_browser(server.address_at(port, "s3cr3t"), port):
            with pytest.raises(Empty):
                opened.get(timeout=0.3)
            answering.listen()
            uri = opened.get(timeout=10)
            file = Path(urlsplit(uri).path)
            assert "s3cr3t" not in uri
            assert f'content="0; url=http://127.0.0.1:{port}/?token=s3cr3t"' in file.read_text()
            assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert not file.parent.exists()


def test_the_rows_of_a_view_come_as_csv_as_they_are_published(address, folder):
    status, text = asked(address, "/view.csv?table=2&order=hierarchy")
    assert status == 200
    published = tt.Release.load(folder).table("town", alpha=0.1)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert list(rows[0]) == published.column_names
    assert [row["town"] for row in rows] == published.column("town").to_pylist()
    assert [int(row["count"]) for row in rows] == published.column("count").to_pylist()
    assert [int(row["ci_upper"]) for row in rows] == published.column("ci_upper").to_pylist()


def test_the_picture_of_a_view_is_svg_with_its_labels(address):
    status, text = asked(address, "/view.svg?table=1")
    assert status == 200
    assert text.startswith("<svg")
    assert ">N<" in text


def test_paths_that_climb_out_are_not_found(address):
    for path in ("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/release.json", "/tables/town.parquet",
                 "/_nicegui/../../../etc/passwd", "//etc/passwd"):  # fmt: skip
        status, text = asked(address, path)
        assert status == 404, path
        assert "root:" not in text


def test_other_names_of_this_machine_and_other_sites_are_refused(address):
    assert asked(address, Host="evil.example")[0] == 400
    assert asked(address, Origin="http://evil.example")[0] == 403
    assert asked(address, Origin="http://[")[0] == 403
    assert asked(address, Origin=address.partition("/?")[0])[0] == 200


def test_queries_that_make_no_sense_are_pages(address):
    for query in ("tick=%C2%B2", "tick=99999999999999999999", "first=99999999999999999", "at=9.9", "table=x&alpha=2"):
        assert asked(address, f"/?{query}")[0] == 200, query


def test_only_the_loopback_address_is_bound(address):
    others = {found[4][0] for found in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
    for other in others or {"127.0.0.2"}:
        with socket.socket() as tried:
            tried.settimeout(2)
            assert tried.connect_ex((other, urlsplit(address).port)) != 0


@pytest.mark.slow
def test_two_explorers_show_one_folder_at_two_ports(address, folder):
    with explorer(folder) as second:
        assert second != address
        assert asked(second)[0] == asked(address)[0] == 200


def test_nothing_of_two_releases_is_shown_together(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "shown")
    shown = open_release(tmp_path / "shown", [], None)
    read = lambda: shown.walk.page(shown.walk.view.tables[-1], (shown.walk.sides[0].root,)).total  # noqa: E731
    assert shown.reading(read) == 5
    counts().save(tmp_path / "next")

    def replaced_while_it_is_read():
        (tmp_path / "shown").rename(tmp_path / "old")
        (tmp_path / "next").rename(tmp_path / "shown")
        return read()

    with pytest.raises(ReleaseReplacedError):
        shown.reading(replaced_while_it_is_read)
    with pytest.raises(ReleaseReplacedError):
        shown.reading(read)
