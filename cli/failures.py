"""Failures that the user can mend become one clear message and an exit code; all others keep their traceback."""

import contextlib
from collections.abc import Iterator

import click
import msgspec

from ..client.errors import AccessError, APIError, NoAccessError, RequestError, Unauthorized
from ..controller.http.server import AddressError
from ..handlers.errors import LoginError
from ..handlers.execution.activities import ActivityError
from ..handlers.running.authority import StillActing
from .exiting import last_resort


class Failure(click.ClickException):
    """Ends the command with `Error: {message}` on standard error and exit code 1."""

    def show(self, file: object = None) -> None:
        """Write the message as one paragraph."""
        click.echo(f"Error: {self.format_message()}", err=True)


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turn what a user can mend into a Failure: access, credentials, connections, refusals, startup and cleanup handlers, addresses
    for pages, and what is not there yet.
    """
    try:
        yield
    except StillActing as exc:
        end = last_resort()
        if end is not None:
            end(exc)  # threads that go on are given no time: others may act now
        raise Failure(str(exc)) from exc
    except NoAccessError as exc:
        raise Failure(f"{exc} To try an operator without a cluster: ctl run --sandbox.") from exc
    except (
        AccessError,
        AddressError,
        LoginError,
        ActivityError,
        NotImplementedError,
    ) as exc:  # a handler's own traceback is in the log
        raise Failure(str(exc)) from exc
    except Unauthorized as exc:
        # What was said ends as a sentence, with what to do.
        raise Failure(f"The server refuses the credentials: {exc}") from exc
    except RequestError as exc:
        if isinstance(exc.__cause__, msgspec.MsgspecError):
            raise Failure(
                f"What answers there is no Kubernetes API: {exc} Check the server's address in the kubeconfig's context."
            ) from exc
        raise Failure(f"The server cannot be reached: {exc}") from exc
    except APIError as exc:
        raise Failure(f"The server refused a request that the operator cannot do without: {exc}") from exc
