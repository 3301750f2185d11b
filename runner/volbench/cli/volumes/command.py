"""`volbench volume`: profiles, emulated volumes that stay, their faults and counters, and the probe."""

from __future__ import annotations

import contextlib
import datetime
from pathlib import Path
from typing import Annotated

import typer

from volbench.cli import console, options
from volbench.cli.tables import show_rows
from volbench.cli.volumes import text as volume_text
from volbench.cli.volumes.faults import parse_fault
from volbench.core.base import ownership
from volbench.core.profile.files import INSTANCES, load_profile, profile_names, whole_profile
from volbench.core.profile.layout import require_one_volume
from volbench.core.profile.resolve import resolve
from volbench.core.profile.spec import parse_volume
from volbench.errors import MissingPrerequisite, UsageError
from volbench.machine.placement.capabilities import find_program
from volbench.machine.volume.emulated.control import ask
from volbench.machine.volume.emulated.discovery import (
    DEFAULT_DIRECTORY,
    clear_machine,
    find_volume,
    find_volumes,
    remove_volume,
    stop_volume,
)
from volbench.machine.volume.emulated.volume import EmulatedVolume
from volbench.machine.volume.factory import make_volume
from volbench.machine.volume.probe.fit import check_destination, fitted_profile
from volbench.machine.volume.probe.measurement import check_seconds, measure
from volbench.machine.volume.probe.nearest import nearest_profiles
from volbench.results.store.files import write_atomically

app = typer.Typer(help="Volume profiles, emulated volumes, and the probe of any volume.", no_args_is_help=True)
Spec = Annotated[str, typer.Argument(metavar="SPEC", help="A volume, such as emulated:ebs-gp2?size=50GiB.")]
Name = Annotated[str, typer.Argument(metavar="NAME|DIR", help="An emulated volume: its name or its directory.")]
Directories = Annotated[
    list[Path], typer.Option("--dir", help="A directory with emulated volumes, searched first; may be repeated.")
]


@app.callback()
def _start() -> None:
    """Volume profiles, emulated volumes, and the probe of any volume."""
    cleared, failures = clear_machine()
    for directory in cleared:
        console.say(f"detached a volume that a killed process left attached: {directory} (its data is kept)")
    for failure in failures:
        console.say(str(failure))


@app.command("list")
def list_profiles_and_volumes(
    directories: Directories = [],
    output: options.Output = options.OutputFormat.TABLE,
    json: options.Json = False,
) -> None:
    """Show the profiles with their main figures, and the emulated volumes of this machine."""
    resolved = [resolve(name) for name in profile_names()]
    volumes = find_volumes(directories)
    if json or output != options.OutputFormat.TABLE:
        data = {
            "profiles": [volume_text.profile_data(profile) for profile in resolved],
            "volumes": [volume.__dict__ for volume in volumes],
        }
        rows = [*map(volume_text.profile_row, resolved), *map(volume_text.volume_row, volumes)]
        show_rows(volume_text.COLUMNS, rows, options.OutputFormat.JSON if json else output, data=data)
        return
    console.out.print("Profiles, with default parameters (`volbench volume show PROFILE` has every figure):")
    for profile in resolved:
        for line in volume_text.profile_lines(profile):
            console.out.print(line, markup=False)
    console.out.print()
    for line in volume_text.volume_lines(volumes):
        console.out.print(line, markup=False)


@app.command("show")
def show(
    profile: Annotated[str, typer.Argument(help="A profile's name, or the path of its .yaml file.")],
    json: options.Json = False,
) -> None:
    """Show every figure of a profile: value, source, and whether it is assumed."""
    full_profile = load_profile(profile) if profile == INSTANCES else whole_profile(profile)
    if json:
        console.show_json(full_profile.model_dump(mode="json", by_alias=True, exclude_unset=True))
        return
    for line in volume_text.profile_text(full_profile):
        console.out.print(line)


@app.command("emulate")
def emulate(
    spec: Spec,
    directory: Annotated[
        Path | None, typer.Option("--dir", help=f"Directory for the volume's data (default: {DEFAULT_DIRECTORY}).")
    ] = None,
    name: Annotated[str, typer.Option("--name", help="The volume's name (default: the profile's).")] = "",
) -> None:
    """Start an emulated volume that stays until `volume stop` or `volume remove`; existing data is kept."""
    spec_directory, profile, parameters = _parse_emulated(spec)
    root = (directory or spec_directory or DEFAULT_DIRECTORY).absolute()
    resolved = resolve(profile, parameters)
    try:
        made_root = ownership.make_private_root(root)
    except OSError as error:
        raise MissingPrerequisite(
            "the directory for an emulated volume cannot be created",
            where=str(root),
            evidence=f"{type(error).__name__}: {error}",
            next_step="choose another directory with --dir, on a disk with free space",
        ) from error
    volume = EmulatedVolume(resolved, root, name=_volume_name(name or resolved.profile), outlives_us=True)
    try:
        data = volume.start()
    except BaseException:
        if made_root:
            with contextlib.suppress(OSError):  # it holds the data of an earlier start
                root.rmdir()
        raise
    for line in volume_text.emulated_lines(volume, data):
        console.out.print(line, markup=False)


@app.command("stop")
def stop(name: Name, directories: Directories = []) -> None:
    """Stop an emulated volume and keep its data; `volume emulate` with the same name starts it again."""
    volume = find_volume(name, directories)
    stop_volume(volume)
    console.out.print(f"{volume.name} is stopped; its data is in {volume.directory / 'backing'}", markup=False)


@app.command("remove")
def remove(name: Name, directories: Directories = []) -> None:
    """Stop an emulated volume and erase its data."""
    volume = find_volume(name, directories)
    remove_volume(volume)
    console.out.print(f"{volume.name} is removed", markup=False)


