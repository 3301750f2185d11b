"""Scores of the injections: truth by counters that volbench does not make, findings made anew, and their page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise, starmap
from pathlib import Path
from typing import Any

from causes.observed import Run, finding_of
from causes.scoring import is_accusation, is_acquittal, is_named, is_right, is_storage, is_wrong_and_sure
from vm.injections import conditions
from volbench.results.report.build import build_report
from volbench.results.store.run_directory import RunDirectory

REACHED_MIN, REACHED_MAX = 0.75, 1.3
"""A limit acted when operations came at this share of it, in the median second. Above 1: the second's edges, and of
committing loads 14 to 26 % that the guest counts and QEMU's throttle does not, for a reason that is not known.
Without a limit these loads make 500 to 1,000. The bound was 1.15 before the first runs."""
LATENCY_MIN = 0.9
SECTOR_BYTES = 512
_COUNTED = {
    "iops": ("reads", "writes"),
    "read_iops": ("reads",),
    "write_iops": ("writes",),
    "bytes": ("read_sectors", "write_sectors"),
    "read_bytes": ("read_sectors",),
    "write_bytes": ("write_sectors",),
}
"""What a limit of each kind counts of a disk."""
VERDICTS = ("right", "open", "wrong", "wrong and sure", "accused")
FIRST = """
## First readings

What was named when a step was read the first time, by rules that no row of its generation had changed, of the steps
that count and whose first reading is known. *open* names nothing, or one of two. *accused*: a calm step of which a
cause is named.

| generation | written down | steps | right | open | wrong | wrong and sure | accused |
|---|---|--:|--:|--:|--:|--:|--:|"""
QUIET_MS_MAX = 100.0
"""A write of a calm step takes less at the disk: emulated processors answer late."""
HEAD = """# Causes made in a real kernel

What `explain` names while QEMU's throttle groups, device mapper, control groups of version 2, netem and other
programs act on MariaDB 11.8 in the virtual machine of `make lab-vm` ({circumstances}).
[injections.yaml](../../../tests/lab/vm/injections.yaml) has each injection with its truth, written down before the
first run; two were widened later (`frozen`, `periodic-slow-commits`), and say so.
`make lab-vm LAB_VM="inject --out DIR"` runs what has no results yet, `LAB_VM="pack --out DIR"` puts its runs into
the sample tests/fixtures/real-kernels/runs, `LAB_VM=scores` writes this page from the sample with today's rules.
Where an injection was run again, the last run counts.
Rules were mended on rows of all generations after they were scored, of the fourth on `weight-neighbour-commits`,
`calm-other-disk-waits`, `calm-reads-slow-writes` and `delay-grows-commits`: what is named today shows that they are
mended, and is no estimate for steps that nobody has seen. First readings are.

A step counts where the kernel's own counters show that its cause acted (`disk`, `io.max`, `cpu.stat`,
`memory.pressure`; for netem and flush delays, that they were set). *named*: one cause is named, not one of two.
*right*: of the named, the first is what was made. *wrong and sure*: wrong with a confidence of 0.9 and more.
*acquitted*:
storage was made, and nothing that has to do with storage is named. Steps of {measured_s} s, one of each: the shares
are of few steps, of mechanisms that others made and of conditions that we chose.

