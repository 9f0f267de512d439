"""Traces of observability tools, each a table of where its spans hold what OpenTelemetry's conventions have."""
