"""Whether a proxy holds the first sound back: the same request through nginx and straight to the gateway behind it.

`python -m benchmarks.proxy_first_byte`; needs nginx. README.md says what the numbers mean.
"""

import contextlib
import json
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from benchmarks.first_audio import TEXT, interleaved, speech_over_http
from benchmarks.http_timing import free_port, get_status
from benchmarks.processes import running_stack, running_valkey, wait_for
from benchmarks.report import spread, write

PROXY = Path(__file__).parents[1] / "deploy" / "proxy" / "nginx"


@click.command()
@click.option("--rounds", default=100, show_default=True, help="Requests each way, in random order.")
def main(rounds: int) -> None:
    """Measure, print the result and write results/proxy_first_byte.json."""
    with tempfile.TemporaryDirectory(prefix="gepard-bench-") as name:
        folder, gateway, proxy = Path(name), free_port(), free_port()
        with (
            running_valkey(folder) as (redis_url, _),
            running_stack(redis_url, folder, gateway),
            running_nginx(folder, proxy, gateway) as version,
            speech_over_http(gateway) as direct,
            speech_over_http(proxy) as through_nginx,
        ):
            samples = interleaved({"direct": direct, "through_nginx": through_nginx}, rounds)
    medians = {way: statistics.median(values) for way, values in samples.items()}
    results = {
        "nginx": version,
        "rounds": rounds,
        "text": TEXT,
        "first_byte_ms": {way: spread(values) for way, values in samples.items()},
        "ratio_of_medians": medians["through_nginx"] / medians["direct"],
    }
    print(json.dumps(results, indent=2))
    print(f"Written: {write('proxy_first_byte', results)}")


@contextlib.contextmanager
def running_nginx(folder: Path, port: int, gateway: int) -> Iterator[str]:
    """The files of deploy/proxy/nginx before one gateway; yields nginx's version."""
    binary = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/local/bin:/usr/bin")
    if binary is None:
        raise click.ClickException("no nginx: apt-get install nginx-light (or your system's package)")
    server = (PROXY / "gepard.conf").read_text(encoding="utf-8").replace("listen 8080;", f"listen 127.0.0.1:{port};")
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off;\npid {folder}/nginx.pid;\nerror_log stderr warn;\nevents {{}}\nhttp {{\naccess_log off;\n"
        f"{temporary}upstream gepard {{ server 127.0.0.1:{gateway} max_fails=0; }}\n{server}\n}}\n",
        encoding="utf-8",
    )
    version = subprocess.run([binary, "-v"], capture_output=True, text=True, check=True).stderr.strip()
    process = subprocess.Popen([binary, "-p", str(folder), "-c", str(folder / "nginx.conf")])
    try:
        wait_for(lambda: get_status(port, "/health") == 200 or None)
        yield version
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