| family | steps | count | named | right | wrong and sure | acquitted |
|---|--:|--:|--:|--:|--:|--:|
"""


@dataclass(frozen=True, kw_only=True)
class Proven:
    """What the kernel's counters showed of one injection, and what was missing for it to count.

    `first` is what was named when it was read the first time, by rules that had not been changed on it; empty where
    that is not known.
    """

    name: str
    measured: Mapping[str, float]
    missing: tuple[str, ...]
    failure: str
    first: str = ""

    def as_record(self) -> dict[str, Any]:
        """Return what a file holds of it."""
        return {**asdict(self), "missing": list(self.missing)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Proven:
        """Return it as `as_record` wrote it."""
        return cls(**{**record, "missing": tuple(record["missing"])})


def read_run(directory: RunDirectory, proven: Iterable[Proven]) -> Iterator[tuple[Run, Proven]]:
    """Yield each injection of a run, explained with the rules as they are, and what was proven of it."""
    report = build_report(directory)
    for item in proven:
        condition = conditions()["injections"][item.name]
        rows = [row.model_dump(mode="json") for row in report.findings if _is_of(row.step, item.name)]
        cells = [cell for cell in report.cells if _is_of(cell.step, item.name)]
        run = Run(
            condition=item.name,
            family=condition["family"],
            shape="steady",
            number=0,
            lab_seed=0,
            truth=(condition["truth"],),
            accepted=tuple(condition.get("accepted", ())),
            drawn={},
            place="",
            wall_s=0.0,
            failure=item.failure,
            missing=item.missing,
            onset_s=None,
            cap_of="",
            measured=item.measured,
            findings=tuple(map(finding_of, rows)),
            invalid_reasons=tuple(reason for cell in cells for reason in cell.invalid_reasons),
        )
        yield run, item


def in_order(read: Iterable[tuple[Run, Proven]]) -> list[tuple[Run, Proven]]:
    """Return the last run of each injection, in their order in injections.yaml."""
    by_name = {proven.name: (run, proven) for run, proven in read}
    return [by_name[name] for name in conditions()["injections"] if name in by_name]


def run_directory_of(entry: Path) -> RunDirectory:
    """Return the run below a directory of `inject`."""
    return RunDirectory.open(next(path.parent for path in (entry / "results").glob("*/run.json")))


def proven_of(entry: Path) -> tuple[str, list[Proven]]:
    """Return the kernel of a directory of `inject`, and what its counters show of each injection."""
    (result,) = run_directory_of(entry).results()
    zero_s = result.zero_monotonic_ns / 1e9
    windows = {step.step.partition("/")[0]: step.window_s for step in result.steps if step.window_s}
    lines = [json.loads(line) for line in (entry / "counters.jsonl").read_text().splitlines()]
    disks = json.loads((entry / "disks.json").read_text())
    proven = []
    for record in json.loads((entry / "injections.json").read_text()):
        window = windows.get(record["name"])
        samples = [line for line in lines if window and window[0] <= line["t_s"] - zero_s <= window[1]]
        proof = dict(conditions()["injections"][record["name"]]["proof"])
        proof |= {"disk": disks.get(proof["disk"], proof["disk"])} if "disk" in proof else {}
        measured, missing = prove(proof, samples) if len(samples) > 2 else ({}, ["no counters"])
        failure = "; ".join(record["errors"])
        proven.append(Proven(name=record["name"], measured=measured, missing=tuple(missing), failure=failure))
    return json.loads((entry / "campaign.json").read_text())["kernel"], proven


def page(read: Sequence[tuple[Run, Proven]], kernels: str) -> str:
    """The table by family, what was said at the first reading, and one of all steps."""
    runs = [run for run, _ in read]
    families: dict[str, list[Run]] = {}
    for run in runs:
        families.setdefault(run.family, []).append(run)
    rows = [_row(family, chosen) for family, chosen in sorted(families.items())]
    rows.append(_row("**all**", runs))
    head = HEAD.format(circumstances=f"kernel {kernels}", measured_s=conditions()["measured_s"])
    steps = ["", "## Steps", "", "| step | made | counters | named | when first read |", "|---|---|---|---|---|"]
    rows += [FIRST, *first_readings([(run.condition, proven.first) for run, proven in read if run.injected])]
    return head + "\n".join([*rows, *steps, *starmap(_step, read)]) + "\n"


def first_readings(first: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield a row for each generation of injections.yaml, and one of all.

    Args:
        first: names of injections that count, and what was said of each at its first reading; empty: not known.
    """
    verdicts = {name: said.partition(":")[0] for name, said in first if said}
    names, generations = list(conditions()["injections"]), conditions()["generations"]
    begins = [names.index(generation["from"]) for generation in generations]
    for generation, begin, end in zip(generations, begins, [*begins[1:], len(names)], strict=True):
        known = [verdicts[name] for name in names[begin:end] if name in verdicts]
        yield _counts(generation["name"], generation.get("written", ""), known)
    yield _counts("**all**", "", list(verdicts.values()))


