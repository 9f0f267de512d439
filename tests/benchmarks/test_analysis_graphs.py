"""The benchmark of graphs runs and reports; how fast it is, is no business of a test."""

from __future__ import annotations

from benchmarks._analysis_graphs import measure_graphs


def test_graphs_of_made_up_attempts_are_measured() -> None:
    found = measure_graphs(attempts=20, acts=12)
    assert (found["attempts"], found["acts"]) == (20, 240)
    assert 12 < found["tree_nodes"] <= 241
    assert 1 < found["graph_nodes"] < found["tree_nodes"]
    assert set(found["cpu_s"]) == {"actions", "states", "tree", "graph", "measures"}
