"""`python -m ctl` is the `ctl` command."""

from .cli.main import main

if __name__ == "__main__":
    main(prog_name="ctl")
