"""Named workloads: prompts, when they arrive, and the settings that make them worth watching."""

from pagedviz.scenarios.branch import BranchRun
from pagedviz.scenarios.change import Change, parse_changes
from pagedviz.scenarios.replay import Stall, replay
from pagedviz.scenarios.run import ScenarioRun
from pagedviz.scenarios.scenario import (
    LookFor,
    Request,
    Scenario,
    load_scenario,
    parse_scenario,
    scenario_names,
)
from pagedviz.scenarios.settings import apply_settings
from pagedviz.scenarios.workload import Workload, load_workload

__all__ = [
    "BranchRun",
    "Change",
    "LookFor",
    "Request",
    "Scenario",
    "ScenarioRun",
    "Stall",
    "Workload",
    "apply_settings",
    "load_scenario",
    "load_workload",
    "parse_changes",
    "parse_scenario",
    "replay",
    "scenario_names",
]
