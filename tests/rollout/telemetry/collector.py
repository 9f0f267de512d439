"""A collector of OpenTelemetry: a real HTTP server that decodes what it is sent with the protocol's own classes."""

from __future__ import annotations

import gzip
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """Keeps spans and metrics; `status` is what it answers, after `delay_s`."""

    def __init__(self, status: int = 200, delay_s: float = 0.0) -> None:
        self.spans: list[Any] = []
        self.resources: list[dict[str, Any]] = []
        self.metrics: dict[str, Any] = {}
        """The last report of each metric, by name."""
        self.headers: list[dict[str, str]] = []
        self.requests = 0
        self.status, self.delay_s = status, delay_s
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                assert self.headers["Content-Type"] == "application/x-protobuf"
                collector.requests += 1
                time.sleep(collector.delay_s)
                if collector.status == 200:
                    collector.headers.append(dict(self.headers))
                    collector.take(self.path, body)
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Prints nothing."""

        return Handler

    def take(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            for batch in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.resources.append(attributes(batch.resource))
                self.spans += [span for scope in batch.scope_spans for span in scope.spans]
        elif path == "/v1/metrics":
            for batch in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.metrics |= {metric.name: metric for scope in batch.scope_metrics for metric in scope.metrics}
        else:
            raise AssertionError(path)

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def attributes(holder: Any) -> dict[str, Any]:
    """Returns the attributes of a span, a resource or a point as plain values."""
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in holder.attributes}
