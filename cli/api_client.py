"""Calls of a running gateway from the command line: its address, and its errors as plain lines."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click
import httpx

from cli.sockets import http_url
from shared.settings import ServerSettings

_CONNECT_TIMEOUT_S = 5.0

C = TypeVar("C", bound=Callable[..., Any])


def connection_options(command: C) -> C:
    """`--url` and `--api-key`."""
    key = click.option("--api-key", envvar="OPENAI_API_KEY", default="none", help="Key to send ($OPENAI_API_KEY).")
    url = click.option("--url", help="Base URL of the API (default: the gateway of this configuration).")
    return url(key(command))


@contextlib.contextmanager
def api_client(url: str | None, api_key: str, server: ServerSettings) -> Iterator[httpx.Client]:
    """A client whose base is the API's (`.../v1`); what fails in the block ends in one plain line."""
    base = api_base(url, server)
    with httpx.Client(
        base_url=base,
        headers={b"authorization": b"Bearer " + api_key.encode()},
        timeout=httpx.Timeout(None, connect=_CONNECT_TIMEOUT_S),
        trust_env=url is not None,
    ) as client:
        try:
            yield client
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise click.ClickException(
                f"no gateway answers at {error.request.url}: start one with `gepard serve`"
            ) from error
        except httpx.HTTPError as error:
            raise click.ClickException(f"the reply broke off: {error}") from error


def api_base(url: str | None, server: ServerSettings) -> httpx.URL:
    """The API's address: `url` with or without /v1, or the gateway of this configuration."""
    if url is None and server.port == 0:
        raise click.ClickException("server.port is 0: name the gateway (--url)")
    try:
        base = httpx.URL(url or http_url(server.host, server.port))
    except httpx.InvalidURL as error:
        raise click.ClickException(f"--url {url}: {error}") from error
    if base.scheme not in ("http", "https") or not base.host:
        raise click.ClickException(f"--url {url}: expected something like http://127.0.0.1:8000/v1")
    return base.copy_with(path=base.path.rstrip("/") or "/v1")


def checked(response: httpx.Response) -> httpx.Response:
    """The response, if it is a success; else its error, as the gateway words it."""
    if not response.is_success:
        response.read()
        raise click.ClickException(error_message(response))
    return response


def error_message(response: httpx.Response) -> str:
    """What an error answer says."""
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"the server answered {response.status_code}"
