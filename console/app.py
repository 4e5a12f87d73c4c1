"""The console as a Lambda application: which page answers what, who is let in, and what every answer has in common."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

from console.pages import dashboard, documents, items, mail, overview, query_lab, slow
from console.rendering import page, static_file
from console.session import COOKIE, LIFETIME_S, Sessions
from console.visit import Access, Answer, Visit, redirect
from spot_sdk.errors import Forbidden, KnowledgeError, NotFound, PayloadTooLarge

Page = Callable[[Visit], Answer]

HOME = "/console"
SIGN_IN = "/console/sign-in"
STATIC = "/console/static/"
MAX_FORM_BYTES = 5_000_000

PAGES: dict[tuple[str, str], Page] = {
    ("GET", HOME): overview.show,
    ("GET", "/console/provider"): overview.show_provider,
    ("POST", "/console/sync"): overview.start_sync,
    ("POST", "/console/confirm"): overview.confirm_removals,
    ("GET", "/console/query"): query_lab.show,
    ("GET", "/console/query/tags"): query_lab.check_tags,
    ("GET", "/console/documents"): documents.show,
    ("GET", "/console/document"): documents.show_one,
    ("GET", "/console/document/end"): documents.ask_first,
    ("POST", "/console/document/end"): documents.end,
    ("GET", "/console/dashboard"): dashboard.show,
    ("GET", "/console/dashboard/data"): dashboard.data,
    ("GET", "/console/slow"): slow.show,
    ("GET", "/console/items"): items.show,
    ("GET", "/console/item"): items.show_one,
    ("GET", "/console/mail"): mail.show,
    ("POST", "/console/mail"): mail.check,
}
"""Every page by method and path; whatever tells one thing from another is in the query."""

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Console:
    """Answers payload 2.0 events below ``/console``."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._sessions = Sessions(access.keys)

    def resolve(self, event: dict[str, Any]) -> dict[str, Any]:
        visit = Visit(event, self._access)
        answer = self._answer(visit)
        return {
            "statusCode": int(answer.status),
            "headers": {**SECURITY_HEADERS, "Content-Type": answer.media_type, **answer.headers},
            "cookies": list(answer.cookies),
            "body": answer.body,
            "isBase64Encoded": False,
        }

    def _answer(self, visit: Visit) -> Answer:
        if visit.method == "GET" and visit.path.startswith(STATIC):
            return static_file(visit.path.removeprefix(STATIC))
        if visit.path == SIGN_IN:
            return self._sign_in(visit) if visit.method == "POST" else self._show_sign_in(visit)
        session = visit.cookie(COOKIE)
        if not self._sessions.is_valid(session):
            return self._send_to_sign_in(visit)
        visit.form_token = self._sessions.form_token(session)
        try:
            if visit.method == "POST":
                self._require_our_form(visit, session)
                if visit.path == "/console/sign-out":
                    return redirect(SIGN_IN, _cookie("", visit, lifetime_s=0))
            found = PAGES.get((visit.method, visit.path.rstrip("/") or HOME))
            if found is None:
                raise NotFound("There is no such page.")
            return found(visit)
        except KnowledgeError as error:
            return self._problem(visit, error)

    def _require_our_form(self, visit: Visit, session: str) -> None:
        """Raises PayloadTooLarge, InvalidRequest for what is no form, and Forbidden for one of another session."""
        if len(visit.body) > MAX_FORM_BYTES:
            raise PayloadTooLarge("That is too large to send.")
        if not self._sessions.is_form_token(visit.form.get("form_token", ""), session):
            raise Forbidden("This form is not of your session. Go back, reload the page and send it again.")

    def _problem(self, visit: Visit, error: KnowledgeError) -> Answer:
        template = "problem_part.html" if visit.is_live else "problem.html"
        shown = HTTPStatus.OK if visit.is_live else error.status  # htmx shows no answer that failed
        return page(template, shown, visit=visit, error=error)

    def _send_to_sign_in(self, visit: Visit) -> Answer:
        where = SIGN_IN
        if visit.method == "GET" and visit.path != HOME:
            back = visit.path + (f"?{urlencode(visit.query)}" if visit.query else "")
            where = f"{SIGN_IN}?next={quote(back, safe='')}"
        return Answer(headers={"HX-Redirect": where}) if visit.is_live else redirect(where)

    def _show_sign_in(self, visit: Visit) -> Answer:
        return page("sign_in.html", next=visit.query.get("next", HOME), wrong=False)

    def _sign_in(self, visit: Visit) -> Answer:
        wanted = visit.form.get("next", HOME)
        if not self._sessions.is_key(visit.form.get("key", "")):
            return page("sign_in.html", HTTPStatus.UNAUTHORIZED, next=wanted, wrong=True)
        is_ours = wanted == HOME or wanted.startswith((f"{HOME}/", f"{HOME}?"))
        return redirect(wanted if is_ours else HOME, _cookie(self._sessions.issue(), visit, lifetime_s=LIFETIME_S))


def _cookie(value: str, visit: Visit, *, lifetime_s: int) -> str:
    secure = "; Secure" if visit.is_secure else ""
    return f"{COOKIE}={value}; Path={HOME}; Max-Age={lifetime_s}; HttpOnly; SameSite=Strict{secure}"
