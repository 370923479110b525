"""Errors that the user can fix become one message and an exit code; all others keep their traceback."""

import contextlib
from collections.abc import Iterator

import click
import msgspec

from ..client.errors import AccessError, APIError, NoAccessError, RequestError, Unauthorized
from ..controller.http.server import AddressError
from ..controller.program.terms import StillActing
from ..handlers.errors import LoginError
from ..handlers.execution.activities import ActivityError
from .process import last_resort


class CommandError(click.ClickException):
    """Ends the command with `Error: {message}` on standard error and exit code 1."""

    def show(self, file: object = None) -> None:
        """Write the message as one paragraph."""
        click.echo(f"Error: {self.format_message()}", err=True)


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turn errors that the user can fix into CommandError: access, credentials, connections, refusals by the server,
    startup and cleanup handlers, addresses of pages, and parts that are not built yet.
    """
    try:
        yield
    except StillActing as exc:
        end = last_resort()
        if end is not None:
            end(exc)  # threads that still run get no time: another replica may act now
        raise CommandError(str(exc)) from exc
    except NoAccessError as exc:
        raise CommandError(f"{exc} To try an operator without a cluster: ctl run --sandbox.") from exc
    except (
        AccessError,
        AddressError,
        LoginError,
        ActivityError,
        NotImplementedError,
    ) as exc:  # the log has the traceback of a handler
        raise CommandError(str(exc)) from exc
    except Unauthorized as exc:
        raise CommandError(f"The server refuses the credentials: {exc}") from exc
    except RequestError as exc:
        if isinstance(exc.__cause__, msgspec.MsgspecError):
            raise CommandError(
                f"What answers there is no Kubernetes API: {exc} Check the server's address in the kubeconfig's context."
            ) from exc
        raise CommandError(f"The server cannot be reached: {exc}") from exc
    except APIError as exc:
        raise CommandError(f"The server refused a request that the operator cannot do without: {exc}") from exc
