"""The fuzzer by hand: campaigns, one input again, the smallest input of each failure.

PYTHONPATH=runner:tests/support python -m fuzz [--structured] [--executions N] [--seed N] [--reader NAME] ...
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fuzzed import READERS
from fuzzed.reader import Reader
from fuzzing import (
    CHUNK,
    PACKAGE,
    Outcome,
    Place,
    campaign,
    damaged,
    end_hang,
    execute,
    place_of,
    row_of,
    run_numbers,
    scratch_directory,
)
from lines_reached import Lines, lines_of_package


def minimised(reader: Reader, data: bytes, directory: Place, scratch: Path, *, tries: int = 400) -> bytes:
    """A smaller input that fails at the same place: pieces are left out, halves first."""
    if directory.exception == "TooLong":
        return data
    size = max(1, len(data) // 2)
    while size and tries > 0:
        at = 0
        while at < len(data) and tries > 0:
            shorter = data[:at] + data[at + size :]
            tries -= 1
            error = execute(reader, shorter, scratch)
            if error is not None and place_of(reader, error) == directory:
                data = shorter
            else:
                at += size
        size //= 2
    return data


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def report(outcome: Outcome) -> Iterator[str]:
    """Lines for a person."""
    total = sum(outcome.executions.values())
    yield f"{total:,} executions, {sum(outcome.failures.values()):,} failures at {len(outcome.failures)} places"
    for location, count in sorted(outcome.failures.items(), key=lambda pair: -pair[1]):
        yield f"{count:7} {location.reader}: {location.exception} at {location.line}"
        yield f"        {outcome.words[location]!r}"[:400]


def main(arguments: Sequence[str]) -> int:
    """Run it by hand."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--executions", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0, help="a campaign of another seed has other inputs")
    parser.add_argument("--reader", action="append")
    parser.add_argument("--structured", action="store_true", help="values within their types, and whole commands")
    parser.add_argument("--number", type=int, help="execute one input of --reader again, after those of its chunk")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="write the smallest input of each failure here")
    parser.add_argument("--state", type=Path, help="keep what was done here, and go on from it")
    parser.add_argument("--costs", action="store_true", help="show milliseconds of CPU by reader")
    parser.add_argument("--seconds", type=float, help="end after so long, whatever was done by then")
    args = parser.parse_args(arguments)
    if args.number is not None:
        return repeat(args.reader[0], args.number)
    if args.reader:
        readers: Sequence[Reader] = [row_of(name)[0] for name in args.reader]
    else:
        readers = structured_rows() if args.structured else READERS
    began = time.monotonic()
    outcome = campaign(
        args.executions,
        readers,
        processes=args.processes,
        seconds=args.seconds,
        seed=args.seed,
        state=args.state,
        progress=_print,
    )
    _print("\n".join(report(outcome)))
    _print(f"{time.monotonic() - began:.0f} s, {sum(outcome.cpu_s.values()):.0f} s of CPU")
    for line in coverage(outcome.lines):
        _print(line)
    if args.costs:
        for name, count in sorted(outcome.executions.items(), key=lambda pair: -outcome.cpu_s[pair[0]]):
            _print(f"{outcome.cpu_s[name] / count * 1e3:8.2f} ms x {count:7} {name}")
    if args.keep:
        keep(outcome, args.keep)
    return 1 if outcome.failures else 0


def structured_rows() -> Sequence[Reader]:
    """Return the rows of the structured fuzzer."""
    from structured import ROWS  # noqa: PLC0415 - imports every command

    return ROWS


def repeat(name: str, number: int) -> int:
    """Execute the inputs of a chunk up to a number, and print what the last came to, with its traceback."""
    reader, guided = row_of(name)
    signal.signal(signal.SIGVTALRM, end_hang)
    with scratch_directory() as directory:
        first = number - number % CHUNK
        before = run_numbers(reader, range(first, number), Path(directory), guided=guided)
        data = damaged(reader, number, before.guides)
        error = execute(reader, data, Path(directory))
    sys.stdout.buffer.write(data[:2_000] + b"\n")
    if error is None:
        _print("no failure")
        return 0
    traceback.print_exception(error)
    return 1


def coverage(lines: Lines) -> Iterator[str]:
    """Yield the share of the package's lines that were reached, in all and by group of rows."""
    if not lines.of_reader:
        return
    known_names = lines_of_package(PACKAGE)
    count = sum(map(len, known_names.values()))

    def reached(files: Mapping[str, set[int]]) -> int:
        return sum(len(result & known_names.get(file, frozenset())) for file, result in files.items())

    every = reached(lines.together())
    yield f"lines of the package reached: {every:,} of {count:,} ({every / count:.0%})"
    groups: dict[str, Lines] = {}
    for reader, files in lines.of_reader.items():
        groups.setdefault(reader.partition(":")[0], Lines()).add(Lines({reader: files}))
    yield from (f"{reached(group.together()):8,} {name}" for name, group in sorted(groups.items()))


def keep(outcome: Outcome, directory: Path) -> None:
    """Write the smallest input of each failure, made smaller, one file each."""
    signal.signal(signal.SIGVTALRM, end_hang)
    directory.mkdir(parents=True, exist_ok=True)
    with scratch_directory() as scratch:
        for number, (location, data) in enumerate(sorted(outcome.inputs.items())):
            small = minimised(row_of(location.reader)[0], data, location, Path(scratch))
            (directory / f"{location.reader}-{location.exception}-{number}").write_bytes(small)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
