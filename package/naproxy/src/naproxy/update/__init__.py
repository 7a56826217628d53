"""Updates of an image by RAUC: a signed bundle into the other slot (docs/update.md)."""
