"""Benchmarks: `make bench-NAME` runs tests.bench.NAME and writes build/bench/NAME.json."""
