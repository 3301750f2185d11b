"""The picture of README.md: `make picture` takes it of the stored figures of the demo.

It shows a report from its top to the end of its comparisons. `--dark` takes the dark colours. The file says what it
shows, so that a test finds a picture that is older than its report.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo
from playwright.sync_api import sync_playwright
from stored_files import stored_text

from volbench.core.records.report import Report
from volbench.results.report.formats.html import html
from volbench.results.report.page_data import PageData
from volbench.results.report.views.timeline import Timelines

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
WIDTH, SCALE, COLOURS = 1120, 1.25, 32
SHOWN = "Description"
"""Key of the text of the PNG that says what it shows."""
_END = "document.querySelector('#comparisons').getBoundingClientRect().bottom + window.scrollY"


def shown_text(report: Report) -> str:
    """Return what a picture of a report says: its headline, its sentence and its notes."""
    return " ".join((f"{report.summary.headline}.", report.summary.sentence, *report.summary.notes))


def picture_of(report: Report, *, dark: bool = False) -> bytes:
    """Return a PNG of a report's page, `WIDTH` pixels wide before it is scaled, with a palette of `COLOURS`."""
    no_series = PageData(
        timelines=Timelines(cells=(), unreadable=()),
        distributions=(),
        small_multiples=(),
        session_charts=(),
        source_problems=(),
    )
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as playwright:
        page_file = Path(scratch, "report.html")
        page_file.write_text(html(report, no_series), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(
            viewport={"width": WIDTH, "height": 1200},
            device_scale_factor=SCALE,
            color_scheme="dark" if dark else "light",
        )
        page.goto(page_file.as_uri())
        height = float(page.evaluate(_END)) + 12
        used = page.screenshot(full_page=True, clip={"x": 0.0, "y": 0.0, "width": float(WIDTH), "height": height})
        browser.close()
    out, text = io.BytesIO(), PngInfo()
    text.add_itxt(SHOWN, shown_text(report))
    Image.open(io.BytesIO(used)).convert("RGB").quantize(COLOURS).save(out, "PNG", optimize=True, pnginfo=text)
    return out.getvalue()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figures", type=Path, help="a stored report.json.xz")
    parser.add_argument("picture", type=Path)
    parser.add_argument("--dark", action="store_true")
    given = parser.parse_args()
    shown = Report.model_validate_json(stored_text(given.figures))
    given.picture.write_bytes(picture_of(shown, dark=given.dark))
