"""Pages in Debian's Chromium, which tests look at; what a page asks of the network and says on its console."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

CHROMIUM = Path("/usr/bin/chromium")


@contextmanager
def chromium() -> Iterator:
    """The browser; a test is skipped where it is not installed."""
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """A page that is open, with all that it asked of the network and said on its console.

    Attributes:
        page: Playwright's page.
        requests: addresses that were asked for, but for the page itself.
        complaints: errors and warnings on the console, and errors of scripts.
    """

    def __init__(self, browser, address: str, *, width: int = 1280, dark: bool = False):
        self.requests: list[str] = []
        self.complaints: list[str] = []
        scheme = "dark" if dark else "light"
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page.set_default_timeout(600_000)  # a busy machine takes its time
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on(
            "console",
            lambda message: self.complaints.append(message.text) if message.type in ("error", "warning") else None,
        )
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(address)
        self.requests = [each for each in self.requests if each != address]

    def scrolls_sideways(self) -> bool:
        """Whether the page as a whole is wider than the window."""
        return self.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")

    def violations(self) -> list[str]:
        """What axe finds that is serious or critical, with an element for each."""
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(self.page).response["violations"]
        return [
            f"{each['id']}: {node['html'][:200]}"
            for each in found
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"][:3]
        ]
