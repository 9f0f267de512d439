"""Appends the steps of sealed runs to a Delta table and to a Lance dataset."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

import assay
from assay.store import seal

for name in ("monday", "tuesday"):
    assay.run("family:grid,n=2,size=3", agent="expert", run=name)
    seal(Path(".assay"), name)

for run in ("monday", "tuesday"):
    steps = pq.read_table(Path(".assay/runs", run, "sealed", "steps.parquet"))
    write_deltalake("lake/steps", steps, mode="append")
    lance.write_dataset(steps, "lake/steps.lance", mode="append" if Path("lake/steps.lance").exists() else "create")

counts = DeltaTable("lake/steps").to_pyarrow_table().num_rows, lance.dataset("lake/steps.lance").count_rows()
print(f"{counts[0]} steps in Delta, {counts[1]} in Lance")
