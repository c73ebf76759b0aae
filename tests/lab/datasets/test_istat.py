"""ISTAT's commuting files: what they say is read as it is written, and what is wrong with them is said by line."""

import zipfile

import pyarrow as pa
import pytest
from tallytree.datasets.istat import COLUMNS, read_istat

import tallytree as tt

HEADER = (
    "CODREG_ORIG;REGIONE_ORIG;CODPRO_ORIG;PROCOM_ORIG;COMUNE_ORIG;ACE_ORIG;NSEZ_ORIG;"
    "CODREG_DEST;CODPRO_DEST;PROCOM_DEST;ACE_DEST;NSEZ_DEST;TOTALE_STUDENTI;TOTALE"
)
ROWS = [
    "02;Vallée d'Aoste;007;007003;Aosta;0;0000012;01;001;001272;0015;0000101;1;3",
    "02;Vallée d'Aoste;007;007003;Aosta;0;0000012;02;007;007003;0;0000007;0;12",
    '02;"Vallée; d\'Aoste";007;007001;Allein;0;0000001; 02 ;007;007003;0;0000007;0;1',
]
CELL = "SEGRETO"


def archive(folder, lines=(HEADER, *ROWS), name="r02.zip", encoding="iso-8859-1", end="\r\n", member="Pendo/r02.csv"):
    path = folder / name
    text = lines if isinstance(lines, bytes) else (end.join(lines) + end).encode(encoding)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr(member, text)
        opened.writestr("Leggimi.txt", "tracciato record")
    return path


def refusal(path, **arguments):
    """What reading says; it must not say anything of the cells, nor have it in its context."""
    with pytest.raises(ValueError) as raised:
        read_istat(path, **arguments)
    error = raised.value
    while error is not None:
        assert CELL not in str(error)
        error = error.__cause__ or error.__context__
    return str(raised.value)


@pytest.mark.parametrize("end", ["\r\n", "\n"])
def test_codes_are_text_with_their_zeros_and_totals_are_numbers(tmp_path, end):
    trips = read_istat(archive(tmp_path, end=end))
    assert trips.column_names == list(COLUMNS)
    assert trips["origin_section"].to_pylist() == ["0000012", "0000012", "0000001"]
    assert trips["destination_region"].to_pylist() == ["01", "02", "02"]
    assert trips["destination_section_area"].to_pylist() == ["0015", "0", "0"]
    assert trips["count"].to_pylist() == [3, 12, 1]
    assert trips["count"].type == pa.int64()


def test_several_zips_follow_each_other_and_none_is_read_twice(tmp_path):
    first = archive(tmp_path)
    archive(tmp_path, [HEADER, ROWS[0].replace("02;", "03;", 1)], name="r03.ZIP")
    assert read_istat([first, tmp_path / "r03.ZIP", first])["origin_region"].to_pylist() == ["02", "02", "02", "03"]
    assert read_istat(str(tmp_path / "r*")).num_rows == 4


def test_a_level_reads_no_more_than_its_columns(tmp_path):
    short = HEADER.replace("ACE_ORIG", "X").replace("NSEZ_DEST", "Y")
    trips = read_istat(archive(tmp_path, [short, *ROWS]), level="municipality")
    assert trips.column_names == [c for c in COLUMNS if "section" not in c]


def test_other_column_names_can_be_mapped(tmp_path):
    header = HEADER.replace("CODREG_ORIG", "REG_O").removesuffix(";TOTALE") + ";N"
    path = archive(tmp_path, [header, *ROWS])
    assert "has no column 'CODREG_ORIG'; say what origin_region is called" in refusal(path)
    trips = read_istat(path, columns={"origin_region": "REG_O", "count": "N"})
    assert trips["count"].to_pylist() == [3, 12, 1]


def test_headers_that_are_nearly_right_are_told_what_is_amiss(tmp_path):
    small = archive(tmp_path, [HEADER.lower(), *ROWS])
    assert "it has one that differs in capitals or spaces only" in refusal(small)
    commas = archive(tmp_path, [line.replace(";", ",") for line in (HEADER, *ROWS)])
    assert "cells must be separated by semicolons" in refusal(commas)


def test_trips_can_be_released(tmp_path):
    trips = read_istat(archive(tmp_path), level="municipality")
    leaves = pa.table(
        {
            "region": ["01", "02", "02"],
            "province": ["001", "007", "007"],
            "municipality": ["001272", "007001", "007003"],
        }
    )
    areas = tt.Hierarchy.from_table(leaves, leaves.column_names)
    release = tt.release_flows(
        trips,
        origins=areas,
        destinations=areas,
        origin=trips.column_names[:3],
        destination=trips.column_names[3:6],
        count="count",
        budget=tt.Budget(rho=10_000),
        neighboring="change_one",
        seed=1,
    )
    table = release.table("origin_municipality")
    flows = zip(table["origin_municipality"].to_pylist(), table["destination_municipality"].to_pylist(), strict=True)
    assert dict(zip(flows, table["count"].to_pylist(), strict=True)) == {
        ("007003", "001272"): 3,
        ("007003", "007003"): 12,
        ("007001", "007003"): 1,
    }


