"""A Chromium for the tests of the HTML report."""

from __future__ import annotations

from bootstrap.console import Console
from bootstrap.packages import Need, install
from bootstrap.places import Places
from volbench.errors import EnvironmentLacks
from volbench.target import means

BROWSER_NEEDS: tuple[Need, ...] = (
    Need(
        met=lambda: means.chromium().present,
        packages=("chromium", "chromium-browser"),
        why="the tests open the HTML report in it",
    ),
)


def try_browser(places: Places, console: Console) -> None:
    """Install a Chromium where there is none; without one its tests say so themselves."""
    try:
        install(BROWSER_NEEDS, places, console)
    except EnvironmentLacks as lack:
        console.say(f"no browser for the report's tests:\n{lack}")
