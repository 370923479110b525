"""`ctl rbac` prints the least rights that an operator needs, and asks the cluster which of them are missing."""

import importlib.util
import sys
import sysconfig
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from ..client.config.access import load_access
from ..client.resources import Resource
from ..client.rest import Client
from ..controller.peering.rules import CLUSTER_PLURAL, GROUPS, NAMESPACED_PLURAL, relevant
from ..handlers.declaration.namespaces import exact_namespaces
from ..handlers.declaration.registry import OperatorRegistry, get_default_registry
from ..handlers.running.declared import declared, is_bare
from ..handlers.running.electing import lease_name
from .alias import install_as_kopf
from .controls import CLIControls
from .failures import Failure, explained
from .granted import missing
from .habits import UNKNOWN, Habits, habits_of
from .loading import is_toolkit, load
from .loops import new_loop, run_in
from .needs import VERBS, Controlled, Needs, Place, Right, Situation, needs
from .options import Option, logging_options
from .roles import Grantee, grants, render
from .surroundings import Surroundings, Where, surroundings


@dataclass(frozen=True)
class RbacOptions:
    """What was said on the command line and in the environment."""

    paths: tuple[str, ...]
    modules: tuple[str, ...]
    clusterwide: bool
    namespaces: tuple[str, ...]
    check: bool
    name: str | None
    service_account: str | None
    service_account_namespace: str | None
    leader_elect: bool | None
    lease_name: str | None
    lease_namespace: str | None
    standalone: bool | None
    peering: str | None
    events: bool | None
    definitions: bool | None
    also: tuple[str, ...]
    manifests: tuple[str, ...]
    offline: bool
    kubeconfig: str | None
    context: str | None

    def verify(self) -> None:
        """Raise click.UsageError for options that contradict each other."""
        if self.namespaces and self.clusterwide:
            raise click.UsageError("Either --namespace or --all-namespaces can be used, not both.")
        if not self.paths and not self.modules:
            raise click.UsageError("Nothing to look at: name the operator's Python files, or its modules with -m.")
        if self.offline and (self.check or self.kubeconfig or self.context):
            raise click.UsageError("--offline asks no cluster; --check, --kubeconfig and --context name one.")
        if self.leader_elect is False and (self.lease_name or self.lease_namespace):
            raise click.UsageError("--no-leader-elect needs no lease: leave --lease-name and --lease-namespace out.")

    @property
    def is_clusterwide(self) -> bool:
        """Whether all namespaces are served; so they are where nothing is said, as by `ctl run`."""
        return not self.namespaces

    @property
    def where(self) -> Where:
        """The cluster that is meant."""
        return Where(self.namespaces, self.manifests, self.offline, self.kubeconfig, self.context, is_needed=self.check)