@app.command("fault")
def fault(
    name: Name,
    kind: Annotated[
        str,
        typer.Argument(
            help="stall, error, detach, attach, power-cut, power-on, slow, neighbour, first-touch, credits, clear."
        ),
    ],
    stall_duration: Annotated[
        str, typer.Option("--for", help="stall: how long nothing completes, such as 3s.")
    ] = "",
    every: Annotated[str, typer.Option("--every", help="error: every n-th operation fails.")] = "",
    ops: Annotated[str, typer.Option("--ops", help="error: of these kinds, such as read,write.")] = "",
    keep: Annotated[str, typer.Option("--keep", help="power-cut: share of unsynced writes that survive.")] = "",
    factor: Annotated[str, typer.Option("--factor", help="slow, neighbour: latency times this.")] = "",
    ramp: Annotated[str, typer.Option("--ramp", help="slow: until the factor is reached, such as 1m.")] = "",
    iops: Annotated[str, typer.Option("--iops", help="neighbour: IOPS that somebody else uses.")] = "",
    rate: Annotated[str, typer.Option("--rate", help="neighbour: bytes per second, such as 50MiB.")] = "",
    scope: Annotated[str, typer.Option("--scope", help="neighbour: on volume, cluster or instance.")] = "",
    fill: Annotated[str, typer.Option("--fill", help="credits: how full the buckets are, such as 10%.")] = "",
    directories: Directories = [],
) -> None:
    """Inject a fault into a running emulated volume; `clear` reverts faults that can be reverted."""
    option_texts = {
        "--for": stall_duration,
        "--every": every,
        "--ops": ops,
        "--keep": keep,
        "--factor": factor,
        "--ramp": ramp,
        "--iops": iops,
        "--rate": rate,
        "--scope": scope,
        "--fill": fill,
    }
    request = parse_fault(kind, {option: text for option, text in option_texts.items() if text})
    volume = find_volume(name, directories)
    lost = ask(volume.directory, {"do": "fault", "fault": request})["lost"]
    console.out.print(f"{volume.name}: {kind} is active", markup=False)
    if kind == "power-cut":
        console.out.print(f"lost: {lost['writes']} writes, {lost['bytes']} bytes that were not durable")
        console.out.print(
            f"recover with: volbench volume stop {volume.name}, then `volume emulate` as before",
            markup=False,
        )


@app.command("counters")
def counters(name: Name, json: options.Json = False, directories: Directories = []) -> None:
    """Show the counters of an emulated volume since its start, and the fidelity of the emulation."""
    volume = find_volume(name, directories)
    counted = ask(volume.directory, {"do": "counters"})["counters"]
    if json:
        console.show_json(counted)
        return
    for line in volume_text.counters_tables(counted):
        console.out.print(line)


@app.command("adopt")
def adopt(directory: Annotated[Path, typer.Argument(help="An empty directory.")]) -> None:
    """Mark an empty directory as volbench's own, so that volbench may write to and erase it."""
    if not directory.is_dir():
        raise UsageError(
            f"{directory} is not a directory",
            where="volume adopt",
            next_step=f"mkdir -p {directory}, or choose another directory",
        )
    ownership.claim(directory, purpose="adopted")
    console.out.print(f"{directory} now belongs to volbench: volbench may erase anything in it", markup=False)


@app.command("probe")
def probe(
    spec: Annotated[
        str, typer.Argument(metavar="SPEC", help="path:/mnt/x, emulated:ebs-gp3, nfs:server:/export ...")
    ],
    seconds: Annotated[float, typer.Option("--seconds", help="About how long to measure.")] = 60.0,
    fit: Annotated[Path | None, typer.Option("--fit", help="Write a profile that emulates this volume.")] = None,
    json: options.Json = False,
) -> None:
    """Measure a volume with fio, show the nearest profiles, and fit a profile to the measurement."""
    check_seconds(seconds)
    if fit is not None:
        check_destination(fit)
    parsed = parse_volume(spec, name="probe")
    require_one_volume(parsed, where=f"volume probe {spec}")
    volume = make_volume(parsed)
    fio = find_program("fio")
    if not fio.present:
        raise MissingPrerequisite(
            "a probe needs fio", where="volume probe", evidence=fio.evidence, next_step=fio.remedy
        )
    with volume as open_volume:
        measured = measure(open_volume, fio=fio.evidence, seconds=seconds, watch=console.say)
    nearest = [] if measured.delayed else nearest_profiles(measured.figures)
    if json:
        console.show_json(volume_text.probe_data(measured, nearest))
    else:
        for line in volume_text.probe_parts(measured, nearest):
            console.out.print(line)
    if fit is None:
        return
    write_atomically(fit, fitted_profile(measured, fit.stem, on=datetime.datetime.now(datetime.UTC).date()))
    if not json:
        console.out.print(f"profile: {fit}; emulate it with --volume NAME=emulated:{fit}", markup=False)


def _parse_emulated(spec: str) -> tuple[Path | None, str, dict[str, str]]:
    """Return directory, profile and parameters of an emulated volume's SPEC. Raises UsageError for another kind."""
    parsed = parse_volume(spec, name="v")
    require_one_volume(parsed, where=f"volume emulate {spec}")
    if parsed.kind != "emulated":
        raise UsageError(
            f"a {parsed.kind} volume is not emulated",
            where=f"volume emulate {spec}",
            next_step="for example emulated:ebs-gp3?size=50GiB",
        )
    parameters = dict(parsed.options)
    directory = parameters.pop("dir", None)
    return (Path(directory) if directory else None), parsed.location, parameters


def _volume_name(name: str) -> str:
    """Return a name that is a single path component. Raises UsageError."""
    return parse_volume("path:/mnt", name=name).name
