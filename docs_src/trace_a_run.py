"""Runs an agent with `otel`, receives its spans as a collector does, and prints each attempt as a tree."""

import asyncio
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings

SPANS = []


class Collector(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/v1/traces":
            batches = ExportTraceServiceRequest.FromString(body).resource_spans
            SPANS.extend(span for batch in batches for scope in batch.scope_spans for span in scope.spans)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Prints nothing."""


def show(parent, indent):
    inside = [span for span in SPANS if span.parent_span_id == parent]
    for span in sorted(inside, key=lambda one: one.start_time_unix_nano):
        facts = {pair.key: pair.value.string_value for pair in span.attributes}
        print(f"{indent}{span.name} {facts.get('assay.outcome', '')}".rstrip())
        show(span.span_id, indent + "  ")


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{server.server_port}"
    config = RunConfig(tasks=("family:grid,n=1,size=2",), agent="expert", otel=True, run="traced")
    asyncio.run(start_run(config, Settings(Path("cache"), Path(".assay")), Tally()))
    del os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"]
    server.shutdown()
    server.server_close()
    show(b"", "")