BROKEN = [
    (f"02;{CELL};3", "it has 3 cells where the header has 14"),
    (ROWS[0] + ";" + CELL, "it has 15 cells where the header has 14"),
    (ROWS[0].replace(";3", f";{CELL}"), "'TOTALE' is not an integer ≥ 0"),
    (ROWS[0].replace("1;3", "1;-3"), "'TOTALE' is not an integer ≥ 0"),
    (ROWS[0].replace("1;3", "1;"), "'TOTALE' is not an integer ≥ 0"),
    (ROWS[0].replace("1;3", "1;9999999999999999999"), "'TOTALE' is not an integer ≥ 0"),
    (ROWS[0].replace("0000101", ""), "'NSEZ_DEST' is empty; on_missing=\"drop\" leaves such rows out"),
    (ROWS[0].replace("0000101", "  "), "'NSEZ_DEST' is empty"),
    (ROWS[0].replace("Aosta", f'"{CELL}'), "a quote in it is not closed"),
    ("", "it is empty"),
    (ROWS[0].replace("Aosta", "Ao\0sta"), "it has a NUL character"),
    (ROWS[0].replace("Aosta", "Ao\rsta"), "a carriage return stands alone in it"),
]


@pytest.mark.parametrize(
    ("line", "message", "n_before"),
    [*((*broken, 0) for broken in BROKEN), *((*BROKEN[place], 400_000) for place in (0, 2, 8))],  # and in a later block
)
def test_a_broken_line_is_named_by_its_number(tmp_path, line, message, n_before):
    said = refusal(archive(tmp_path, [HEADER, *([ROWS[1]] * n_before), line, ROWS[1]]))
    assert f"'Pendo/r02.csv' in '{tmp_path}/r02.zip', line {n_before + 2}: " in said
    assert message in said


def test_a_quote_that_is_not_closed_in_the_last_line_is_found(tmp_path):
    said = refusal(archive(tmp_path, f'{HEADER}\n{ROWS[0]}\n{ROWS[1]}"'.encode("latin-1")))
    assert "line 3: a quote in it is not closed" in said


def test_rows_without_a_destination_can_be_dropped(tmp_path):
    abroad = ROWS[0].replace("01;001;001272;0015;0000101", ";;;;")
    trips = read_istat(archive(tmp_path, [HEADER, abroad, ROWS[1], abroad]), on_missing="drop")
    assert trips["count"].to_pylist() == [12]


def test_empty_lines_may_end_a_file(tmp_path):
    assert read_istat(archive(tmp_path, [HEADER, *ROWS, "", ""])).num_rows == 3
    assert read_istat(archive(tmp_path, "\n".join([HEADER, *ROWS]).encode("latin-1"))).num_rows == 3


def test_a_file_without_rows_has_none(tmp_path):
    assert read_istat(archive(tmp_path, [HEADER])).num_rows == 0


def test_a_file_without_a_header_shows_nothing_of_its_first_line(tmp_path):
    said = refusal(archive(tmp_path, [f"02;{CELL};5", *ROWS]))
    assert "the header (line 1) has no column 'CODREG_ORIG'" in said
    assert "the header (line 1) has no column" in refusal(archive(tmp_path, b""))


def test_a_column_that_is_there_twice_is_refused(tmp_path):
    assert "has 2 times the column 'TOTALE'" in refusal(archive(tmp_path, [HEADER + ";TOTALE", ROWS[0] + ";4"]))


def test_another_encoding_can_be_given_and_a_wrong_one_is_found(tmp_path):
    utf8 = archive(tmp_path, encoding="utf-8-sig")
    assert "give encoding='utf-8-sig'" in refusal(utf8)
    assert read_istat(utf8, encoding="utf-8-sig").num_rows == 3
    assert "line 2: it is not utf-8; give the encoding= it has" in refusal(archive(tmp_path), encoding="utf-8")
    assert "encoding: 'latin-13' is not known" in refusal(utf8, encoding="latin-13")


def test_what_is_no_zip_or_has_no_csv_is_refused(tmp_path):
    plain = tmp_path / "r01.csv"
    plain.write_text(HEADER)
    assert f"paths: '{plain}' is not a zip" in refusal(plain)
    assert "holds no .csv file" in refusal(archive(tmp_path, member="r02.xls"))
    assert "paths: no file at" in refusal(tmp_path / "nothing.zip")
    assert "paths: [] names no file" in refusal([])


def test_a_damaged_zip_is_refused(tmp_path):
    path = archive(tmp_path, [HEADER, *ROWS * 2_000])
    damaged = bytearray(path.read_bytes())
    damaged[2_000:2_020] = bytes(20)
    path.write_bytes(damaged)
    assert "the zip is damaged; get it again" in refusal(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"level": "street"}, "level: 'street' is not known; choose one of region, province"),
        ({"columns": {"origin": "A"}}, "columns: 'origin' is not a column of the result; those are origin_region"),
        ({"on_missing": "skip"}, "on_missing: 'skip' is not known"),
    ],
)
def test_unknown_arguments_are_refused(tmp_path, arguments, message):
    assert message in refusal(archive(tmp_path), **arguments)
