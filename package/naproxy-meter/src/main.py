"""What the Pico runs after power on: see naproxy_meter/pico.py."""

from naproxy_meter import pico

pico.main()
