"""A headless Chromium, the one that the system has, driven by Playwright."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser as ChromiumBrowser
from playwright.sync_api import ConsoleMessage, Page, sync_playwright

PATIENCE = 120_000  # milliseconds for one answer; a loaded machine starts Chromium slowly

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find_chromium() -> str:
    """The browser's path; a test that needs it fails without, rather than pass unseen."""
    for name in (os.environ.get("CHROMIUM", ""), *NAMES):
        path = shutil.which(name) if name else None
        if path:
            return path
    raise RuntimeError(
        "The page tests need Chromium: install it (Debian and Ubuntu: `apt-get install chromium`) "
        "or name its program in the environment variable CHROMIUM."
    )


class Browser:
    """Chromium with one page at a time, and every error and request that this page makes."""

    def __init__(self, chromium: ChromiumBrowser):
        self._chromium = chromium
        self.errors: list[str] = []
        self.requests: list[str] = []

    def open(
        self,
        file: Path,
        *,
        width: int = 1280,
        height: int = 900,
        scheme: str = "light",
        still: bool = False,
    ) -> Page:
        """Load a file as on a screen of this size (CSS pixels) and colour scheme.

        Or for a person who wants it `still`: a page that scrolls smoothly moves while it is read.
        """
        for context in self._chromium.contexts:
            context.close()
        self.errors.clear()
        self.requests.clear()
        page = self._chromium.new_page(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            reduced_motion="reduce" if still else "no-preference",
            is_mobile=width < 600,
        )
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._note)
        page.on("request", lambda request: self.requests.append(request.url))
        page.goto(file.resolve().as_uri())
        return page

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)


@contextmanager
def start_browser() -> Iterator[Browser]:
    """A fresh Chromium with a profile of its own, gone at the end."""
    program = find_chromium()
    with sync_playwright() as playwright:
        chromium = playwright.chromium
        with chromium.launch(executable_path=program, args=FLAGS, timeout=PATIENCE) as launched:
            yield Browser(launched)
