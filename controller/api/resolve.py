"""Find out which resources are meant by the names that people write."""

from collections.abc import Iterable

from ...client.discovery import Discovery
from ...client.resources import Resource


class UnknownResource(LookupError):
    """The server does not serve a resource that a controller is told to look at; the message names both."""


async def resolve(discovery: Discovery, names: Iterable[str]) -> dict[str, Resource]:
    """The resource of each name: `plural.group`, `plural.version.group`, or the plural alone in the core group.

    Without a version it is the one that the server prefers. Raises UnknownResource, and what the client raises.
    """
    wanted = list(names)
    served = await discovery.resources({part for name in wanted for part in _groups(name)}) if wanted else []
    found: dict[str, Resource] = {}
    for name in wanted:
        matching = [resource for resource in served if name in {resource.name, repr(resource)}]
        best = next((resource for resource in matching if resource.preferred), matching[0] if matching else None)
        if best is None:
            unknown = f" Unknown for now: {', '.join(sorted(discovery.failures))}" if discovery.failures else ""
            raise UnknownResource(
                f"The server serves no resource {name!r}; expected plural.group (or the plural alone in the core group) of something that "
                f"is installed.{unknown}"
            )
        found[name] = best
    return found


def _groups(name: str) -> tuple[str, ...]:
    """Which groups a name may mean: what follows the plural, or the version; the core group for a plural, with or without a version."""
    rest = name.partition(".")[2]
    return rest, rest.partition(".")[2], ""
