"""The picture of README.md: `python tests/support/pictures.py results/RUN/report.html docs/pictures/report.png`.

It shows a report from its top to the end of its comparisons. `--dark` takes the dark colours.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
WIDTH, SCALE, COLOURS = 1120, 1.25, 48
_END = "document.querySelector('#comparisons').getBoundingClientRect().bottom + window.scrollY"


def picture_of(page_file: Path, *, dark: bool = False) -> bytes:
    """Return a PNG of a report.html, `WIDTH` pixels wide before it is scaled, with a palette of `COLOURS`."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(
            viewport={"width": WIDTH, "height": 1200},
            device_scale_factor=SCALE,
            color_scheme="dark" if dark else "light",
        )
        page.goto(page_file.resolve().as_uri())
        height = float(page.evaluate(_END)) + 12
        used = page.screenshot(full_page=True, clip={"x": 0.0, "y": 0.0, "width": float(WIDTH), "height": height})
        browser.close()
    out = io.BytesIO()
    Image.open(io.BytesIO(used)).convert("RGB").quantize(COLOURS).save(out, "PNG", optimize=True)
    return out.getvalue()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--dark", action="store_true")
    given = parser.parse_args()
    given.picture.write_bytes(picture_of(given.page, dark=given.dark))
