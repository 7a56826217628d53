"""/api/pico: our meter on a Raspberry Pi Pico."""
