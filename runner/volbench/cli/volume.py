"""`volbench volume`: profiles, emulated volumes that stay, their faults and counters, and the probe."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated

import typer

from volbench.cli import console, options, volume_shown
from volbench.cli.volume_faults import parse_fault
from volbench.errors import EnvironmentLacks, UsageError
from volbench.placement.capabilities import find_program
from volbench.profile.files import INSTANCES, load_profile, profile_names, whole_profile
from volbench.profile.resolve import resolve
from volbench.profile.spec import parse_volume
from volbench.volume import ownership
from volbench.volume.emulated.control import ask
from volbench.volume.emulated.discovery import (
    DEFAULT_DIRECTORY,
    clear_machine,
    find_volume,
    find_volumes,
    remove_volume,
    stop_volume,
)
from volbench.volume.emulated.volume import EmulatedVolume
from volbench.volume.factory import make_volume
from volbench.volume.probe.fit import check_destination, fitted_profile
from volbench.volume.probe.measurement import check_seconds, measure
from volbench.volume.probe.nearest import nearest_profiles

app = typer.Typer(help="Volume profiles, emulated volumes, and the probe of any volume.", no_args_is_help=True)
Spec = Annotated[str, typer.Argument(metavar="SPEC", help="A volume, such as emulated:ebs-gp2?size=50GiB.")]
Name = Annotated[str, typer.Argument(metavar="NAME|DIR", help="An emulated volume: its name, or its directory.")]
Places = Annotated[
    list[Path], typer.Option("--dir", help="Where else to look for emulated volumes at rest; repeat it.")
]


@app.callback()
def _start() -> None:
    """Volume profiles, emulated volumes, and the probe of any volume."""
    cleared, failures = clear_machine()
    for directory in cleared:
        console.say(f"cleared what a killed process had left attached: {directory} (its bytes are still there)")
    for failure in failures:
        console.say(str(failure))


@app.command("list")
def list_all(places: Places = [], json: options.Json = False) -> None:  # noqa: B006 - typer copies it
    """Show the profiles with their main figures, and the emulated volumes of this machine."""
    resolved = [resolve(name) for name in profile_names()]
    volumes = find_volumes(places)
    if json:
        console.show_json(
            {
                "profiles": [volume_shown.profile_data(profile) for profile in resolved],
                "volumes": [volume.__dict__ for volume in volumes],
            }
        )
        return
    console.out.print("Profiles, with default parameters (`volbench volume show PROFILE` has every figure):")
    for profile in resolved:
        for line in volume_shown.profile_lines(profile):
            console.out.print(line, markup=False)
    console.out.print()
    for line in volume_shown.volume_lines(volumes):
        console.out.print(line, markup=False)


@app.command("show")
def show(
    profile: Annotated[str, typer.Argument(help="A profile's name, or the path of its .yaml file.")],
    json: options.Json = False,
) -> None:
    """Show every figure of a profile: its value, its source, and whether it is assumed."""
    whole = load_profile(profile) if profile == INSTANCES else whole_profile(profile)
    if json:
        console.show_json(whole.model_dump(mode="json", by_alias=True, exclude_unset=True))
        return
    for part in volume_shown.profile_text(whole):
        console.out.print(part)


@app.command("emulate")
def emulate(
    spec: Spec,
    directory: Annotated[
        Path | None, typer.Option("--dir", help=f"On the disk that carries the bytes; else {DEFAULT_DIRECTORY}.")
    ] = None,
    name: Annotated[str, typer.Option("--name", help="The volume's name; else the profile's.")] = "",
) -> None:
    """Bring up an emulated volume that stays until `volume stop` or `volume remove`; bytes that it has are kept."""
    place, profile, given = _emulated(spec)
    root = (directory or place or DEFAULT_DIRECTORY).absolute()
    resolved = resolve(profile, given)
    try:
        ownership.make_private_root(root)
    except OSError as error:
        raise EnvironmentLacks(
            "the directory for an emulated volume's bytes cannot be made",
            where=str(root),
            evidence=f"{type(error).__name__}: {error}",
            next_step="name another with --dir, on a disk with free space",
        ) from error
    volume = EmulatedVolume(resolved, root, name=_volume_name(name or resolved.profile), outlives_us=True)
    data = volume.start()
    for line in volume_shown.emulated_lines(volume, data):
        console.out.print(line, markup=False)


@app.command("stop")
def stop(name: Name, places: Places = []) -> None:  # noqa: B006 - typer copies it
    """Take an emulated volume down and keep its bytes; `volume emulate` with the same name brings it up again."""
    volume = find_volume(name, places)
    stop_volume(volume)
    console.out.print(f"{volume.name} is down; its bytes are in {volume.directory / 'backing'}", markup=False)


@app.command("remove")
def remove(name: Name, places: Places = []) -> None:  # noqa: B006 - typer copies it
    """Take an emulated volume down and erase its bytes."""
    volume = find_volume(name, places)
    remove_volume(volume)
    console.out.print(f"{volume.name} is gone", markup=False)


@app.command("fault")
def fault(
    name: Name,
    kind: Annotated[
        str,
        typer.Argument(
            help="stall, error, detach, attach, power-cut, power-on, slow, neighbour, first-touch, credits, clear."
        ),
    ],
    lasting: Annotated[str, typer.Option("--for", help="stall: how long nothing completes, such as 3s.")] = "",
    every: Annotated[str, typer.Option("--every", help="error: every n-th operation fails.")] = "",
    ops: Annotated[str, typer.Option("--ops", help="error: of these kinds, such as read,write.")] = "",
    keep: Annotated[str, typer.Option("--keep", help="power-cut: share of unsynced writes that survive.")] = "",
    factor: Annotated[str, typer.Option("--factor", help="slow, neighbour: latency times this.")] = "",
    ramp: Annotated[str, typer.Option("--ramp", help="slow: until the factor is reached, such as 1m.")] = "",
    iops: Annotated[str, typer.Option("--iops", help="neighbour: IOPS that somebody else uses.")] = "",
    rate: Annotated[str, typer.Option("--rate", help="neighbour: bytes per second, such as 50MiB.")] = "",
    scope: Annotated[str, typer.Option("--scope", help="neighbour: on volume, cluster or instance.")] = "",
    fill: Annotated[str, typer.Option("--fill", help="credits: how full the buckets are, such as 10%.")] = "",
    places: Places = [],  # noqa: B006 - typer copies it
) -> None:
    """Inject a trouble into an emulated volume in use; `clear` takes back what can be taken back."""
    given = {
        "--for": lasting, "--every": every, "--ops": ops, "--keep": keep, "--factor": factor, "--ramp": ramp,
        "--iops": iops, "--rate": rate, "--scope": scope, "--fill": fill,
    }  # fmt: skip
    request = parse_fault(kind, {option: text for option, text in given.items() if text})
    volume = find_volume(name, places)
    lost = ask(volume.directory, {"do": "fault", "fault": request})["lost"]
    console.out.print(f"{volume.name}: {kind} is in force", markup=False)
    if kind == "power-cut":
        console.out.print(f"lost: {lost['writes']} writes, {lost['bytes']} bytes that were not durable")
        console.out.print(
            f"the volume recovers with: volbench volume stop {volume.name}, then `volume emulate` as before",
            markup=False,
        )


@app.command("counters")
def counters(name: Name, json: options.Json = False, places: Places = []) -> None:  # noqa: B006
    """Show what an emulated volume has counted since it was started, and how true the emulation was."""
    volume = find_volume(name, places)
    counted = ask(volume.directory, {"do": "counters"})["counters"]
    if json:
        console.show_json(counted)
        return
    for part in volume_shown.counters_tables(counted):
        console.out.print(part)


@app.command("adopt")
def adopt(directory: Annotated[Path, typer.Argument(help="An empty directory.")]) -> None:
    """Mark an empty directory as volbench's own, to be written to and erased by it."""
    if not directory.is_dir():
        raise UsageError(
            f"{directory} is not a directory",
            where="volume adopt",
            next_step=f"mkdir -p {directory}, or name another",
        )
    ownership.claim(directory, purpose="adopted")
    console.out.print(
        f"{directory} is volbench's own from now on: whatever is put there may be erased", markup=False
    )


