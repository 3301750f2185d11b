"""suites/README.md: every key of a suite file, generated from the models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from volbench.core.base.text import counted
from volbench.core.records.base import Record
from volbench.core.records.cell import SamplingSpec, ServerSpec, ValidityLimits
from volbench.core.records.dataset import DatasetSpec
from volbench.core.records.forecast import ForecastSpec, Prediction
from volbench.core.records.goals.pricing import PricingSpec
from volbench.core.records.run import ComparisonSpec
from volbench.core.records.steps import STEP_KINDS
from volbench.core.records.steps.kind import StepKind
from volbench.core.records.sweep import Factor, SweepSpec
from volbench.core.suite.model import PINNED_DURABILITY, SuiteFile

_SECTIONS: tuple[tuple[str, type[Record]], ...] = (
    ("engine", ServerSpec),
    ("dataset", DatasetSpec),
    ("sampling", SamplingSpec),
    ("limits", ValidityLimits),
    ("comparison", ComparisonSpec),
    ("forecast", ForecastSpec),
    ("forecast.predictions.N", Prediction),
    ("pricing", PricingSpec),
    ("sweep", SweepSpec),
    ("sweep.factors.KEY", Factor),
)
_HEAD = """# Suites

A suite says what runs on each volume: server, data, steps, number of cells, and how volumes are compared.
`volbench suite docs` generates this page from the program's models; `suite.schema.json` in this directory is for
editors.

```yaml
# yaml-language-server: $schema=suite.schema.json
schema: 2
name: mine
engine:
  config: {innodb_buffer_pool_size: 1G}
dataset: {tables: 8, rows: 1000000}
steps:
  - {kind: oltp, name: read-write, threads: [1, 8, 32], warmup: 30s, duration: 2m}
  - {kind: cold_read}
repeats: 5
volumes:
  gp3: path:/mnt/gp3
  io2: path:/mnt/io2
```

`volbench suite check FILE` checks a file and runs nothing. `volbench plan FILE` shows what would run, how long it
takes and how much space it needs. An unknown key is an error, with file, line and the nearest match.

## Values
- A duration is a number of seconds, or has a unit: `250ms`, `30s`, `5m`, `2h`, `1d`.
- A size is a number of bytes, or has a unit: `64KiB`, `16MiB`, `50GiB` (`K`, `M`, `G`, `T` are binary, as in
  my.cnf; `kB`, `MB`, `GB`, `TB` are decimal).
- A share is a number from 0 to 1, or a percentage: `0.05`, `5%`.

## Single values from the command line: `--set KEY=VALUE`
KEY is the path to the value, with dots. A step is named by its `name`, its number from 0, or its `kind`. VALUE
is YAML; `null` leaves a step out. Repeat the option for more values.
```
--set repeats=8
--set dataset.rows=5000000
--set engine.config.innodb_buffer_pool_size=4G
--set steps.read-write.threads=[1,16,64]
--set steps.0.duration=5m
--set comparison.margin=10%
--set steps.cold_read=null
```

## How steps combine
- A cell copies the data to the volume, starts the server and runs the steps in order, on this one copy. A step
  sees the changes of earlier steps: put reads before writes where that matters.
- A list in `threads` creates one step for each count; reports show each of them.
- `rate` makes the load open-loop: transactions arrive at that rate whether or not the volume keeps up, and
  latency includes the time in the queue. Without `rate`, clients wait for each answer, and a stall hides the
  transactions that would have arrived.
- Steps in `concurrent` run concurrently: they start with the measured time of the load (or `start_after` later).
  Reports show the seconds with and without them separately, as `NAME/during` and `NAME/alone`.
- `restore` loads the dump of the last `dump` step, so put a `dump` before it.
- `fio` measures every combination of its lists, one after the other; each is a row of the report. It writes its
  file in full first: a thin volume answers reads of unwritten blocks without any disk.
- Operations of one size meet a limit of IOPS and one of bytes alike. A *contrast of sizes* tells which it is:
  `size_contrast` of a `fio` step, and of `sampling` for all other steps. It comes after what is measured, writes
  nothing outside of the step's file, and where fio or O_DIRECT is missing, a note says so. A server that runs
  already (`attach`) has none.
- `small_files`, `ddl`, `fio` and `sequential` work in a separate directory or schema and remove it.
- Two steps with the same name get a number at the end: `idle`, `idle-2`.

## Scales
`scales` holds other sizes of a suite. Each one is a list of keys with values, written as for `--set`;
`--set scale=ci` applies those of `ci`. Other `--set` options are applied later and win. `full` is the suite as
written.

```
scales:
  ci:
    repeats: 4
    steps.read-write.duration: 5s
```

## Sweeps
`sweep` varies factors: each volume runs every combination of the design, `repeats` times, in blocks that hold every
combination once in random order. The report says what each factor does. `volbench plan` shows combinations, cells,
and time.

```
sweep:
  design: one_factor
  factors:
    volume.iops: {base: 192, levels: [960]}
    engine.config.innodb_flush_log_at_trx_commit: {base: 1, levels: [2, 0]}
    steps.read-write.threads: {base: 8, levels: [16, 32]}
```

- `volume.OPTION` is an option of the volume's SPEC: a parameter of the profile for an emulated volume, a mount
  option for `nfs:` (`true` and `false` add or omit a word such as `noac`).
- With `one_factor` each level is compared with the base by the test that compares volumes. `full` fits a
  linear model to logarithms: main effects, and interactions of two factors.
