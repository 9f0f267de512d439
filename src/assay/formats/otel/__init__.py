"""Spans by OpenTelemetry's conventions for generative AI."""
