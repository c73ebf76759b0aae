"""A real S3 server on this machine (moto's), behind a gate that counts what is sent and can stop half-way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any

import pyarrow as pa
import pyarrow.fs as fs

BUCKET = "lake"


@dataclass
class Gate:
    """Passes requests on to the application; keeps what was asked for and sent.

    Attributes:
        application: of moto.
        sent: per path of a GET, how many bytes of content were sent.
        ranges: the ranges that were asked for.
        stop_after: of a GET of an object, how many bytes are sent before the server breaks off; None: all.
        on_get: called with the path of every GET of an object before it is answered.
        asked: how many requests there were.
        refuse_from: the number of the first request that is refused, and all later ones are; None: none.
    """

    application: Any
    sent: dict[str, int] = field(default_factory=dict)
    ranges: list[str | None] = field(default_factory=list)
    stop_after: int | None = None
    on_get: Callable[[str], None] | None = None
    asked: int = 0
    refuse_from: int | None = None

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        self.asked += 1
        if self.refuse_from is not None and self.asked >= self.refuse_from:
            start_response("403 Forbidden", [("Content-Length", "0")])
            return [b""]
        content = environ["REQUEST_METHOD"] == "GET" and path.startswith(f"/{BUCKET}/") and path != f"/{BUCKET}/"
        if content:
            self.ranges.append(environ.get("HTTP_RANGE"))
            if self.on_get is not None:
                self.on_get(path)
        answer = self.application(environ, start_response)
        return self._counted(path, answer) if content else answer

    def _counted(self, path: str, answer: Iterable[bytes]) -> Iterator[bytes]:
        allowed = self.stop_after
        for block in answer:
            if allowed is not None and len(block) > allowed:
                yield block[:allowed]
                raise ConnectionAbortedError("the server of the test stops half-way")
            self.sent[path] = self.sent.get(path, 0) + len(block)
            yield block


@dataclass
class S3:
    """The server.

    Attributes:
        address: its URL.
        gate: what it counts.
        system: writes to it.
    """

    address: str
    gate: Gate
    system: fs.S3FileSystem
    environment: dict[str, str]

    def reset(self) -> None:
        self.gate.sent, self.gate.ranges, self.gate.stop_after, self.gate.on_get = {}, [], None, None
        self.gate.refuse_from = None
        self.system.delete_dir_contents(BUCKET)

    def write(self, name: str, content: bytes) -> None:
        with self.system.open_output_stream(f"{BUCKET}/{name}", compression=None) as file:
            file.write(content)

    def require_credentials(self, after: int) -> None:
        """Check who asks, from so many requests on."""
        asked = HTTPConnection(self.address.removeprefix("http://"))
        with closing(asked):
            asked.request("POST", "/moto-api/reset-auth", str(after).encode(), {"Content-Type": "text/plain"})
            assert asked.getresponse().status == 200


def s3_server() -> Iterator[S3]:
    """Start the server; stop it in the end."""
    import logging

    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log(self, *_: Any, **__: Any) -> None: ...

    gate = Gate(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, gate, threaded=True, request_handler=Quiet)
    server.log = lambda *_, **__: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    system = fs.S3FileSystem(
        access_key="writer",
        secret_key="writer",  # noqa: S106
        region="us-east-1",
        endpoint_override=address,
        allow_bucket_creation=True,
        background_writes=False,
    )
    system.create_dir(BUCKET)
    environment = {
        "AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": "AKIAPUBLISHER", "AWS_SECRET_ACCESS_KEY": "KEY-OF-THE-LAKE",
        "AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
    }  # fmt: skip
    try:
        yield S3(address, gate, system, environment)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def parquet(table: pa.Table, **options: Any) -> bytes:
    """A table as the content of a Parquet file."""
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return sink.getvalue().to_pybytes()
