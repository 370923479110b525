"""`python -m ctl` is the `ctl` command."""

from .cli.main import entry

if __name__ == "__main__":
    entry()
