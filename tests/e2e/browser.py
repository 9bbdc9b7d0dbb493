"""A headless Chromium, spoken to by its DevTools protocol over two pipes."""

import json
import os
import select
import shutil
import subprocess

import guard

NAME = next((name for name in ("chromium-headless-shell", "chromium") if shutil.which(name)), None)


class Browser:
    """One tab. What the page complains of and asks for is kept in errors and requests."""

    def __init__(self, folder):
        to_read, self.out = os.pipe()
        self.input, to_write = os.pipe()

        def place():  # in the child: the protocol's file descriptors are 3 and 4
            high = (os.dup(to_read), os.dup(to_write))
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        # pylint: disable-next=subprocess-popen-preexec-fn
        self.process = subprocess.Popen(
            [NAME, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False,
            preexec_fn=place)
        os.close(to_read)
        os.close(to_write)
        self.count, self.buffer, self.session, self.events = 0, b"", None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        os.close(self.out)
        os.close(self.input)
        self.process.kill()
        self.process.wait()

    def receive(self, awaited):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.input], [], [], guard.LIMIT)
            assert ready, f"the browser does not answer: {awaited}"
            piece = os.read(self.input, 1 << 16)
            assert piece, "the browser ended"
            self.buffer += piece
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive(method)
            if answer.get("id") == self.count:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def open(self, path):
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive(f"loading {path}"))

    def evaluate(self, script):
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def complaints(self):
        self.evaluate("new Promise(requestAnimationFrame).then(() => 0)")
        return [event["params"] for event in self.events
                if event.get("method") in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")]

    def requests(self):
        return [event["params"]["request"]["url"] for event in self.events
                if event.get("method") == "Network.requestWillBeSent"]

    def screen(self, width, height, scheme="light", media="screen"):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.call("Emulation.setEmulatedMedia", media=media,
                  features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")