@click.command("rbac")
@click.argument("paths", nargs=-1, metavar="FILES...")
@click.option("-m", "--module", "modules", cls=Option, multiple=True, help="Load a module by its name; repeat.")
@click.option(
    "-A", "--all-namespaces", "clusterwide", cls=Option, is_flag=True, help="For an operator of all namespaces."
)
@click.option(
    "-n", "--namespace", "namespaces", cls=Option, multiple=True, help="For an operator of this namespace; repeat."
)
@click.option(
    "--check", cls=Option, is_flag=True, help="Print the rights that the current credentials lack; exit code 1 if any."
)
@click.option("--name", cls=Option, metavar="NAME", help="The name of the roles.  [default: that of the account]")
@click.option(
    "--service-account", cls=Option, metavar="NAME", help="To whom they are granted.  [default: by the first file]"
)
@click.option(
    "--service-account-namespace",
    cls=Option,
    metavar="NAME",
    help="Where the account is.  [default: the only --namespace, else `default`]",
)
@click.option(
    "--leader-elect/--no-leader-elect",
    cls=Option,
    default=None,
    help="Grant the election.  [default: unless ruled out]",
)
@click.option(
    "--lease-name", cls=Option, metavar="NAME", help="The name of the Lease.  [default: as `ctl run` names it]"
)
@click.option(
    "--lease-namespace", cls=Option, metavar="NAME", help="Where the Lease is.  [default: the account's namespace]"
)
@click.option("--standalone", cls=Option, is_flag=True, default=None, help="Grant no peering.")
@click.option("-P", "--peering", cls=Option, metavar="NAME", help="Grant peering.  [default: if it is installed]")
@click.option("--events/--no-events", cls=Option, default=None, help="Grant Events.  [default: if any are posted]")
@click.option(
    "--definitions/--no-definitions",
    cls=Option,
    default=None,
    help="Grant the sight of what is installed later.  [default: for all namespaces]",
)
@click.option("--also", cls=Option, multiple=True, metavar="RESOURCE=VERB,...", help="Grant this too; repeat.")
@click.option(
    "--manifest",
    "manifests",
    cls=Option,
    multiple=True,
    metavar="FILE",
    help="Know the resources that are defined in FILE; repeat.",
)
@click.option("--offline", cls=Option, is_flag=True, help="Ask no cluster what it serves.")
@click.option("--kubeconfig", cls=Option, metavar="PATH", help="Use this kubeconfig.")
@click.option("--context", cls=Option, metavar="NAME", help="Use this context of the kubeconfig.")
@logging_options
@click.make_pass_decorator(CLIControls, ensure=True)
def rbac(controls: CLIControls, /, **given: Any) -> None:
    """Print the least rights that the operator in FILES and modules needs.

    The files are loaded, and nothing of them is run. What is printed is what the toolkit asks the server for; add what handlers ask by
    themselves with --also.
    """
    options = RbacOptions(**given)
    options.verify()
    before = set(sys.modules)
    install_as_kopf()
    load(options.paths, options.modules)
    registry = _registry(controls.registry or get_default_registry(), before)
    habits = habits_of(_sources(options, before))
    is_idle = is_bare(registry)
    if is_idle and not options.also:
        hint = " What its own clients ask for cannot be seen from here: name it by --also." if habits.has_client else ""
        where = ", ".join((*options.paths, *options.modules))
        raise Failure(f"Nothing is declared in {where}, so nothing is needed.{hint}")
    around = surroundings(options.where)
    circumstances = situation(options, registry, habits, around)
    if is_idle:
        # There is no operator that would need anything for itself.
        circumstances = Situation(
            resources=around.resources, elects=False, follows_definitions=False, posts=False, extra=circumstances.extra
        )
    found = needs(registry, circumstances)
    for text in (*found.unresolved, *around.notes):
        click.echo(f"Warning: {text}", err=True)
    grantee = _grantee(options, habits)
    if options.check:
        _check(options, found, grantee, around)
        return
    title = f"What {', '.join((*options.paths, *options.modules))} needs, as `ctl rbac` has found out."
    click.echo(render(_with_notes(found, habits, around), grantee, around.namespaces, title), nl=False)


def situation(options: RbacOptions, registry: OperatorRegistry, habits: Habits, around: Surroundings) -> Situation:
    """What the options say, else what the code shows, else what is usual."""
    everywhere = options.is_clusterwide
    elects = (
        habits.settings.get("leadership.elect") is not False if options.leader_elect is None else options.leader_elect
    )
    posts = habits.posts if options.events is None else options.events
    follows = habits.settings.get("scanning.disabled") is not True
    if options.definitions is not None:
        follows = options.definitions
    return Situation(
        resources=around.resources,
        is_clusterwide=everywhere,
        has_patterns=options.where.has_patterns,
        elects=elects,
        lease=_lease(options, habits),
        posts=posts and habits.settings.get("posting.enabled") is not False,
        peerings=_peerings(options, habits, around),
        follows_definitions=follows and (everywhere or bool(options.definitions)),
        keeps_configmaps="ConfigMapProgressStorage" in habits.names,
        manages_webhooks=habits.settings.get("admission.managed") is not None,
        controllers=tuple(
            Controlled(
                one.name,
                tuple(
                    dict.fromkeys(look.name for look in (one.plan.primary, *one.plan.watches) if look.informer is None)
                ),
            )
            for one in declared(registry)
        ),
        extra=tuple(right for text in options.also for right in _extra(text, everywhere)),
    )


def _peerings(options: RbacOptions, habits: Habits, around: Surroundings) -> Collection[Resource]:
    if options.standalone or (options.peering is None and habits.settings.get("peering.standalone") is True):
        return ()
    everywhere = options.is_clusterwide
    installed = relevant(around.resources, clusterwide=everywhere)
    if installed or (options.peering is None and not habits.touches("peering")):
        return installed
    plural = CLUSTER_PLURAL if everywhere else NAMESPACED_PLURAL
    return (Resource(GROUPS[0], "v1", plural, namespaced=not everywhere),)


