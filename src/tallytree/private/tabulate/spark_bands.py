"""The work on bands, on Spark's executors.

Spark carries the numbers of the bands and what is public of the work (a broadcast: tree, plan, mechanism, cut), and
brings back what was made: noisy measurements and what follows from them. What is private (the noise subkeys of the
levels below the cut, the band's true statistics) a task fetches from the driver itself; see `spark_answers`. So no key
and no true statistic is in a plan, a closure, a shuffled or kept row, or a log of Spark.

Every band is a job with one task, and as many run at once as the cluster has cores. What a task has made goes to a file
of the run's folder as it arrives. The files are read in the order of the bands, so the driver's memory holds the bands
that are sent out and one that is being written. A task that Spark repeats makes the same bytes, and Spark takes one.
"""

from __future__ import annotations

import platform
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from tallytree.kinds.measurements import Measurement
from tallytree.private.band_work import BandInputs, BandWork, OneByOne
from tallytree.private.noise.discrete import KeyedNoise, SubkeyNoise
from tallytree.private.tabulate.packed import packed, unpacked
from tallytree.private.tabulate.spark_answers import Where, fetching
from tallytree.private.tabulate.spark_errors import refusal_of_work
from tallytree.private.tabulate.spark_session import quietly, serving, session, shielded
from tallytree.support.spill_folders import core_dumps_disabled

PIECE_BYTES = 2**24
"""What a task has made comes in rows of this many bytes."""

NO_BAND = -1
"""The number of a task that works on no band: everything that it needs is looked for."""

_PACKAGES = ("tallytree", "numpy", "numba", "pyarrow")


class SparkBands:
    """A `tallytree.private.band_work.BandPlace` on the executors of Spark.

    Args:
        started: the Spark session.
        folder: for what tasks have made; mode 0700.
        closing: is closed when the run ends, with the error if there is one.
    """

    def __init__(self, started: Callable[[], SparkSession], folder: Path, closing: ExitStack) -> None:
        self._started, self._folder, self._closing = started, folder, closing
        self._session: SparkSession | None = None

    def check(self, mechanism: object) -> None:
        """Run a task that works on no band, before anything is read or paid.

        Raises:
            OSError: executors cannot ask the driver, lack this package, or have other versions.
        """
        public = cloudpickle.dumps(mechanism)
        with ExitStack() as closing:
            _Pass(self._own(), self._folder, public, lambda number: b"", closing).done(NO_BAND).unlink()

    def run(self, work: BandWork, inputs: BandInputs) -> Iterator[Any]:
        """See `BandPlace.run`. A single band is worked on at the driver.

        Raises:
            OSError, MemoryError: Spark failed; what it said is withheld.
        """
        if len(work.cut.parts) == 1:
            yield from OneByOne().run(work, inputs)
            return
        if not isinstance(inputs.source, KeyedNoise):
            raise TypeError("noise: only keyed noise can be drawn elsewhere")
        subkeys = inputs.source.below(work.plan.addresses).shown_to_task()

        def answer(number: int) -> bytes:
            return b"".join(packed((subkeys, inputs.true(number), inputs.given(number))))

        closing = ExitStack()
        self._closing.callback(closing.close)  # where the caller fails between two bands
        with closing:
            each = _Pass(self._own(), self._folder, cloudpickle.dumps(work), answer, closing)
            for file in each.in_order(len(work.cut.parts)):
                levels, taken, made = unpacked(file.read_bytes(), made=True)
                file.unlink()
                for level in levels:
                    inputs.on_measure(level)
                for measurement in taken:
                    inputs.take(measurement)
                yield made

    def _own(self) -> SparkSession:
        """A session beside the user's, until the run ends."""
        if self._session is None:
            self._session = self._closing.enter_context(session(self._started(), "engine")).spark
        return self._session