@app.command("probe")
def probe(
    spec: Annotated[
        str, typer.Argument(metavar="SPEC", help="path:/mnt/x, emulated:ebs-gp3, nfs:server:/export ...")
    ],
    seconds: Annotated[float, typer.Option("--seconds", help="How long to measure, about.")] = 60.0,
    fit: Annotated[Path | None, typer.Option("--fit", help="Write a profile that emulates this volume.")] = None,
    json: options.Json = False,
) -> None:
    """Measure a volume with fio, show it beside the nearest profiles, and fit a profile to it."""
    check_seconds(seconds)
    if fit is not None:
        check_destination(fit)
    volume = make_volume(parse_volume(spec, name="probe"))
    fio = find_program("fio")
    if not fio.present:
        raise EnvironmentLacks("a probe needs fio", where="volume probe", evidence=fio.evidence, next_step=fio.mend)
    with volume as opened:
        measured = measure(opened, fio=fio.evidence, seconds=seconds, watch=console.say)
    nearest = [] if measured.held else nearest_profiles(measured.figures)
    if json:
        console.show_json(volume_shown.probe_data(measured, nearest))
    else:
        for part in volume_shown.probe_parts(measured, nearest):
            console.out.print(part)
    if fit is None:
        return
    fit.write_text(
        fitted_profile(measured, fit.stem, on=datetime.datetime.now(datetime.UTC).date()), encoding="utf-8"
    )
    if not json:
        console.out.print(f"profile: {fit}; emulate it with --volume NAME=emulated:{fit}", markup=False)


def _emulated(spec: str) -> tuple[Path | None, str, dict[str, str]]:
    """Directory, profile and parameters of an emulated volume's SPEC. Raises UsageError for another kind."""
    parsed = parse_volume(spec, name="v")
    if parsed.kind != "emulated":
        raise UsageError(
            f"a {parsed.kind} volume is not an emulated one",
            where=f"volume emulate {spec}",
            next_step="for instance emulated:ebs-gp3?size=50GiB",
        )
    given = dict(parsed.options)
    place = given.pop("dir", None)
    return (Path(place) if place else None), parsed.place, given


def _volume_name(name: str) -> str:
    """A name that is one part of a path. Raises UsageError."""
    return parse_volume("path:/", name=name).name
