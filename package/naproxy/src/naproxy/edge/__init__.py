"""HTTPS at the box: its certificates, and the program that ends TLS before Varnish."""