class _Pass:
    """One pass over bands: a server that answers its tasks, and what is broadcast to them.

    Args:
        spark: a session that nobody else uses.
        folder: for what tasks have made.
        public: what every task needs, pickled.
        answer: from the number of a band to what its task needs.
        closing: ends the pass.
    """

    def __init__(
        self, spark: SparkSession, folder: Path, public: bytes, answer: Callable[[int], bytes], closing: ExitStack
    ) -> None:
        self._spark, self._folder, self._closing = spark, folder, closing
        self._tag = f"tallytree-{uuid.uuid4().hex}"
        self._failed: list[Exception] = []
        where = closing.enter_context(serving(spark, self._noting(answer)))
        broadcast = _shielded(lambda: spark.sparkContext.broadcast(public))
        closing.callback(quietly, broadcast.destroy)
        self._function = band_function(where, broadcast, versions())

    def in_order(self, bands: int) -> Iterator[Path]:
        """What the tasks have made, in the order of the bands; each file is the caller's."""
        at_once = min(max(int(_shielded(lambda: self._spark.sparkContext.defaultParallelism)), 1), bands)
        pool = self._closing.enter_context(ThreadPoolExecutor(at_once))
        self._closing.callback(pool.shutdown, wait=False, cancel_futures=True)
        self._closing.callback(self._cancel)
        # Twice as many are on their way, so that one which takes long does not keep the others waiting: files wait.
        waiting: deque[Future[Path]] = deque()
        for number in range(bands):
            waiting.append(pool.submit(self.done, number))
            if len(waiting) > 2 * at_once:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def done(self, number: int) -> Path:
        """Have a band worked on; the file with what was made."""
        path = self._folder / f"band-{uuid.uuid4().hex}"

        def work() -> None:
            self._spark.sparkContext.addJobTag(self._tag)  # of this thread
            numbers = self._spark.range(number, number + 1, 1, 1)
            with path.open("xb") as file:
                for row in numbers.mapInArrow(self._function, "part binary").toLocalIterator():
                    file.write(row.part)

        try:
            _shielded(work)
        except Exception:
            if self._failed:
                raise self._failed[0] from None
            raise
        return path

    def _cancel(self) -> None:
        """End what runs of the pass."""
        quietly(lambda: self._spark.sparkContext.cancelJobsWithTag(self._tag))

    def _noting(self, answer: Callable[[int], bytes]) -> Callable[[int], bytes]:
        """The answers; the error of one that fails here is what is raised in the end."""

        def noted(number: int) -> bytes:
            try:
                return answer(number)
            except Exception as error:
                self._failed.append(error)
                self._cancel()
                raise

        return noted


def _shielded(work: Callable[[], Any]) -> Any:
    return shielded(work, refusal_of_work)


def versions() -> dict[str, str]:
    """The versions of what a band's numbers may depend on: they must be the same everywhere."""
    return {"python": platform.python_version()} | {package: metadata.version(package) for package in _PACKAGES}


def band_function(where: Where, public: Any, wanted: dict[str, str]) -> Any:
    """The function that Spark runs: from the numbers of bands to what is made of them, in rows of bytes.

    Args:
        where: whom a task asks.
        public: a broadcast of the pickled work.
        wanted: the versions at the driver.
    """

    def function(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from tallytree.private.tabulate.spark_bands import worked

        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from worked(where, public.value, wanted, number)

    return function


_last_work: tuple[bytes, Any] = (b"", None)
"""In a Python worker: the token of the last pass, and its work."""


def worked(where: Where, public: bytes, wanted: dict[str, str], number: int) -> Iterator[pa.RecordBatch]:
    """Work on one band, in a Python worker of an executor.

    Raises:
        RuntimeError: this worker has other versions than the driver, or cannot ask it.
    """
    global _last_work
    if versions() != wanted:
        raise RuntimeError("tallytree-versions")
    with core_dumps_disabled():
        content = fetching(where)(number)
        if _last_work[0] != where.token:
            _last_work = where.token, cloudpickle.loads(public)
        if number == NO_BAND:
            return
        subkeys, true, given = unpacked(content, made=False)
        levels: list[str] = []
        taken: list[Measurement] = []
        source = SubkeyNoise(subkeys)
        inputs = BandInputs(lambda _: true, lambda _: given, source, levels.append, taken.append)
        made = _last_work[1].done(number, inputs)
        for part in packed((levels, taken, made)):
            view = memoryview(part)
            for start in range(0, view.nbytes, PIECE_BYTES):
                piece = pa.array([view[start : start + PIECE_BYTES].tobytes()], pa.binary())
                yield pa.record_batch([piece], names=["part"])
