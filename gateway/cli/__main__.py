"""`python -m gateway.cli` is `pepper`."""

from gateway.cli import main

if __name__ == "__main__":
    main()
