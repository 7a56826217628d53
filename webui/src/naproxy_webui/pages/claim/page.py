"""/claim: creates the first user of a new box; it requires the claim code."""

from __future__ import annotations

from http import HTTPStatus

from flask import Response, current_app, make_response, request

from naproxy_webui.auth import claim, guard
from naproxy_webui.auth.passwords import LEAST
from naproxy_webui.http.access import access
from naproxy_webui.http.errors import ApiError
from naproxy_webui.http.page import Page
from naproxy_webui.i18n.texts import language, t
from naproxy_webui.render import render

blueprint = Page("claim", __name__, "/claim")


@blueprint.get("/claim")
@access(open=True)
def page() -> Response:
    """Show the form while there is no user."""
    if guard.keys().users.exist():
        return guard.redirect_to("/login")
    return _form()


@blueprint.post("/claim")
@access(open=True)
def make_first_user() -> Response:
    """Create the first user, an administrator."""
    keys = guard.keys()
    try:
        _check_new()
        _check_code(request.form.get("code", ""))
        _check_twice()
        user = keys.users.add(
            request.form.get("name", ""),
            request.form.get("password", ""),
            "admin",
            language=language(),
            first=True,
        )
    except ApiError as refused:
        return _form(refused)
    claim.forget(current_app.extensions["naproxy_settings"].state_dir)
    return guard.log_in(user, guard.redirect_to("/"))


def _check_new() -> None:
    if guard.keys().users.exist():
        raise ApiError(HTTPStatus.CONFLICT, t("claim.done"))


def _check_code(typed: str) -> None:
    keys, net = guard.keys(), guard.client_network()
    # Not limited over all addresses: nobody guesses 58 bits, but somebody could keep others out.
    guard.wait_for(keys.by_address, net)
    wanted = claim.code(current_app.extensions["naproxy_settings"].state_dir)
    if not claim.matches(typed, wanted):
        raise ApiError(HTTPStatus.FORBIDDEN, t("claim.wrong"), "code")
    keys.by_address.refund(net)


def _check_twice() -> None:
    if request.form.get("password", "") != request.form.get("password_again", ""):
        words = t("account.password_differs")
        raise ApiError(HTTPStatus.UNPROCESSABLE_ENTITY, words, "password_again")


def _form(refused: ApiError | None = None) -> Response:
    values = {
        "code": request.form.get("code", "")[:40],
        "name": request.form.get("name", "")[:100],
        "error": refused.words if refused else None,
        "where": refused.where if refused else None,
        "least": LEAST,
    }
    made = make_response(
        render("claim.html", **values), refused.status if refused else HTTPStatus.OK
    )
    made.headers.update(refused.headers if refused else {})
    return made