def _counts(name: str, written: str, verdicts: Sequence[str]) -> str:
    counted = " | ".join(str(verdicts.count(verdict)) for verdict in VERDICTS)
    return f"| {name} | {written} | {len(verdicts)} | {counted} |"


def _row(name: str, runs: Sequence[Run]) -> str:
    count = [run for run in runs if run.injected]
    named, storage = [run for run in count if is_named(run)], [run for run in count if is_storage(run)]
    shares = (
        (len(named), len(count)),
        (sum(map(is_right, named)), len(named)),
        (sum(map(is_wrong_and_sure, count)), len(count)),
        (sum(map(is_acquittal, storage)), len(storage)),
    )
    return (
        f"| {name} | {len(runs)} | {len(count)} | " + " | ".join(f"{piece} of {of}" for piece, of in shares) + " |"
    )


def verdict_of(run: Run) -> str:
    """Return one of VERDICTS, and what was named."""
    if run.truth == ("none",):
        verdict = "accused" if is_accusation(run) else "right"
    elif not is_named(run):
        verdict = "open"
    elif is_right(run):
        verdict = "right"
    else:
        verdict = "wrong and sure" if is_wrong_and_sure(run) else "wrong"
    return f"{verdict}: {_named(run)}"


def _named(run: Run) -> str:
    named = ", ".join(f"{finding.cause} {finding.confidence or 0:.2f}" for finding in run.findings[:3]) or "nothing"
    return named if not run.findings or is_named(run) else f"{named} (one of two)"


def _step(run: Run, proven: Proven) -> str:
    text = ", ".join(f"{name} {value:.3g}" for name, value in run.measured.items())
    if not run.injected:
        text = f"**not counted**: {run.failure or '; '.join(run.missing)} ({text})"
    named = verdict_of(run) if run.injected else f"–: {_named(run)}"
    reasons = f"; invalid: {'; '.join(run.invalid_reasons)}" if run.invalid_reasons else ""
    made, first = " or ".join(run.truth[0].split("|")), proven.first or "–"
    return f"| {run.condition} | {made} | {text} | {named}{reasons} | {first} |"


def _is_of(step: str | None, name: str) -> bool:
    return (step or "").partition("/")[0] == name


def prove(proof: Mapping[str, Any], samples: Sequence[Mapping[str, float]]) -> tuple[dict[str, float], list[str]]:
    """What the counters show of one step, and what is missing for it to count.

    Args:
        proof: of injections.yaml, with the kernel's name of the disk.
        samples: counters of each second, `t_s` among them.
    """
    return _PROOFS[proof["of"]](proof, samples)


def rates(samples: Sequence[Mapping[str, float]], *names: str) -> list[float]:
    """The growth of the sum of counters a second, from sample to sample."""
    return [sum(b[name] - a[name] for name in names) / (b["t_s"] - a["t_s"]) for a, b in pairwise(samples)]


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2] if values else 0.0


def _limit(proof: Mapping[str, Any], samples: Sequence[Mapping[str, float]]) -> tuple[dict[str, float], list[str]]:
    """Operations or bytes came at the limit that was set, in the median second."""
    disk = f"disk.{proof['disk']}"
    kind = next(item for item in _COUNTED if item in proof)
    counted = [f"{disk}.{name}" for name in _COUNTED[kind]]
    observed = rates(samples, *counted)[int(len(samples) * proof.get("from", 0.0)) :]
    level = _median(observed) * (SECTOR_BYTES if kind.endswith("bytes") else 1)
    share = level / proof[kind]
    missing = [] if REACHED_MIN <= share <= REACHED_MAX else [f"{share:.0%} of the limit"]
    return {f"{kind} of {proof[kind]:,}": level}, missing


