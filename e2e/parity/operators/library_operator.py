"""An operator as others import it: a package of its own between it and kopf."""

import library
from recording import record


@library.keeps("apples")
def kept(**kwargs):
    record("kept", kwargs)
    return library.Result(done=True)
