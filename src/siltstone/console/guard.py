"""Who may ask: this machine's browser, with the token that was printed, from the console's own page.

What must hold:
- A name that another site points at this machine does not count as ours: only two names do.
- A page of another site gets nothing, with or without a cookie, and can't make anything run.
- A request that has no right to an answer learns nothing of what is here.
"""

from __future__ import annotations

import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, NamedTuple

from siltstone.locks import ForkLock

if TYPE_CHECKING:
    from email.message import Message

TOKEN = "token"  # noqa: S105 - what the parameter is called
_OWN = frozenset({"same-origin", "none"})  # from our page, or typed by a person
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Refusal(NamedTuple):
    """Why a request gets no answer."""

    status: int
    message: str
    hint: str = ""


class Guard:
    """Decides about requests to one port."""

    def __init__(self, port: int, *, token: str = "") -> None:
        self.token = token or secrets.token_urlsafe(32)
        self.cookie = f"siltstone-console-{port}"  # cookies know no ports: another console has another name
        self._hosts = frozenset({f"127.0.0.1:{port}", f"localhost:{port}"})
        self._lock = ForkLock()
        self._once: set[str] = set()

    def once(self) -> str:
        """A token that counts once: what a browser is started with can be seen in the list of processes."""
        made = secrets.token_urlsafe(32)
        with self._lock:
            self._once.add(made)
        return made

    def refusal(self, headers: Message, *, is_page: bool) -> Refusal | None:
        """Why a request is refused before its token is looked at; None where it is not."""
        hosts = headers.get_all("Host") or []
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return Refusal(403, "this name is not the console's", "use the address that was printed")
        origin = headers.get("Origin")
        if origin is not None and origin.lower() not in {f"http://{host}" for host in self._hosts}:
            return Refusal(403, "requests of other sites are refused")
        site = headers.get("Sec-Fetch-Site")
        # Following a link to the page is fine: what is shown then, no other site can see.
        followed = is_page and (headers.get("Sec-Fetch-Mode"), headers.get("Sec-Fetch-Dest")) == (
            "navigate",
            "document",
        )
        if site is not None and site not in _OWN and not followed:
            return Refusal(403, "requests of other sites are refused")
        if headers.get("Content-Length", "0") != "0" or headers.get("Transfer-Encoding") is not None:
            return Refusal(400, "a request has no body")
        return None

    def is_known(self, headers: Message, given: str) -> bool:
        """Whether a request brings the token: in its address, its cookie, or as a bearer's."""
        scheme, _, bearer = headers.get("Authorization", "").partition(" ")
        candidates = [given, self._cookie_of(headers), bearer.strip() if scheme.lower() == "bearer" else ""]
        return any(_same(one, self.token) for one in candidates) or self._spend(given)

    def set_cookie(self) -> str:
        """The header that makes a browser remember the token, for its own requests to us alone."""
        return f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"

    def _spend(self, given: str) -> bool:
        with self._lock:
            found = next((one for one in self._once if _same(given, one)), None)
            if found is not None:
                self._once.discard(found)
            return found is not None

    def _cookie_of(self, headers: Message) -> str:
        try:
            found = SimpleCookie(headers.get("Cookie", "")).get(self.cookie)
        except CookieError:
            return ""
        return "" if found is None else found.value


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "surrogateescape"), other.encode())
