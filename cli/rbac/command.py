"""`ctl rbac` prints the least rights that an operator needs, or those of them that are missing in the cluster."""

import importlib.util
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from ...client.resources import Resource
from ...controller.peering.rules import CLUSTER_PLURAL, GROUPS, NAMESPACED_PLURAL, relevant
from ...handlers.declaration.namespaces import exact_namespaces
from ...handlers.declaration.registry import OperatorRegistry, get_default_registry
from ...handlers.running.declared import declared, is_bare
from ...handlers.running.election import lease_name
from ..alias import install_as_kopf
from ..failures import CommandError, explained
from ..loading import load, modules_of_user
from ..options import CLIControls, check_namespaces, cluster_options, logging_options, option
from ..process import with_client
from .cluster_facts import ClusterFacts, ClusterQuery, cluster_facts
from .code_scan import UNKNOWN, CodeFacts, scan_code
from .review import missing
from .roles import Grantee, grants, render
from .rules import VERBS, DeclaredController, OperatorSetup, Requirements, Right, RightScope, required


@dataclass(frozen=True)
class RbacOptions:
    """The options from the command line and the environment."""

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
        if not self.paths and not self.modules:
            raise click.UsageError("Nothing to look at: name the operator's Python files, or its modules with -m.")
        if self.offline and (self.check or self.kubeconfig or self.context):
            raise click.UsageError("--offline asks no cluster; --check, --kubeconfig and --context name one.")
        if self.leader_elect is False and (self.lease_name or self.lease_namespace):
            raise click.UsageError("--no-leader-elect needs no lease: leave --lease-name and --lease-namespace out.")

    @property
    def is_clusterwide(self) -> bool:
        """Whether all namespaces are served: the default, as of `ctl run`."""
        return not self.namespaces

    @property
    def query(self) -> ClusterQuery:
        """What to ask the cluster."""
        return ClusterQuery(
            self.namespaces, self.manifests, self.offline, self.kubeconfig, self.context, is_needed=self.check
        )


@click.command("rbac")
@click.argument("paths", nargs=-1, metavar="FILES...")
@option("-m", "--module", "modules", multiple=True, help="Load a module by its name; repeat.")
@option("-A", "--all-namespaces", "clusterwide", is_flag=True, help="For an operator of all namespaces.")
@option("-n", "--namespace", "namespaces", multiple=True, help="For an operator of this namespace; repeat.")
@option("--check", is_flag=True, help="Print the rights that the current credentials lack; exit code 1 if any.")
@option("--name", metavar="NAME", help="The name of the roles.  [default: the account's]")
@option("--service-account", metavar="NAME", help="The account of the operator.  [default: from the first file]")
@option(
    "--service-account-namespace",
    metavar="NAME",
    help="The namespace of the account.  [default: the only --namespace, else `default`]",
)
@option("--leader-elect/--no-leader-elect", default=None, help="Grant the election.  [default: unless ruled out]")
@option("--lease-name", metavar="NAME", help="The name of the Lease.  [default: as `ctl run` names it]")
@option("--lease-namespace", metavar="NAME", help="The namespace of the Lease.  [default: the account's namespace]")
@option("--standalone", is_flag=True, default=None, help="Grant no peering.")
@option("-P", "--peering", metavar="NAME", help="Grant peering.  [default: if it is installed]")
@option("--events/--no-events", default=None, help="Grant Events.  [default: if any are posted]")
@option(
    "--definitions/--no-definitions",
    default=None,
    help="Grant watching definitions that are installed later.  [default: for all namespaces]",
)
@option("--also", multiple=True, metavar="RESOURCE=VERB,...", help="Grant this too; repeat.")
@option("--manifest", "manifests", multiple=True, metavar="FILE", help="Use the definitions in FILE; repeat.")
@option("--offline", is_flag=True, help="Do not ask a cluster for its resources.")
@cluster_options
@logging_options
@click.make_pass_decorator(CLIControls, ensure=True)
def rbac(controls: CLIControls, /, **given: Any) -> None:
    """Print the least rights that the operator in FILES and modules needs.

    The files are loaded, and no handlers are called. The rights cover the requests of the toolkit; add those for
    requests of the handlers themselves with --also.
    """
    check_namespaces(given)
    options = RbacOptions(**given)
    options.verify()
    before = set(sys.modules)
    install_as_kopf()
    load(options.paths, options.modules)
    registry = _registry(controls.registry or get_default_registry(), before)
    code = scan_code(_sources(options, before))
    is_idle = is_bare(registry)
    if is_idle and not options.also:
        hint = (
            " Requests of its own clients are not known here: name their rights by --also." if code.has_client else ""
        )
        where = ", ".join((*options.paths, *options.modules))
        raise CommandError(f"Nothing is declared in {where}, so nothing is needed.{hint}")
    cluster = cluster_facts(options.query)
    setup = _setup(options, registry, code, cluster)
    if is_idle:
        # Without an operator, only the rights of --also are needed.
        setup = OperatorSetup(
            resources=cluster.resources, elects=False, follows_definitions=False, posts=False, extra=setup.extra
        )
    found = required(registry, setup)
    for text in (*found.unresolved, *cluster.notes):
        click.echo(f"Warning: {text}", err=True)
    grantee = _grantee(options, code)
    if options.check:
        _check(options, found, grantee, cluster)
        return
    title = f"What {', '.join((*options.paths, *options.modules))} needs, as `ctl rbac` has found out."
    click.echo(render(_with_notes(found, code, cluster), grantee, cluster.namespaces, title), nl=False)


