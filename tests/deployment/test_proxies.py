"""The proxies' files are taken by the proxies themselves where they are there, and hold nothing back."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from shared.settings import Settings
from tests.support.compose import ROOT
from tests.support.host_stack import nginx_binary
from tests.support.tools import tool

FOLDER = ROOT / "deploy" / "proxy"


def test_nginx_takes_its_files(tmp_path: Path):
    binary = nginx_binary()
    if binary is None:
        pytest.skip("no nginx: apt-get install nginx-light (or your system's package)")
    for name in ("gepard.conf", "upstream.conf"):
        shutil.copy(FOLDER / "nginx" / name, tmp_path)
    (tmp_path / "nginx.conf").write_text(
        f"pid {tmp_path}/pid;\nerror_log {tmp_path}/error.log;\nevents {{}}\n"
        f"http {{ access_log off; include {tmp_path}/gepard.conf; include {tmp_path}/upstream.conf; }}\n"
    )
    done = subprocess.run(
        [binary, "-t", "-p", tmp_path, "-c", tmp_path / "nginx.conf"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_nginx_holds_nothing_back_and_lets_the_largest_clip_in():
    text = (FOLDER / "nginx" / "gepard.conf").read_text()
    for line in ("proxy_buffering off;", "gzip off;", "proxy_http_version 1.1;"):
        assert line in text
    assert Settings().clips.max_upload_bytes < 11 * 1024 * 1024
    assert "client_max_body_size 11m;" in text
    limits = Settings().limits
    longest_s = limits.stream_wait_s + limits.max_attempts * limits.first_event_timeout_s
    assert longest_s < 310
    assert "proxy_read_timeout 310s;" in text
    assert f"send_timeout {limits.client_stall_timeout_s:.0f}s;" in text


def test_caddy_takes_its_file():
    done = subprocess.run(
        [tool("caddy"), "validate", "--adapter", "caddyfile", "--config", FOLDER / "Caddyfile"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_traefik_routes_to_what_it_defines():
    """There is no Traefik among the packages: its files are read here, not by it."""
    static = yaml.safe_load((FOLDER / "traefik" / "traefik.yml").read_text())
    dynamic = yaml.safe_load((FOLDER / "traefik" / "dynamic.yml").read_text())["http"]
    (router,) = dynamic["routers"].values()
    assert set(router["entryPoints"]) <= set(static["entryPoints"])
    assert router["service"] in dynamic["services"]
    assert set(router["middlewares"]) <= set(dynamic["middlewares"])
    balancer = dynamic["services"][router["service"]]["loadBalancer"]
    assert balancer["serversTransport"] in dynamic["serversTransports"]
    # A reply lasts as long as it is heard.
    assert static["entryPoints"]["speech"]["transport"]["respondingTimeouts"]["writeTimeout"] == "0s"
    assert not {"buffering", "compress"} & {kind for one in dynamic["middlewares"].values() for kind in one}
