"""Files that are no spec, damaged specs, and where the keys of a spec are found."""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tallytree as tt
from helpers.specs import COUNTS, FLOWS, GROUP_SIZES, refusal, write
from tallytree.spec import (
    SpecError,
    load_spec,
    read_document,
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", ": is empty; it needs at least"),
        (b"# nothing\n", ": is empty; it needs at least"),
        (b"\n- a\n- b\n", ", line 2: is a list; a spec is a mapping"),
        (b"just text", ", line 1: is a single value; a spec is a mapping"),
        (b"a: 1\nb: caf\xe9\n", ", line 2: byte 0xe9 is not UTF-8; save the file as UTF-8"),
        (b"a: 1\nb: \x00\n", ", line 2: character U+0000 is not allowed in YAML"),
        (b"[" * 5000, ": lists and mappings are nested too deeply"),
        (b"a: &a [*a, *a]\n", ", line 1, a: too many entries for a spec; does an alias repeat itself?"),
        (b"x" * 200_001, ": is not a spec; give the path of a YAML file of at most 200,000 bytes"),
    ],
    ids=["empty", "comment", "list", "text", "latin-1", "null byte", "deep", "recursive alias", "large"],
)
def test_a_file_that_is_no_spec_is_refused(tmp_path, content, message):
    path = tmp_path / "spec.yaml"
    path.write_bytes(content)
    assert refusal(path).startswith(message)


def test_a_file_that_is_not_there_or_is_a_folder_is_refused(tmp_path):
    assert refusal(tmp_path / "nowhere.yaml") == ": no such file; give the path of a YAML spec"
    assert refusal(tmp_path) == ": is not a spec; give the path of a YAML file"


def test_a_utf_8_mark_at_the_beginning_is_no_harm(folder):
    assert load_spec(write(folder, "\ufeff" + COUNTS)).statistic == "counts"


@given(st.binary(max_size=300))
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_file_is_a_spec_or_a_spec_error(tmp_path, content):
    path = tmp_path / "spec.yaml"
    path.write_bytes(content)
    with pytest.raises(SpecError, match=re.escape(str(path))):
        load_spec(path)


@given(
    st.sampled_from([COUNTS, FLOWS, GROUP_SIZES]),
    st.integers(0, 400),
    st.integers(0, 12),
    st.text("abz019 -:#[]{},&*!|>'\"%@\t\n~.\u00e9", max_size=8),
)
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_spec_is_read_or_refused_with_its_name(tmp_path, text, start, deleted, inserted):
    path = write(tmp_path, text[:start] + inserted + text[start + deleted :])
    try:
        load_spec(path)
    except SpecError as error:
        message = str(error)
    else:
        message = str(path)
    assert message.startswith(str(path))


KEYS = st.text("abcdefg", min_size=1, max_size=6).filter(lambda key: key not in ("e",))


@given(st.recursive(st.just("x"), lambda below: st.dictionaries(KEYS, below, min_size=1, max_size=4), max_leaves=20))
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_key_is_found_in_its_own_line(tmp_path, tree):
    expected: dict[tuple[str, ...], int] = {}
    lines = []

    def put(node, path):
        for key, below in node.items():
            lines.append(f"{'  ' * len(path)}{key}:{'' if isinstance(below, dict) else ' x'}")
            expected[(*path, key)] = len(lines)
            if isinstance(below, dict):
                put(below, (*path, key))

    put({"top": tree}, ())
    document = read_document(write(tmp_path, "\n".join(lines)))
    assert document.lines == expected
    assert document.data == {"top": tree}


def test_errors_that_are_not_the_librarys_own_are_left_alone(folder, monkeypatch):
    class ForeignError(ValueError):
        pass

    for error in (
        ForeignError("records: canary"),
        ValueError("could not convert string to float: 'canary'"),
        KeyError("canary"),
    ):
        monkeypatch.setattr(
            tt.engines.Local, "check", lambda *args, error=error, **options: (_ for _ in ()).throw(error)
        )
        with pytest.raises(type(error)) as caught:
            load_spec(write(folder, COUNTS)).check()
        assert caught.value is error