def _setup(options: RbacOptions, registry: OperatorRegistry, code: CodeFacts, cluster: ClusterFacts) -> OperatorSetup:
    """The setup by the options, else by the code, else by default."""
    everywhere = options.is_clusterwide
    elects = (
        code.settings.get("leadership.elect") is not False if options.leader_elect is None else options.leader_elect
    )
    posts = code.posts if options.events is None else options.events
    follows = code.settings.get("scanning.disabled") is not True
    if options.definitions is not None:
        follows = options.definitions
    return OperatorSetup(
        resources=cluster.resources,
        is_clusterwide=everywhere,
        has_patterns=options.query.has_patterns,
        elects=elects,
        lease=_lease(options, code),
        posts=posts and code.settings.get("posting.enabled") is not False,
        peerings=_peerings(options, code, cluster),
        follows_definitions=follows and (everywhere or bool(options.definitions)),
        keeps_configmaps="ConfigMapProgressStorage" in code.names,
        manages_webhooks=code.settings.get("admission.managed") is not None,
        controllers=tuple(
            DeclaredController(
                one.name,
                tuple(
                    dict.fromkeys(look.name for look in (one.plan.primary, *one.plan.watches) if look.informer is None)
                ),
            )
            for one in declared(registry)
        ),
        extra=tuple(right for text in options.also for right in _extra(text, everywhere)),
    )


def _peerings(options: RbacOptions, code: CodeFacts, cluster: ClusterFacts) -> Collection[Resource]:
    if options.standalone or (options.peering is None and code.settings.get("peering.standalone") is True):
        return ()
    everywhere = options.is_clusterwide
    installed = relevant(cluster.resources, clusterwide=everywhere)
    if installed or (options.peering is None and not code.touches("peering")):
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
        scope = RightScope.CLUSTER if everywhere else RightScope.SERVED
        yield Right(group, f"{plural}/{subresource}" if subresource else plural, wanted, scope, ("--also",))


def _account(options: RbacOptions) -> str:
    first = (*options.paths, *options.modules)[0]
    return options.service_account or f"ctl-{Path(first).stem if first.endswith('.py') else first}".replace("_", "-")


def _lease(options: RbacOptions, code: CodeFacts) -> str | None:
    """The name of the operator's Lease; None when its code computes the name."""
    name = options.lease_name or code.settings.get("leadership.lease_name")
    if name is None:
        return lease_name(_account(options), (*options.paths, *options.modules))
    return name if isinstance(name, str) else None


def _grantee(options: RbacOptions, code: CodeFacts) -> Grantee:
    account = _account(options)
    exact = sorted(exact_namespaces(options.namespaces))
    home = options.service_account_namespace or (exact[0] if len(exact) == 1 else "default")
    lease = options.lease_namespace or code.settings.get("leadership.lease_namespace")
    return Grantee(options.name or account, account, home, lease if isinstance(lease, str) else home)


def _with_notes(found: Requirements, code: CodeFacts, cluster: ClusterFacts) -> Requirements:
    notes = [*found.notes, *cluster.notes]
    if code.has_client:
        notes.append("Requests of the operator's own clients are not known here; add their rights by --also.")
    unknown = sorted(name for name, value in code.settings.items() if value is UNKNOWN)
    if any(name.split(".")[0] in {"leadership", "peering", "scanning"} for name in unknown):
        notes.append(f"Settings that are computed when the operator starts are not known here: {', '.join(unknown)}.")
    return replace(found, notes=tuple(notes))


def _registry(default: OperatorRegistry, before: Collection[str]) -> OperatorRegistry:
    """The default registry if it has handlers, else the only one that the loaded modules have made."""
    if not is_bare(default):
        return default
    own = {
        id(value): value
        for module in modules_of_user(before)
        for value in vars(module).values()
        if isinstance(value, OperatorRegistry) and not is_bare(value)
    }
    return next(iter(own.values())) if len(own) == 1 else default


def _sources(options: RbacOptions, before: Collection[str]) -> list[str]:
    files = {Path(path).resolve() for path in options.paths}
    files |= {Path(str(module.__file__)).resolve() for module in modules_of_user(before)}
    for name in options.modules:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            files.add(Path(spec.origin).resolve())
    return [path.read_text(encoding="utf-8") for path in sorted(files) if path.suffix == ".py"]


def _check(options: RbacOptions, found: Requirements, grantee: Grantee, cluster: ClusterFacts) -> None:
    wanted = grants(found, grantee, cluster.namespaces)

    with explained():
        lacking = with_client(options.kubeconfig, options.context, lambda client: missing(client, wanted))
    for line in lacking:
        click.echo(line)
    if lacking:
        raise click.exceptions.Exit(1)
    click.echo("Nothing is missing.", err=True)
