"""Forecasts training steps of distributed training.

A scenario is the path of a scenario file or plan.json, or a dict with the same keys. `set` is a dict
of dotted keys and their values, as with --set. Functions return the documents that commands print
with --json, as dicts.

A mistake in the input raises InputError. InputError.diagnostics is a list of dicts with code, file,
line, column, message and hint. Any other failure raises Failure.

A Python process starts one process of the program in this package, which answers all calls. A call
does not block other threads.
"""

import json
import os
from typing import Any, Dict, Iterable, Mapping, Optional, Union

from ._answers import Answer, Rows
from ._errors import Failure, InputError
from ._program import Program
from ._version import __version__

Scenario = Union[str, "os.PathLike[str]", Mapping[str, Any]]
Settings = Mapping[str, Any]
Axes = Mapping[str, Union[str, Iterable[Any]]]

__all__ = ["Answer", "Failure", "InputError", "Rows", "__version__", "compare", "emit", "explain",
           "memory", "plan", "simulate", "sweep"]

_server = Program()


def simulate(scenario: Scenario, set: Settings = {}) -> Answer:
    """Returns the forecast of one step: the document of `stepcast simulate --json`."""
    return Answer(_ask("simulate", scenario, set))


def memory(scenario: Scenario, set: Settings = {}, max_micro_batch: bool = False) -> Rows:
    """Returns the memory for each ZeRO stage: the document of `stepcast memory --json`."""
    return Rows(_ask("memory", scenario, set, max_micro_batch=bool(max_micro_batch)), "stages")


def sweep(scenario: Scenario, vary: Axes, set: Settings = {}) -> Rows:
    """Returns one row for each combination of values: the document of `stepcast sweep --json`.

    `vary` is a dict of keys and values. Values are a list, or a text in the syntax of --vary.
    """
    return Rows(_ask("sweep", scenario, set, vary=_axes(vary)), "rows")


def plan(scenario: Scenario, *, set: Settings = {}, vary: Axes = {},
         emit: Union[str, "os.PathLike[str]"] = "", **options: Any) -> Rows:
    """Returns the best plans: the document of `stepcast plan --json`.

    `options` are the options from --target to --no-sensitivity in `stepcast plan --help`, with
    underscores: target="cost", price=2.5, fix=["training.loss"], fewer_nodes=True, best=3. The best
    plan is written into the folder `emit`. With force=True, it replaces a plan in this folder.
    """
    return Rows(_ask("plan", scenario, set, vary=_axes(vary), folder=os.fsdecode(emit), **options),
                "best")


def compare(a: Scenario, b: Optional[Scenario] = None, set_a: Settings = {},
            set_b: Settings = {}) -> Answer:
    """Compares two plans: returns the document of `stepcast compare --json`."""
    other = {} if b is None else {"other": _scenario(b)}
    return Answer(_ask("compare", a, set_a, other_set=_settings(set_b), **other))


def explain(scenario: Scenario, set: Settings = {}) -> Answer:
    """Explains the time of a step: returns the document of `stepcast explain --json`."""
    return Answer(_ask("explain", scenario, set))


def emit(scenario: Scenario, folder: Union[str, "os.PathLike[str]"], set: Settings = {},
         force: bool = False) -> Answer:
    """Writes the plan into a folder, like `stepcast simulate --emit`, and returns the forecast."""
    return Answer(_ask("emit", scenario, set, folder=os.fsdecode(folder), force=bool(force)))


def _ask(question: str, scenario: Scenario, settings: Settings, **keys: Any) -> Dict[str, Any]:
    return _server.ask({"ask": question, "scenario": _scenario(scenario),
                         "set": _settings(settings), **keys})


def _scenario(scenario: Scenario) -> Union[str, Mapping[str, Any]]:
    if isinstance(scenario, Mapping):
        return dict(scenario)
    return os.fsdecode(scenario)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _settings(settings: Settings) -> Dict[str, str]:
    if not isinstance(settings, Mapping):
        raise TypeError(
            f"settings must be a dict of keys and values, not {type(settings).__name__}")
    return {key: _text(value) for key, value in settings.items()}


def _axes(vary: Axes) -> Dict[str, Union[str, list]]:
    if not isinstance(vary, Mapping):
        raise TypeError(
            f"vary must be a dict of keys and lists of values, not {type(vary).__name__}")
    return {key: values if isinstance(values, str) else [_text(value) for value in values]
            for key, values in vary.items()}
