"""The image in QEMU: `make test-image`, docs/image-test.md."""
