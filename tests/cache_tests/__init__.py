"""http-tests/cache-tests against ours, plain Varnish and nginx: docs/cache-tests.md."""
