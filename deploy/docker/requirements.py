"""Print what a wheel of this project depends on: its dependencies change less often than its code, so that they get a
layer of their own.

    python requirements.py pyproject.toml EXTRA ...
"""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["project"]
for requirement in [
    *project["dependencies"],
    *(r for extra in sys.argv[2:] for r in project["optional-dependencies"][extra]),
]:
    print(requirement)
