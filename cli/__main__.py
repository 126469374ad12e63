"""`python -m cli` is `gepard`."""

from cli.main import main

main()
