"""A real server: Debian in QEMU, which sleeps (ACPI S3) and is woken by magic packets.

What is real here and what is not: docs/guest-test.md.
"""
