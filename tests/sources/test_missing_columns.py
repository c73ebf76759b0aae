"""What a message shows of a table's columns where a wanted one is missing: decision 0057."""

import pyarrow as pa
import pytest

import tallytree as tt
from tallytree.sources.reading import MOST_SHOWN, read_public, require_columns

HEADER = ["state", "county", "household_id", "sex"]
RECORDS = {
    "numbers and dates": ["Zwetschke", "county", "NAME-1", "1958-03-02", "state"],
    "an id": ["state", "county", "Zwetschke", "81174"],
    "an empty cell": ["state", "county", "Zwetschke", ""],
    "an address": ["state", "county", "zwetschke@example.org"],
    "a word that is wanted": ["berlin", "county", "Zwetschke"],
    "words alone": ["Berlin", "Zwetschke", "divorced"],
}
"""First records of files without a header; in some of them cells are wanted columns' names."""


def message(names, wanted, *, public=False):
    with pytest.raises(ValueError, match=r"^records: ") as caught:
        require_columns(names, wanted, "records", public=public)
    return str(caught.value)


@pytest.mark.parametrize("wanted", ["househld", "HouseholdID", "household id", "householdid_"])
def test_a_misspelt_column_of_a_private_table_is_told_with_all_names_where_two_others_are_there(wanted):
    assert message(HEADER, ["state", "county", wanted]) == (
        f"records: column {wanted!r} is missing; the table has the columns 'state', 'county', 'household_id', 'sex'; "
        "did you mean 'household_id'?"
    )


def test_a_missing_column_that_is_like_none_is_told_with_all_names():
    assert message(HEADER, ["state", "county", "weight"]).endswith(
        "the columns 'state', 'county', 'household_id', 'sex'"
    )


def test_of_a_private_table_of_which_one_column_is_recognized_only_similar_names_are_shown():
    told = message(HEADER, ["county", "househld"])
    assert told == "records: column 'househld' is missing; the table has 4 columns; did you mean 'household_id'?"
    assert "household_id" not in message(HEADER, ["county", "weight"])


def test_capitals_are_no_reason_not_to_recognize_a_name():
    told = message(["State", "County", "Household-ID"], ["state", "county"])
    assert told.endswith("the columns 'State', 'County', 'Household-ID'; did you mean 'State'?")


@pytest.mark.parametrize("wanted", [["county"], ["zwetschk"], ["county", "state", "zwetschk"], ["name", "birth"]])
@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
def test_a_record_in_place_of_a_header_is_not_shown(record, wanted):
    if set(wanted) <= set(record):
        require_columns(record, wanted, "records", public=False)
        return
    told = message(record, wanted)
    hidden = [cell for cell in record if cell and cell not in wanted]
    assert hidden
    assert not [cell for cell in hidden if cell in told]


def test_the_limit_of_the_decision_is_a_record_of_words_alone_with_a_wanted_name_and_a_word_like_another():
    told = message(RECORDS["a word that is wanted"], ["county", "zwetschk"])
    assert told == "records: column 'zwetschk' is missing; the table has 3 columns; did you mean 'Zwetschke'?"


def test_a_surname_that_is_nearly_a_wanted_name_is_not_shown():
    assert "Persson" not in message(["Persson", "female", "married"], ["person"])


def test_a_private_table_with_a_column_for_each_person_is_not_listed():
    wide = ["state", "county", *(f"patient_{number}" for number in range(MOST_SHOWN))]
    assert "patient_7" not in message(wide, ["state", "county", "weight"])
    assert "patient_7'" in message(wide, ["state", "county", "weight"], public=True)


def test_a_header_of_a_private_table_that_is_not_shown_is_to_be_looked_at():
    assert message(HEADER, ["region"]) == (
        "records: column 'region' is missing; the table has 4 columns; look at its header (names are shown only where "
        "they cannot be a record)"
    )


def test_all_columns_of_a_public_table_are_named():
    with pytest.raises(ValueError, match=r"has the columns 'state', 'county'; did you mean 'county'\?$"):
        read_public(pa.table({"state": ["A"], "county": ["x"]}), ["state", "conty"], "hierarchy")
    with pytest.raises(ValueError, match=r"'town' is missing; the table has the column 'a'$"):
        read_public(pa.table({"a": ["x"]}), ["town"], "hierarchy")


def test_many_columns_of_a_public_table_are_counted_after_the_first():
    names = [f"c{number}" for number in range(MOST_SHOWN + 12)]
    assert message(names, ["town"], public=True).endswith(f"'c{MOST_SHOWN - 1}' and 12 more")


@pytest.mark.parametrize("record", ["numbers and dates", "an id"])
def test_a_private_file_without_a_header_that_is_given_as_a_public_one_is_not_shown(tmp_path, record):
    (tmp_path / "a.csv").write_text(",".join(set(RECORDS[record]) - {"state", "county"}) + "\n")
    with pytest.raises(ValueError, match="is missing; the table has") as caught:
        read_public(tmp_path / "a.csv", ["town"], "hierarchy")
    assert "Zwetschke" not in str(caught.value)


def test_each_file_is_judged_by_its_own_first_row(tmp_path):
    (tmp_path / "a.csv").write_text("state,county,sex\nA,x,f\n")
    (tmp_path / "b.csv").write_text("Zwetschke,x,f\n")
    areas = tt.Hierarchy.from_table(pa.table({"state": ["A"], "county": ["x"]}), levels=["state", "county"])
    with pytest.raises(ValueError, match=r"b\.csv'\): column 'state' is missing; .* look at its header") as caught:
        tt.release_counts(tmp_path / "*.csv", areas, tt.Budget(epsilon=1), neighboring="add_remove", seed=1)
    assert "Zwetschke" not in str(caught.value)
