"""OpenTelemetry traces with the conventions for generative AI (`gen_ai.*`), read and written.

A trace is a trajectory. Spans hold content only where the program was configured to record it; else the turns have no
text. Not covered: older conventions that put messages into events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from assay.formats.interface import ExportContext, ImportContext, ImportedTrajectory, Provenance
from assay.formats.otel.spans import Form, encode_lines, is_genai_trace, otlp_span, traces, unrepeated_spans
from assay.formats.otel.trace import TraceReader
from assay.formats.otel.writer import render_spans, restore_spans
from assay.formats.shared.base import skip_unreadable
from assay.formats.shared.builder import Origin
from assay.formats.shared.json_stream import warn_in
from assay.formats.shared.losses import THROWAWAY, report_losses
from assay.formats.shared.output_files import new_file
from assay.formats.shared.round_trip_builder import file_origin, is_imported_from
from assay.records import Trajectory


class OtelGenAiFormat:
    name: ClassVar[str] = "otel-genai"
    title: ClassVar[str] = "OpenTelemetry GenAI spans (OTLP JSON, flat JSON)"
    provenance: ClassVar[Provenance] = "peer"
    writes: ClassVar[bool] = True
    generic: ClassVar[bool] = True
    """Tools add conventions of their own to these attributes; a format that reads those too is preferred."""

    def recognises(self, path: Path) -> bool:
        return is_genai_trace(path)

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        """Yields one trajectory for each trace."""
        origin, bad = file_origin(self.name, path), warn_in(reading, path.name)
        for spans in traces(path, bad):
            if any(str(key).startswith("gen_ai.") for span in spans for key in span.attributes):
                with skip_unreadable(bad, f"trace {spans[0].trace}"):
                    yield TraceReader(unrepeated_spans(spans, reading, path.name), origin, reading).read()

    def write(self, trajectories: Iterable[Trajectory], target: Path, writing: ExportContext) -> None:
        """Writes a line of OTLP JSON for each batch; spans that were read flat are written flat."""
        with new_file(target) as out:
            for trajectory in trajectories:
                if is_imported_from(trajectory, self.name):
                    report_losses(trajectory, None, writing, self.name)
                    spans = list(restore_spans(trajectory))
                else:
                    spans = list(render_spans(trajectory, writing))
                    added = {"traceId, spanId": "made of the attempt's id and the record's position"}
                    report_losses(trajectory, _read_back(spans), writing, self.name, added=added)
                out.writelines(encode_lines(spans))


def _read_back(spans: list[tuple[dict[str, Any], dict[str, Any], Form]]) -> ImportedTrajectory:
    found = [span for raw, about, _ in spans if (span := otlp_span(raw, about)) is not None]
    return TraceReader(found, Origin(OtelGenAiFormat.name, "", ""), THROWAWAY).read()
