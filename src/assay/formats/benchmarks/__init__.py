"""Records that published benchmarks and studies come with."""
