"""Agent Skills with provenance: read and validated, distilled from verified attempts, measured, released, retired."""
