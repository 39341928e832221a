"""A headless Chromium, driven over the DevTools protocol through a pair of pipes.

Messages are JSON ended by a zero byte. The driver knows just what the page tests need: open a
file at a width and colour scheme, evaluate JavaScript, take a screenshot, and collect every
error and every request that the page makes.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PATIENCE = 120.0  # seconds for one answer; a loaded machine starts Chromium slowly

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
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
    """One Chromium with one page."""

    def __init__(self, to_chromium: int, from_chromium: int):
        self._to, self._from = to_chromium, from_chromium
        self._buffer = b""
        self._last_id = 0
        self.errors: list[str] = []
        self.requests: list[str] = []
        target = self._send("Target.createTarget", url="about:blank")["targetId"]
        attached = self._send("Target.attachToTarget", targetId=target, flatten=True)
        self._session: str | None = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """A command to the page."""
        return self._send(method, self._session, **params)

    def open(self, page: Path, *, width: int, height: int, scheme: str) -> None:
        """Load a file as on a screen of this size (CSS pixels) and colour scheme."""
        is_phone = width < 600
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=is_phone,
        )
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[feature])
        self.errors.clear()
        self.requests.clear()
        self.call("Page.navigate", url=page.resolve().as_uri())
        self.wait_for("document.readyState === 'complete' && location.protocol === 'file:'")

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression; a promise is awaited."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Return once an expression is true, asking the page again and again."""
        poll = f"""new Promise((resolve, reject) => {{
            const end = Date.now() + {500 * PATIENCE};
            (function look() {{
                if ({expression}) resolve(true);
                else if (Date.now() > end) reject(new Error("never true"));
                else setTimeout(look, 30);
            }})();
        }})"""
        while True:
            try:
                self.evaluate(poll)
                return
            except RuntimeError as error:
                # A navigation ends the old page and every promise in it; ask the new one.
                if "never true" in str(error):
                    raise

    def screenshot(self, file: Path, *, whole: bool = False) -> None:
        """What is on the screen, or the whole page."""
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(answer["data"]))

    def _send(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        self._last_id += 1
        message: dict[str, Any] = {"id": self._last_id, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        while True:
            answer = self._receive(method)
            if answer.get("id") == self._last_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def _receive(self, method: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select.select([self._from], [], [], PATIENCE)[0]:
                raise RuntimeError(f"Chromium gave no answer to {method} for {PATIENCE:.0f} s.")
            chunk = os.read(self._from, 1 << 20)
            if not chunk:
                raise RuntimeError(f"Chromium ended before it answered {method}.")
            self._buffer += chunk
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.errors.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])


# Chromium reads its commands from descriptor 3 and answers on 4; this puts ours there.
TRAMPOLINE = (
    "import os, sys; read, write = map(int, sys.argv[1:3]); "
    "os.dup2(read, 3); os.dup2(write, 4); os.execv(sys.argv[3], sys.argv[3:])"
)


@contextmanager
def start_browser() -> Iterator[Browser]:
    """A fresh Chromium with a profile of its own, gone at the end."""
    program = find_chromium()
    read_commands, write_commands = os.pipe()
    read_answers, write_answers = os.pipe()
    # Above 9, so that neither is overwritten when the other moves to 3 or 4.
    given = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (read_commands, write_answers)]
    os.close(read_commands)
    os.close(write_answers)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        trampoline = [sys.executable, "-c", TRAMPOLINE, *map(str, given)]
        process = subprocess.Popen(
            [*trampoline, program, *FLAGS, f"--user-data-dir={profile}"],
            pass_fds=given,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in given:
            os.close(end)
        try:
            yield Browser(write_commands, read_answers)
        finally:
            # Closing its command pipe makes Chromium quit, with all of its child processes.
            os.close(write_commands)
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(read_answers)
