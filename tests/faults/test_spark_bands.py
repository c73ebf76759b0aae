"""Bands on Spark's executors: the local release byte for byte, whatever fails; and no key where others look."""

from __future__ import annotations

import base64
import json
import os
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tallytree as tt
from helpers.inside import (
    BandInputs,
    BandWork,
    CountsArguments,
    ForcedCut,
    KeyedNoise,
    LevelPlan,
    PlanBelow,
    Sensitivity,
    SizesArguments,
    chosen_cut,
    counts_of_band,
    make_release,
    plan_counts,
    plan_group_sizes,
)
from helpers.spark import bytes_of, saved
from tallytree.counts import CountsMechanism, TopDown
from tallytree.engines import Spark
from tallytree.ledger import Ledger
from tallytree.mechanisms import Noise
from tallytree.sizes import Joint, Matching

pytestmark = [pytest.mark.needs("pyspark", "sqlglot"), pytest.mark.slow]

LEAVES = pa.table(
    {"region": [f"r{i // 8}" for i in range(32)], "county": [f"c{i // 2}" for i in range(32)], "town": range(32)}
)
TREE = tt.Hierarchy.from_table(LEAVES, ["region", "county", "town"])
BANDS = ForcedCut(1, 3)


def planned(mechanism: Any, **options: Any) -> Any:
    rng = np.random.default_rng(3)
    records = LEAVES.take(pa.array((rng.beta(1, 3, 200) * 32).astype(int)))
    given = {"mechanism": mechanism, "neighboring": "add_remove", **({} if "secret" in options else {"seed": 7})}
    if isinstance(mechanism, CountsMechanism):
        return plan_counts(CountsArguments(records, TREE, tt.Budget(epsilon=1), **given, **options))
    rows = records.append_column("size", pa.array(np.minimum(rng.geometric(0.3, 200), 12)))
    rows = rows.append_column("groups", pa.array(rng.integers(1, 5, 200)))
    given |= {"size": "size", "groups": "groups", "max_group_size": 10}
    return plan_group_sizes(SizesArguments(rows, TREE, tt.Budget(epsilon=1), **given, **options))


@pytest.mark.parametrize(
    ("mechanism", "options", "at_once"),
    [
        (Joint(), {}, 1),
        (Joint(), {}, 4),
        (Matching(), {"invariants": "none"}, 4),
        (Matching(), {"keep_measurements": False}, 1),
        (TopDown(), {}, 1),
        (TopDown(), {}, 4),
    ],
    ids=str,
)
def test_the_saved_release_is_the_local_one(
    spark: Any, tmp_path: Path, monkeypatch: Any, mechanism: Any, options: Any, at_once: int
) -> None:
    from pyspark import SparkContext

    from tallytree.private.tabulate import spark_bands

    worked, done = [], spark_bands._Pass.done

    def noted(self: Any, number: int) -> Path:
        worked.append(number)
        return done(self, number)

    monkeypatch.setattr(SparkContext, "defaultParallelism", at_once)
    monkeypatch.setattr(spark_bands._Pass, "done", noted)
    made = make_release(planned(mechanism, memory="1GB", engine=Spark(spark), **options), forced=BANDS)
    assert {-1, 0, 1, 2} == set(worked)
    assert saved(made, tmp_path / "spark") == saved(make_release(planned(mechanism, **options)), tmp_path / "local")


@pytest.fixture
def dying(monkeypatch: Any, tmp_path: Path) -> Any:
    """Have the worker of a band killed, after it has sent what it has made: the first time, or every time."""
    from tallytree.private.tabulate import spark_bands

    real, marker = spark_bands.band_function, tmp_path / "killed"

    def dies(*, always: bool) -> Path:
        place = str(marker)

        def function_of(*arguments: Any) -> Any:
            function = real(*arguments)

            def killed(batches: Any) -> Any:
                import os

                for batch in batches:
                    yield from function(iter([batch]))
                    if batch.column(0)[0].as_py() == 1 and (always or not os.path.exists(place)):  # noqa: PTH110
                        os.close(os.open(place, os.O_CREAT))
                        os.kill(os.getpid(), 9)

            return killed

        monkeypatch.setattr(spark_bands, "band_function", function_of)
        return marker

    return dies


def test_a_task_that_is_tried_again_is_counted_once(spark: Any, tmp_path: Path, dying: Any) -> None:
    marker = dying(always=False)
    made = make_release(planned(Joint(), memory="1GB", engine=Spark(spark)), forced=BANDS)
    assert marker.exists()
    assert saved(made, tmp_path / "spark") == saved(make_release(planned(Joint())), tmp_path / "local")


