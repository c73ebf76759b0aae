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
