"""Load an OpenAI-compatible speech server and measure it: `gepard bench` for a checkout.

python -m benchmarks.load --url http://127.0.0.1:8000/v1 --concurrency 8 -o result.json
"""

import sys

from cli.main import main

if __name__ == "__main__":
    main(["bench", *sys.argv[1:]])
