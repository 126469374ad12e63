"""Without keys the gateway serves this machine only, and no web page may drive it.

A page in the user's browser can reach loopback: with a host name that resolves to 127.0.0.1 (refused by the
Host check), or across origins (refused by the Origin check).
"""

import ipaddress
import re
from urllib.parse import urlsplit

from litestar.types import HTTPScope, WebSocketScope

from gateway.errors import ApiError

# urlsplit would take [::1].evil.example for ::1.
_AUTHORITY = re.compile(r"(\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<name>[0-9A-Za-z.-]+))(:[0-9]*)?")


def is_loopback_host(authority: str) -> bool:
    """Whether a Host value (name or address, port allowed) names this machine's loopback."""
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        return False
    name = (parts["ipv6"] or parts["name"]).lower().removesuffix(".")
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def loopback_refusal(scope: HTTPScope | WebSocketScope) -> ApiError | None:
    """The answer to a request whose Host is not loopback, or whose Origin is another one; None: let it pass."""
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    host = headers.get(b"host", "")
    if not is_loopback_host(host):
        return ApiError(
            "forbidden_host",
            "Without API keys only this machine is served, as localhost, 127.0.0.1 or [::1].",
        )
    origin = headers.get(b"origin")
    if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
        return ApiError("forbidden_origin", "Without API keys requests from other web pages are refused.")
    return None
