"""What is told of an error of Spark."""

import pytest

pytestmark = pytest.mark.needs("pyspark")


@pytest.mark.slow  # PySpark is imported
@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("java.io.IOException: No space left on device", OSError, "the disk of Spark's local folders is full"),
        ("bigger than spark.driver.maxResultSize (1024.0 MiB)", MemoryError, "raise spark.driver.maxResultSize"),
        ("java.lang.OutOfMemoryError: Java heap space", MemoryError, "more memory"),
        ("[CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] rdd_7_0", OSError, "an executor was lost"),
        ("RuntimeError: tallytree-key: the driver does not answer", OSError, "spark.driver.host"),
        ("SparkException: Job 3 cancelled because SparkContext was shut down", OSError, "Spark was stopped"),
        ("java.io.FileNotFoundException: /data/s3cr3t.parquet", OSError, "removed or replaced"),
        ("[CAST_INVALID_INPUT] The value 's3cr3t'", ValueError, "withheld because it may quote a record"),
    ],
)
def test_the_remedy_is_named_and_nothing_of_its_text(text, kind, says):
    from tallytree.private.tabulate.spark_errors import refusal

    told = refusal(RuntimeError(f"{text} s3cr3t"), "trips")
    assert type(told) is kind
    assert str(told).startswith("trips: ")
    assert says in str(told)
    assert "s3cr3t" not in str(told)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("PythonException: RuntimeError: tallytree-versions", OSError, "install the same ones there"),
        ("ModuleNotFoundError: No module named 'tallytree'", OSError, "install the same ones there"),
        ("RuntimeError: tallytree-key: the driver does not answer", OSError, "spark.driver.host"),
        ("bigger than spark.driver.maxResultSize (1024.0 MiB)", MemoryError, "for smaller bands"),
        ("java.lang.OutOfMemoryError: Java heap space", MemoryError, "spark.executor.memoryOverhead"),
        ("java.io.IOException: No space left on device", OSError, "a disk is full"),
        ("Python worker exited unexpectedly (crashed)", OSError, "was lost with its executor each time"),
        ("SparkException: Job 3 cancelled because SparkContext was shut down", OSError, "Spark was stopped"),
        ("PythonException: OverflowError: measure: a value", OSError, "Spark could not work on a band"),
    ],
)
def test_of_work_on_bands_it_does_not_say_that_nothing_was_spent(text, kind, says):
    from tallytree.private.tabulate.spark_errors import refusal_of_work

    told = refusal_of_work(RuntimeError(f"{text} s3cr3t"))
    assert type(told) is kind
    assert str(told).startswith("engine: ")
    assert says in str(told)
    assert "nothing was published" in str(told)
    assert "released" not in str(told)
    assert "s3cr3t" not in str(told)
