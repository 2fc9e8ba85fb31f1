"""Methods that the benchmarks compare with; one file per family."""
