"""Security headers of every answer; lighttpd's configuration says the same for static files.

There is no Strict-Transport-Security: the certificate is self-signed, and with that header a
browser would not let users past its warning once the certificate is renewed.
"""

from __future__ import annotations

from typing import Final

from flask import Flask, Response

SECURITY: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
        " connect-src 'self'; font-src 'self'; form-action 'self'; frame-ancestors 'none';"
        " base-uri 'none'; manifest-src 'self'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    # `no-referrer` would make browsers send `Origin: null` with our own forms.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex, nofollow",
}


def install(app: Flask) -> None:
    """Set them on every answer, also on errors; only static files may be cached.

    A header that a view sets itself stays, such as that of the waiting page's preview.
    """

    @app.after_request
    def add(response: Response) -> Response:
        for name, value in SECURITY.items():
            response.headers.setdefault(name, value)
        if "Cache-Control" not in response.headers:
            response.headers["Cache-Control"] = "no-store"
        return response
