"""The explorer as a server: who reaches it, what it gives, and what it says where it cannot start."""

import csv
import http.client
import io
import shutil
import socket
from urllib.parse import urlsplit

import pytest

import tallytree as tt
from helpers.explored import counts, explorer
from tallytree.explore.shown import ReleaseReplacedError, open_release

pytestmark = pytest.mark.needs("nicegui", "vl_convert")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return counts().save(tmp_path_factory.mktemp("served") / "counts")


@pytest.fixture(scope="module")
def address(folder):
    with explorer(folder) as found:
        yield found


def asked(address, path="/", **headers):
    place = urlsplit(address)
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=30)
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    found = answer.status, answer.read().decode()
    connection.close()
    return found


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
    assert asked(address, Origin=address.rstrip("/"))[0] == 200


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
    read = lambda: shown.walk.page(shown.walk.shelf.tables[-1], (shown.walk.sides[0].root,)).total  # noqa: E731
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