def test_a_run_that_fails_after_the_payment_can_be_repeated_free_of_charge(
    spark: Any, tmp_path: Path, dying: Any, capfd: Any
) -> None:
    dying(always=True)
    ledger = Ledger(tmp_path / "ledger.db")
    named = {"ledger": ledger, "dataset": "people", "run": "one", "secret": tt.new_secret(tmp_path / "secret")}
    with pytest.raises(OSError, match=r"^engine: the work on a band was lost with its executor") as caught:
        make_release(planned(TopDown(), memory="1GB", engine=Spark(spark), **named), forced=BANDS)
    assert "repeat the run 'one' with the same secret" in caught.value.__notes__[0]
    assert "r0" not in str(caught.value) + str(caught.value.__context__)
    made = make_release(planned(TopDown(), memory="1GB", **named), forced=BANDS)
    assert made.table("town").num_rows == 32
    assert len(ledger.entries()) == 1


MARK = 0x5EC2E7C0DE5EC2E7
"""A true count that is looked for."""


def test_no_subkey_and_no_true_statistic_is_where_others_look(
    spark: Any, spark_folder: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    from tallytree.private.tabulate import spark_bands

    cut = chosen_cut(TREE, lambda depth, nodes: nodes, 0, BANDS)
    noise = Noise("discrete_laplace", Fraction(3))
    plan = PlanBelow({("town", "counts"): LevelPlan("town", "counts", Fraction(1), Sensitivity(1, 1), noise)})

    def look(band: Any, measurer: Any, given: Any) -> tuple[int, bytes]:
        import os
        from pathlib import Path

        own = Path("/proc/self/cmdline").read_bytes() + repr(dict(os.environ)).encode()
        return len(measurer.measure("town", np.arange(*band.span(3)), "counts").nodes), own

    work = BandWork(cut, plan, partial(counts_of_band, distinct=False), look, frozenset())
    source, seen, done = KeyedNoise(bytes(range(60, 92))), [], spark_bands._Pass.done

    def look_and_go(self: Any, number: int) -> Path:
        made = done(self, number)
        seen.append(bytes_of(spark_folder))
        return made

    monkeypatch.setattr(spark_bands._Pass, "done", look_and_go)
    first = [band.span(3)[0] for band in cut.bands]
    inputs = BandInputs(
        lambda number: (np.array([first[number]]), np.array([MARK >> 8])), lambda number: None, source,
        lambda level: None, lambda measurement: None,
    )  # fmt: skip
    with Spark(spark).bands(tmp_path) as place:
        found = list(place.run(work, inputs))
    assert sum(nodes for nodes, _ in found) == 32
    assert len(seen) == 3
    assert list(tmp_path.iterdir()) == []
    everything = (
        b"".join([*seen, *(own for _, own in found)]) + bytes_of(spark_folder) + json.dumps(dict(os.environ)).encode()
    )
    (subkey,) = source.below(plan.addresses).shown_to_task().values()
    for secret in (subkey, bytes(range(60, 92))):
        forms = (secret, secret.hex().encode(), secret.hex().upper().encode(), base64.b64encode(secret)[:40])
        assert not any(form in everything for form in forms)
    mark = MARK >> 8
    assert not any(form in everything for form in (mark.to_bytes(8, "little"), mark.to_bytes(8, "big"), b"%d" % mark))
    assert b"SparkListenerJobStart" in bytes_of(spark_folder / "events")


def test_what_cannot_work_is_refused_before_anything_is_read(spark: Any, tmp_path: Path, monkeypatch: Any) -> None:
    from tallytree.private.tabulate import spark_bands

    ledger = Ledger(tmp_path / "ledger.db")
    options = {"memory": "1GB", "engine": Spark(spark), "ledger": ledger, "dataset": "people", "run": "one"}
    options["secret"] = tt.new_secret(tmp_path / "secret")
    there = spark_bands.versions()
    monkeypatch.setattr(spark_bands, "versions", lambda: there | {"numba": "0.1"})
    with pytest.raises(OSError, match=r"^engine: the executors lack tallytree, or have other versions"):
        make_release(planned(TopDown(), **options), forced=BANDS)
    assert not (tmp_path / "ledger.db").exists()


def test_an_error_of_the_driver_while_a_task_asks_is_what_is_raised(spark: Any, tmp_path: Path) -> None:
    cut = chosen_cut(TREE, lambda depth, nodes: nodes, 0, BANDS)
    work = BandWork(
        cut, PlanBelow({}), partial(counts_of_band, distinct=False), lambda band, measurer, given: None, frozenset()
    )

    def unreadable(number: int) -> Any:
        raise OSError("temp_directory: the file 'leaf-counts' is shorter than it was written")

    inputs = BandInputs(unreadable, unreadable, KeyedNoise(bytes(32)), lambda level: None, lambda measurement: None)
    with (
        pytest.raises(OSError, match=r"^temp_directory: the file 'leaf-counts' is shorter"),
        Spark(spark).bands(tmp_path) as place,
    ):
        list(place.run(work, inputs))
