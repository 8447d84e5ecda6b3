"""The benchmarks of `docs/performance.md`: `make bench`, or `python -m tests.bench --help`."""
