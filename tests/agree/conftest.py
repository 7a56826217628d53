"""The office's fixtures, as the end-to-end tests have them."""

from tests.e2e.conftest import office, shared

__all__ = ["office", "shared"]
