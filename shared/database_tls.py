"""TLS to PostgreSQL as libpq's words in a URL ask for it; asyncpg takes them only from a DSN of its own.

`sslmode` disable, allow, prefer, require, verify-ca, verify-full; `sslrootcert` a file of CA certificates, or `system`;
`sslcert` and `sslkey` a certificate of our own. https://www.postgresql.org/docs/current/libpq-ssl.html
"""

import ssl
from collections.abc import Mapping
from typing import Any

from sqlalchemy import URL

from shared.errors import SettingsError

_WORDS = ("sslmode", "sslrootcert", "sslcert", "sslkey")
# asyncpg encrypts with these without asking who the server is.
_UNVERIFIED = ("disable", "allow", "prefer", "require")
_VERIFIED = ("verify-ca", "verify-full")
_SYSTEM = "system"


def split_tls(url: URL) -> tuple[URL, dict[str, Any]]:
    """The URL without its words on TLS, and what asyncpg's `connect` takes in their place.

    As in libpq, `require` with a root certificate is `verify-ca`. Without one, `verify-*` trust what the system trusts.
    Raises SettingsError for a mode there is not and a file that cannot be read.
    """
    given = {name: _only(url.query, name) for name in _WORDS if name in url.query}
    if not given:
        return url, {}
    url = url.difference_update_query(_WORDS)
    mode = given.get("sslmode", "prefer")
    root = given.get("sslrootcert")
    if mode not in _UNVERIFIED + _VERIFIED:
        raise SettingsError(f"database.url: sslmode is one of {', '.join(_UNVERIFIED + _VERIFIED)}, not {mode!r}")
    if mode == "require" and root is not None:
        mode = "verify-ca"
    if root == _SYSTEM:
        mode = "verify-full"
    if mode in ("disable", "allow", "prefer"):
        return url, {"ssl": mode}
    return url, {"ssl": _context(mode, root, given.get("sslcert"), given.get("sslkey"))}


def _context(mode: str, root: str | None, certificate: str | None, key: str | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=None if root in (None, _SYSTEM) else root)
        if certificate is not None:
            context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(file for file in (root, certificate, key) if file not in (None, _SYSTEM))
        raise SettingsError(f"database.url: a certificate cannot be read ({files}): {error}") from error
    context.check_hostname = mode == "verify-full"
    if mode == "require":
        context.verify_mode = ssl.CERT_NONE
    return context


def _only(query: Mapping[str, str | tuple[str, ...]], name: str) -> str:
    value = query[name]
    return value if isinstance(value, str) else value[-1]