def _latency(
    proof: Mapping[str, Any], samples: Sequence[Mapping[str, float]]
) -> tuple[dict[str, float], list[str]]:
    kind = "read" if "read_ms" in proof else "write"
    disk = f"disk.{proof['disk']}"
    count = samples[-1][f"{disk}.{kind}s"] - samples[0][f"{disk}.{kind}s"]
    time_ms = samples[-1][f"{disk}.{kind}_ms"] - samples[0][f"{disk}.{kind}_ms"]
    mean_ms = time_ms / count if count else 0.0
    least = proof[f"{kind}_ms"] * LATENCY_MIN
    return {f"{kind} ms": mean_ms}, [] if mean_ms >= least else [f"a {kind} took {mean_ms:.1f} ms"]


def _still(proof: Mapping[str, Any], samples: Sequence[Mapping[str, float]]) -> tuple[dict[str, float], list[str]]:
    """Nothing ended on the disk for so many seconds."""
    disk = f"disk.{proof['disk']}"
    seconds = float(sum(rate == 0 for rate in rates(samples, f"{disk}.reads", f"{disk}.writes")))
    return {"still s": seconds}, [] if seconds >= proof["seconds"] else [f"still for {seconds:.0f} s"]


def _slow(proof: Mapping[str, Any], samples: Sequence[Mapping[str, float]]) -> tuple[dict[str, float], list[str]]:
    """In so many seconds a write took so long at the disk."""
    disk = f"disk.{proof['disk']}"
    counts, times_ms = rates(samples, f"{disk}.writes"), rates(samples, f"{disk}.write_ms")
    slow = [time_ms >= proof["write_ms"] * count > 0 for count, time_ms in zip(counts, times_ms, strict=True)]
    seconds = float(sum(slow))
    return {"slow s": seconds}, [] if seconds >= proof["seconds"] else [f"slow for {seconds:.0f} s"]


def _foreign(
    proof: Mapping[str, Any], samples: Sequence[Mapping[str, float]]
) -> tuple[dict[str, float], list[str]]:
    """The disk read (or wrote) so many operations or bytes more than the service's own control group did.

    The journal of the service's own writes is not in its group: 6 to 8 of 16 to 50 writes a second, where measured.
    """
    kind, unit = proof.get("kind", "read"), "bytes" if "bytes" in proof else "iops"
    counted, size = (f"{kind}_sectors", SECTOR_BYTES) if unit == "bytes" else (f"{kind}s", 1)
    ending = f".{kind[0]}{'bytes' if unit == 'bytes' else 'ios'}"
    own = [
        name for name in samples[-1] if name.startswith("group.") and name.endswith(ending) and name in samples[0]
    ]
    all_of_disk = _median(rates(samples, f"disk.{proof['disk']}.{counted}")) * size
    foreign = all_of_disk - _median(rates(samples, *own))
    name = f"foreign {kind}s/s" if unit == "iops" else f"foreign {kind} bytes/s"
    return {name: foreign}, [] if foreign >= proof[unit] else [f"{foreign:.0f} {name}"]


def _counter(
    proof: Mapping[str, Any], samples: Sequence[Mapping[str, float]]
) -> tuple[dict[str, float], list[str]]:
    if proof["name"] not in samples[0]:
        return {}, [f"{proof['name']} was not counted"]
    grown = samples[-1][proof["name"]] - samples[0][proof["name"]]
    is_enough = proof["least"] <= grown <= proof.get("most", grown)
    return {proof["name"]: grown}, [] if is_enough else [f"{proof['name']} grew by {grown:g}"]


def _quiet(proof: Mapping[str, Any], samples: Sequence[Mapping[str, float]]) -> tuple[dict[str, float], list[str]]:
    measured, _none = _latency({**proof, "write_ms": 0.0}, samples)
    slow = measured["write ms"] > QUIET_MS_MAX
    return measured, [f"a write took {measured['write ms']:.0f} ms"] if slow else []


_PROOFS = {
    "limit": _limit,
    "latency": _latency,
    "still": _still,
    "slow": _slow,
    "foreign": _foreign,
    "counter": _counter,
    "quiet": _quiet,
    "set": lambda *_: ({}, []),
}