def _extra(text: str, everywhere: bool) -> Iterator[Right]:
    resources, found, verbs = text.partition("=")
    wanted = tuple(verb.strip() for verb in verbs.split(","))
    unknown = [verb for verb in wanted if verb not in VERBS]
    if not found or not resources or unknown:
        raise click.UsageError(f"--also takes RESOURCE=VERB,..., for example configmaps=create,patch; got {text!r}.")
    for resource in resources.split(","):
        name, _, subresource = resource.strip().partition("/")
        plural, _, group = name.partition(".")
        place = Place.CLUSTER if everywhere else Place.SERVED
        yield Right(group, f"{plural}/{subresource}" if subresource else plural, wanted, place, ("--also",))


def _account(options: RbacOptions) -> str:
    first = (*options.paths, *options.modules)[0]
    return options.service_account or f"ctl-{Path(first).stem if first.endswith('.py') else first}".replace("_", "-")


def _lease(options: RbacOptions, habits: Habits) -> str | None:
    """The Lease that the operator will use as this account; None when its code computes the name."""
    name = options.lease_name or habits.settings.get("leadership.lease_name")
    if name is None:
        return lease_name(_account(options), (*options.paths, *options.modules))
    return name if isinstance(name, str) else None


def _grantee(options: RbacOptions, habits: Habits) -> Grantee:
    account = _account(options)
    exact = sorted(exact_namespaces(options.namespaces))
    home = options.service_account_namespace or (exact[0] if len(exact) == 1 else "default")
    lease = options.lease_namespace or habits.settings.get("leadership.lease_namespace")
    return Grantee(options.name or account, account, home, lease if isinstance(lease, str) else home)


def _with_notes(found: Needs, habits: Habits, around: Surroundings) -> Needs:
    notes = [*found.notes, *around.notes]
    if habits.has_client:
        notes.append("What the code asks by clients of its own cannot be seen from here; add it by --also.")
    unknown = sorted(name for name, value in habits.settings.items() if value is UNKNOWN)
    if any(name.split(".")[0] in {"leadership", "peering", "scanning"} for name in unknown):
        notes.append(f"Computed when the operator starts, and so not known here: {', '.join(unknown)}.")
    return Needs(found.rights, found.unresolved, tuple(notes))


# What was loaded.


def _registry(default: OperatorRegistry, before: Collection[str]) -> OperatorRegistry:
    """The default registry, or else the only one that the loaded modules have made themselves, as embedding programs do."""
    if not is_bare(default):
        return default
    own = {
        id(value): value
        for module in _loaded(before)
        for value in vars(module).values()
        if isinstance(value, OperatorRegistry) and not is_bare(value)
    }
    return next(iter(own.values())) if len(own) == 1 else default


def _loaded(before: Collection[str]) -> list[ModuleType]:
    """The user's own modules among those that were loaded since: not what is installed, and not this toolkit."""
    installed = {Path(path).resolve() for path in sysconfig.get_paths().values()}
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name in before or file is None or is_toolkit(file):
            continue
        if not installed & set(Path(file).resolve().parents):
            found.append(module)
    return found


def _sources(options: RbacOptions, before: Collection[str]) -> list[str]:
    files = {Path(path).resolve() for path in options.paths}
    files |= {Path(str(module.__file__)).resolve() for module in _loaded(before)}
    for name in options.modules:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            files.add(Path(spec.origin).resolve())
    return [path.read_text(encoding="utf-8") for path in sorted(files) if path.suffix == ".py"]


def _check(options: RbacOptions, found: Needs, grantee: Grantee, around: Surroundings) -> None:
    wanted = grants(found, grantee, around.namespaces)

    async def ask() -> list[str]:
        async with Client(load_access(options.kubeconfig, options.context)) as client:
            return await missing(client, wanted)

    with explained():
        lacking = run_in(new_loop(), ask())
    for line in lacking:
        click.echo(line)
    if lacking:
        raise click.exceptions.Exit(1)
    click.echo("Nothing is missing.", err=True)