"""


def suite_docs() -> str:
    """Return the whole page, as Markdown."""
    return "\n".join([_HEAD, *_sections()]) + "\n"


def _sections() -> Iterator[str]:
    yield "## A suite file\n"
    yield _table(SuiteFile)
    for name, model in _SECTIONS:
        yield f"\n## `{name}`\n"
        yield f"{_summary(model)}\n"
        yield _table(model)
        if name == "engine":
            pinned = ", ".join(f"`{option}={value}`" for option, value in PINNED_DURABILITY.items())
            yield f"\n`config` always begins with {pinned}; the suite's own values come later and win."
    yield "\n## `steps`\n"
    for kind in STEP_KINDS.values():
        yield from _step_section(kind)


def _step_section(kind: StepKind) -> Iterator[str]:
    yield f"### `kind: {kind.name}`\n"
    yield f"{_summary(kind.model)}\n"
    yield _table(kind.model)
    for key, choices in kind.choices.items():
        yield f"\n| {key} | meaning |\n|---|---|"
        yield "\n".join(f"| `{choice}` | {text} |" for choice, text in choices.items())
    yield "\n" + (
        f"The verdict rests on {', '.join(f'`{name}`' for name in kind.primary)}.\n"
        if kind.primary
        else "It has no primary metric, so it decides no verdict.\n"
    )


def _summary(model: type[BaseModel]) -> str:
    return (model.__doc__ or "").strip().split("\n\n")[0]


def _table(model: type[BaseModel]) -> str:
    """Return one line for each key.

    Type, unit and bounds from the JSON Schema, default and description from the model.
    """
    schema = model.model_json_schema()
    node = schema if "properties" in schema else schema["$defs"][model.__name__]
    lines = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for name, field in model.model_fields.items():
        key = field.alias or name
        value = _value(node["properties"][key])
        description = field_meaning(key, field)
        lines.append(
            "| " + " | ".join(map(_cell, (f"`{key}`", value, _default(key, value, field), description))) + " |"
        )
    return "\n".join(lines)


_MEANINGS = {
    "kind": "What the entry is.",
    "flavor": "Which server.",
    "tables": "How many.",
    "timeout": "Longer than this, and the step has failed.",
    "start_timeout": "Longer than this until the server answers, and the cell has failed.",
    "stop_timeout": "Longer than this until the server is down, and the cell has failed.",
    "tool": "The program.",
    "duration": "How long.",
    "schema": "Schema that the tables are made in.",
    "interval": "Time from sample to sample.",
    "missed_samples": "Samples of the machine that were missed in a step.",
    "clock_step_s": "By how much the wall clock may be set during a cell.",
    "confidence": "Of the intervals; 1 less this is the level of the test.",
    "block_size": "Size of one read.",
}
"""Where a model's field says nothing more than its name."""


def field_meaning(key: str, field: FieldInfo) -> str:
    """Return what a key of a suite means."""
    return field.description or _MEANINGS.get(key, "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _default(key: str, value: str, field: FieldInfo) -> str:  # noqa: PLR0911 - one for each kind
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True)
    if key in {name for name, _ in _SECTIONS}:
        return "see below"
    if default is None or default in ("", (), {}):
        return "none"
    if isinstance(default, tuple):
        default = default[0] if len(default) == 1 else list(default)
    if isinstance(default, bool):
        return "`true`" if default else "`false`"
    if value.startswith("duration"):
        return f"`{default:g}s`"
    if value.startswith("size"):
        return f"`{default / 2**20:g}MiB`" if default >= 2**20 else f"`{default / 2**10:g}KiB`"
    if value.startswith("share"):
        return f"`{default:.0%}`"
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


def _value(node: dict[str, Any]) -> str:  # noqa: PLR0911 - one for each kind
    """Return what may stand there, in words."""
    if "$ref" in node or "allOf" in node:
        return "a mapping"
    if "const" in node:
        return f"`{node['const']}`"
    if "enum" in node:
        return ", ".join(f"`{choice}`" for choice in node["enum"])
    if "anyOf" in node:
        return _one_of(node["anyOf"])
    match node.get("type"):
        case "array":
            return f"list of {_plural(node)}"
        case "object":
            return "names and values"
        case "boolean":
            return "`true` or `false`"
        case "string":
            return "text"
        case "integer":
            return f"whole number{_bounds(node)}"
        case _:
            return f"number{_bounds(node)}"


_NOUNS = {"30s": "duration", "64MiB": "size", "5%": "share"}


def _one_of(choices: list[dict[str, Any]]) -> str:
    texts = [choice for choice in choices if choice.get("type") == "string" and "pattern" in choice]
    texts = [choice for choice in texts if choice["examples"][0] in _NOUNS]
    if texts:  # a number with a unit: records.base.Seconds, Bytes, Fraction
        example = texts[0]["examples"][0]
        noun = _NOUNS[example]
        several = any(choice.get("type") == "array" for choice in choices)
        return f"{noun}, such as `{example}`" + (f" or list of {noun}s" if several else "")
    values = [_value(choice) for choice in choices if choice.get("type") != "null"]
    return " or ".join(values)


def _plural(array: dict[str, Any]) -> str:
    """Return what the entries of a list are, in words."""
    if ends := array.get("prefixItems"):
        return f"{counted(len(ends), 'number')}"
    items = array.get("items", {})
    kind = items.get("type")
    if kind == "integer":
        return f"whole numbers{_bounds(items)}"
    if "anyOf" in items:
        noun = _one_of(items["anyOf"]).partition(",")[0]
        return "values" if " or " in noun else f"{noun}s"
    if "$ref" in items:
        return "mappings"
    return "names" if kind == "string" else "steps"


def _bounds(node: dict[str, Any]) -> str:
    low, high = node.get("minimum"), node.get("maximum")
    above = node.get("exclusiveMinimum")
    if low is not None and high is not None:
        return f", {low} to {high}"
    if low is not None:
        return f", {low} or more"
    return f" above {above:g}" if above is not None else ""
