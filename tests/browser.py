"""A headless Chromium, driven through its own protocol over a pair of pipes: no port, no package.

In: a page's path, then clicks, keys and expressions. Out: what the page says. Errors of the page and everything that it tries to load are kept,
for tests that want none.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# A page that does not answer for so long hangs.
PATIENCE_S = 60
# Chromium reads from 3 and writes to 4. The pipe that it reads was opened first, so that no number is taken twice.
LAUNCH = "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"


def chromium():
    """The path of a browser, if there is one."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One browser with one page."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        their_in, our_out = os.pipe()
        our_in, their_out = os.pipe()
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--hide-scrollbars"]
        launch = [sys.executable, "-c", LAUNCH, str(their_in), str(their_out), chromium()]
        command = [*launch, *flags, "--remote-debugging-pipe", f"--user-data-dir={self.folder.name}", "about:blank"]
        self.process = subprocess.Popen(command, pass_fds=(their_in, their_out), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        os.close(their_in)
        os.close(their_out)
        self.out, self.into, self.rest, self.number, self.session = our_out, our_in, b"", 0, None
        self.errors, self.loaded, self.happened = [], [], []
        target = next(each for each in self.call("Target.getTargets")["targetInfos"] if each["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        os.close(self.out)
        self.process.terminate()
        self.process.wait(30)
        os.close(self.into)
        self.folder.cleanup()

    def call(self, method, **params):
        """Calls the protocol and gives the answer."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self.number:
            self._event(answer)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def _next(self):
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.into], [], [], PATIENCE_S)
            assert ready, "the browser does not answer"
            part = os.read(self.into, 1 << 20)
            assert part, "the browser has ended"
            self.rest += part
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def _event(self, message):
        method, params = message.get("method"), message.get("params", {})
        self.happened.append(method)
        if method == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"])
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(params["args"])
        elif method == "Network.requestWillBeSent":
            self.loaded.append(params["request"]["url"])

    def open(self, path, width=1200, height=900, dark=False, scale=1, touch=False):
        """Opens a file and waits until it stands."""
        self.errors, self.loaded, self.happened = [], [], []
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=width < 600)
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="", features=[scheme])
        self.call("Page.navigate", url=f"file://{path}")
        while "Page.loadEventFired" not in self.happened:
            self._event(self._next())
        self.settle()

    def settle(self):
        """Waits until what was asked for is drawn."""
        self.js("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def js(self, expression):
        """The value of an expression."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def text(self, selector):
        return self.js(f"document.querySelector({json.dumps(selector)}).textContent")

    def place(self, selector, x=0.5, y=0.5):
        """The point of an element at these shares of its width and height, brought into sight."""
        find = f"document.querySelector({json.dumps(selector)})"
        box = self.js(
            f"(() => {{ const e = {find}; e.scrollIntoView({{block: 'center'}}); const r = e.getBoundingClientRect(); return [r.x, r.y, r.width, r.height]; }})()"
        )
        return box[0] + box[2] * x, box[1] + box[3] * y

    def mouse(self, kind, at, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], **more)

    def click(self, selector):
        at = self.place(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, at, button="left", clickCount=1)
        self.settle()

    def hover(self, selector, x=0.5, y=0.5):
        self.mouse("mouseMoved", self.place(selector, x, y))
        self.settle()

    def drag(self, selector, begin, end):
        begin, end = self.place(selector, begin), self.place(selector, end)
        self.mouse("mousePressed", begin, button="left", clickCount=1)
        self.mouse("mouseMoved", end, button="left", buttons=1)
        self.mouse("mouseReleased", end, button="left", clickCount=1)
        self.settle()

    def key(self, name, text=None):
        more = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=name, code=name, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name, code=name)
        self.settle()

    def picture(self, path, whole=False):
        """A picture of what is in sight, or of the whole page."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))
