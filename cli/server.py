"""The embedded API server, run for the commands: in a thread and loop of its own, beside whatever the user's code does.

An operator whose handlers block the event loop, or talk to the server synchronously, so still gets its answers.
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
from .loops import new_loop, run_in


@dataclass(frozen=True)
class Serving:
    """What to serve: on which port of the loopback (0: any that is free), and which manifests from the start."""

    port: int = 0
    manifests: Sequence[str] = ()
    kubeconfig: str | None = None
    """Where to write the kubeconfig; None for a temporary folder that is removed at the end."""


@contextlib.asynccontextmanager
async def serving(what: Serving) -> AsyncIterator[Path]:
    """Serve in the running loop, and give the path of a kubeconfig to use.

    Raises click.ClickException for a manifest that is not there or wrong, a port that is taken, and a kubeconfig that cannot be
    written, or is somebody's own.
    """
    manifests = [(path, _read(path)) for path in what.manifests]
    async with contextlib.AsyncExitStack() as stack:
        try:
            # Others on this machine reach the port too: only the kubeconfig lets in. kubectl sends a token over TLS alone.
            settings = SandboxSettings(tokens=frozenset({secrets.token_urlsafe(32)}), tls=True)
            server = await stack.enter_async_context(Sandbox(what.port, settings))
        except OSError as exc:
            reason = exc.strerror or str(exc)
            raise click.ClickException(f"The port {what.port} of the loopback cannot be used: {reason}.") from exc
        for path, text in manifests:
            try:
                await server.load_manifest(text)
            except Exception as exc:
                raise click.ClickException(f"The manifest {path} cannot be loaded: {exc}") from exc
        kubeconfig = stack.enter_context(_place(what.kubeconfig))
        try:
            server.kubeconfig(kubeconfig)
        except OSError as exc:
            reason = exc.strerror or str(exc)
            raise click.ClickException(f"The kubeconfig {kubeconfig} cannot be written: {reason}.") from exc
        yield kubeconfig


@contextlib.contextmanager
def serving_beside(what: Serving) -> Iterator[Path]:
    """Serve in a thread of its own until the block ends, and give the path of a kubeconfig to use. Raises as `serving`."""
    ready: Future[Path] = Future()
    loop, stop = new_loop(), asyncio.Event()

    async def serve() -> None:
        async with serving(what) as path:
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
            with contextlib.suppress(RuntimeError):  # closed in between: it failed, and has said so
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
def _place(kubeconfig: str | None) -> Iterator[Path]:
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
    """Of all commands this one alone writes its --kubeconfig: somebody's own, with the ways to clusters, is not what is meant."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
        found = yaml.safe_load(text)
        names = [cluster["name"] for cluster in found["clusters"]]
    except OSError:
        return  # it is not there, or cannot be written either
    except (yaml.YAMLError, LookupError, TypeError):
        names = [] if not text.strip() else ["something else"]
    if not {*names} <= {"sandbox"}:
        raise click.ClickException(
            f"The kubeconfig {path} would be overwritten, and it is of another cluster ({', '.join(map(str, names))}). "
            "--kubeconfig says where to write that of the sandbox: name a file that is not there."
        )
