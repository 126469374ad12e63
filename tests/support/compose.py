"""docker-compose.yml and the Dockerfiles, read as the tests need them."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]

_VARIABLE = re.compile(r"\$(?:(?P<escaped>\$)|\{(?P<name>\w+)(?::-(?P<default>[^}]*))?\})")
_INSTRUCTION = re.compile(r"^(?P<name>[A-Z]+)\s+(?P<value>.*)$", re.DOTALL)


class MissingVariable(Exception):
    """A variable without a value and without a default."""


def interpolated(text: str, environ: Mapping[str, str]) -> str:
    """A value with its `${NAME:-default}` replaced, as Compose does."""

    def value(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "$"
        given = environ.get(match["name"], "")
        if not given and match["default"] is None:
            raise MissingVariable(match["name"])
        return given or match["default"]

    return _VARIABLE.sub(value, text)


def compose(environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The file with its anchors merged and its variables replaced."""
    document = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    found: dict[str, Any] = _each_text(document, lambda text: interpolated(text, environ or {}))
    return found


def _each_text(value: Any, change: Any) -> Any:
    if isinstance(value, dict):
        return {key: _each_text(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_each_text(item, change) for item in value]
    return change(value) if isinstance(value, str) else value


def instructions(dockerfile: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile in order, each on one line, comments left out."""
    text = (ROOT / dockerfile).read_text(encoding="utf-8")
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    parsed = (_INSTRUCTION.match(line.strip()) for line in lines.replace("\\\n", " ").splitlines() if line.strip())
    return [(match["name"], " ".join(match["value"].split())) for match in parsed if match]


def environment(dockerfile: str) -> dict[str, str]:
    """What the last stage's ENV sets, but for the search path."""
    found: dict[str, str] = {}
    for name, value in instructions(dockerfile):
        if name == "FROM":
            found = {}
        if name == "ENV":
            found |= dict(pair.split("=", 1) for pair in value.split())
    return {name: value for name, value in found.items() if name != "PATH"}


def entrypoint(dockerfile: str) -> list[str]:
    """The image's entry point."""
    return [str(part) for name, value in instructions(dockerfile) if name == "ENTRYPOINT" for part in json.loads(value)]


def mounts(service: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Source and target of each volume of a service, longest target first."""
    pairs = (volume.split(":")[:2] for volume in service.get("volumes", []))
    return sorted(((source, target) for source, target in pairs), key=lambda pair: -len(pair[1]))
