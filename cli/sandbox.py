"""`ctl sandbox` serves the embedded Kubernetes API until a signal; `ctl run --sandbox` serves it in a thread.

In a thread with a loop of its own, the server answers even while handlers block the operator's loop.
"""

import asyncio
import contextlib
import secrets
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import click
import yaml

from ..sandbox import Sandbox, SandboxSettings
from .options import logging_options, option
from .process import new_loop, run_in, until_signalled


@dataclass(frozen=True)
class SandboxOptions:
    """The port on the loopback (0: any free one), the manifests to create, and the path for the kubeconfig."""

    port: int = 0
    manifests: Sequence[str] = ()
    kubeconfig: str | None = None
    """None: in a temporary folder that is removed at the end."""


@click.command("sandbox")
@option("--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1.  [default: any]")
@option("--manifest", "manifests", multiple=True, metavar="FILE", help="Create the objects of FILE; repeat.")
@option("--kubeconfig", metavar="PATH", help="Write the kubeconfig there.  [default: a temporary file]")
@logging_options
def sandbox(port: int, manifests: tuple[str, ...], kubeconfig: str | None) -> None:
    """Serve an embedded Kubernetes API, to try operators without a cluster.

    Everything is kept in memory and gone at the end. kubectl and other clients work with the kubeconfig that is
    printed; the server refuses requests without its token.
    """

    async def serve() -> None:
        async with _serving(SandboxOptions(port, manifests, kubeconfig)) as path:

            def tell() -> None:
                click.echo(f"Serving the Kubernetes API; kubeconfig: {path}")
                click.echo(instructions(path))
                click.echo("Stop with Ctrl-C.")

            await until_signalled(tell)

    run_in(new_loop(), serve())


@contextlib.asynccontextmanager
async def _serving(options: SandboxOptions) -> AsyncIterator[Path]:
    """Serve in the running loop, and yield the path of a kubeconfig for the server.

    Raises click.ClickException for a manifest that is missing or wrong, a port that is taken, and a kubeconfig that
    cannot be written or belongs to another cluster.
    """
    manifests = [(path, _read(path)) for path in options.manifests]
    async with contextlib.AsyncExitStack() as stack:
        try:
            # All users of this machine reach the port, so a token is required. kubectl sends tokens over TLS only.
            settings = SandboxSettings(tokens=frozenset({secrets.token_urlsafe(32)}), tls=True)
            server = await stack.enter_async_context(Sandbox(options.port, settings))
        except OSError as exc:
            reason = exc.strerror or str(exc)
            raise click.ClickException(f"The port {options.port} of the loopback cannot be used: {reason}.") from exc
        for path, text in manifests:
            try:
                await server.load_manifest(text)
            except Exception as exc:
                raise click.ClickException(f"The manifest {path} cannot be loaded: {exc}") from exc
        kubeconfig = stack.enter_context(_kubeconfig(options.kubeconfig))
        try:
            server.kubeconfig(kubeconfig)
        except OSError as exc:
            reason = exc.strerror or str(exc)
            raise click.ClickException(f"The kubeconfig {kubeconfig} cannot be written: {reason}.") from exc
        yield kubeconfig


@contextlib.contextmanager
def serving_in_thread(options: SandboxOptions) -> Iterator[Path]:
    """Serve in a thread until the block ends, and yield the path of a kubeconfig for the server. Raises
    click.ClickException.
    """
    ready: Future[Path] = Future()
    loop, stop = new_loop(), asyncio.Event()

    async def serve() -> None:
        async with _serving(options) as path:
            ready.set_result(path)
            await stop.wait()

    def thread() -> None:
        try:
            run_in(loop, serve())
        except BaseException as exc:
            if ready.done():
                raise
            ready.set_exception(exc)

    server = threading.Thread(target=thread, name="ctl-sandbox")
    server.start()
    try:
        yield ready.result()
        loop.call_soon_threadsafe(stop.set)
    finally:
        if not loop.is_closed():
            with contextlib.suppress(RuntimeError):  # closed meanwhile: it failed, and its error is raised above
                loop.call_soon_threadsafe(stop.set)
        server.join()


def instructions(kubeconfig: Path) -> str:
    """How to use the server from another terminal."""
    return f"In another terminal:  export KUBECONFIG={kubeconfig}\nand then, for example:  kubectl get -w crd"


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "it is no UTF-8 text"
        raise click.ClickException(f"The manifest {path} cannot be read: {reason}.") from exc


@contextlib.contextmanager
def _kubeconfig(kubeconfig: str | None) -> Iterator[Path]:
    if kubeconfig is not None:
        path = Path(kubeconfig).absolute()
        _refuse_to_overwrite(path)
        yield path
        return
    folder = Path(tempfile.mkdtemp(prefix="ctl-sandbox-"))
    try:
        yield folder / "kubeconfig"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _refuse_to_overwrite(path: Path) -> None:
    """Only this command writes its --kubeconfig: it must not replace a user's own."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
        found = yaml.safe_load(text)
        names = [cluster["name"] for cluster in found["clusters"]]
    except OSError:
        return  # it does not exist, or cannot be written either
    except (yaml.YAMLError, LookupError, TypeError):
        names = [] if not text.strip() else ["something else"]
    if not {*names} <= {"sandbox"}:
        raise click.ClickException(
            f"The kubeconfig {path} would be overwritten, and it is of another cluster ({', '.join(map(str, names))}). "
            "--kubeconfig says where to write that of the sandbox: name a file that does not exist."
        )
