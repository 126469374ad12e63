"""`docker compose exec` and `run` of a stack without Docker, as far as the scripts of deploy/compose use them.

python -m tests.support.docker_shim FOLDER compose exec -T SERVICE COMMAND ...
python -m tests.support.docker_shim FOLDER compose run --rm --no-deps -T --entrypoint PROGRAM SERVICE ...
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.host_stack import HostStack


def main(arguments: list[str]) -> int:
    """Run the command in the service's environment, standard input and output passed on."""
    state = json.loads((Path(arguments[0]) / "stack.json").read_text())
    stack = HostStack(Path(state["folder"]), state["environ"], owner=state["owner"])
    match arguments[1:]:
        case ["compose", "exec", "-T", service, *command]:
            pass
        case ["compose", "run", "--rm", "--no-deps", "-T", "--entrypoint", program, service, *rest]:
            command = [program, *rest]
        case other:
            raise SystemExit(f"the shim does not know: docker {' '.join(other)}")
    env = stack.environment(service) | {"POSTGRES_LISTENS": stack.address("postgres")}
    if stack.postgres is not None:
        env["PATH"] = f"{stack.postgres}:{env['PATH']}"
    return subprocess.run(stack.command(service, command), env=env, cwd=os.sep, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
