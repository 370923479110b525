"""Lists all scenarios."""

from parity.runs import Scenario
from parity.scenarios import background, basics, surroundings

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario for part in (basics, background, surroundings) for scenario in part.SCENARIOS
}
"""By their names."""
