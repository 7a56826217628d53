"""The Debian packages: built, installed, upgraded and purged on a Debian of each release."""
