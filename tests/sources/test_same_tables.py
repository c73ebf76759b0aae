"""The private table in place of a public one: found whatever its name is."""

import pyarrow as pa
import pytest

from tallytree.sources.same_tables import refuse_private, table_files


@pytest.fixture
def private(tmp_path):
    (tmp_path / "deep" / "er").mkdir(parents=True)
    file = tmp_path / "deep" / "er" / "people.parquet"
    file.touch()
    (tmp_path / "link.parquet").symlink_to(file)
    (tmp_path / "other_name.parquet").hardlink_to(file)
    (tmp_path / "areas.parquet").touch()
    return file


@pytest.mark.parametrize(
    "spelled",
    ["deep/er/people.parquet", "deep", "deep/**/*.parquet", "link.parquet", "other_*.parquet", "deep/../deep"],
)
def test_a_private_file_is_found_by_every_name(private, tmp_path, spelled):
    with pytest.raises(
        ValueError, match=r"^hierarchy: it is the private table that is given as records, .* give a pub"
    ):
        refuse_private(str(tmp_path / spelled), "hierarchy", private, "records")
    refuse_private(tmp_path / "areas.parquet", "hierarchy", tmp_path / spelled, "records")


def test_tables_in_memory_are_compared_by_identity(private):
    table = pa.table({"a": [1]})
    with pytest.raises(ValueError, match=r"^public_groups: it is the private table"):
        refuse_private(table, "public_groups", table, "records")
    refuse_private(pa.table({"a": [1]}), "public_groups", table, "records")
    refuse_private(None, "public_groups", None, "records")
    refuse_private(private, "public_groups", table, "records")


def test_what_does_not_exist_is_compared_by_its_place(tmp_path):
    assert table_files(tmp_path / "a" / ".." / "b.csv") == table_files(tmp_path / "b.csv")
