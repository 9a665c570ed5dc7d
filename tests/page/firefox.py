"""Firefox without a window, driven as Selenium drives any browser. It takes WebDriver's commands itself, by its Marionette: over a socket,
each as its length, a colon and [0, number, command, parameters], answered by [1, number, error, result]. A program between, geckodriver,
is not in Debian."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile

from selenium.webdriver import Remote
from selenium.webdriver.remote.command import Command as C
from selenium.webdriver.remote.file_detector import UselessFileDetector
from workers import DEADLINE, wait_until

# Marionette's names of Selenium's commands, where they are not the same words.
NAMES = {C.GET: "Navigate", C.GO_BACK: "Back", C.QUIT: "DeleteSession", C.GET_ALL_COOKIES: "GetCookies", C.CLICK_ELEMENT: "ElementClick",
         C.CLEAR_ELEMENT: "ElementClear", C.SEND_KEYS_TO_ELEMENT: "ElementSendKeys", C.FIND_CHILD_ELEMENT: "FindElement",
         C.FIND_CHILD_ELEMENTS: "FindElements", C.GET_CURRENT_URL: "GetCurrentURL", C.SCREENSHOT: "TakeScreenshot", C.W3C_ACTIONS: "PerformActions",
         C.W3C_EXECUTE_SCRIPT_ASYNC: "ExecuteAsyncScript"}
PREFERENCES = {
    "marionette.port": 0, "remote.system-access-check.enabled": False, "media.autoplay.default": 0, "media.volume_scale": "0.0",
    "browser.shell.checkDefaultBrowser": False, "app.update.disabledForTesting": True, "datareporting.policy.dataSubmissionEnabled": False,
    "toolkit.telemetry.reportingpolicy.firstRun": False, "network.captive-portal-service.enabled": False, "network.connectivity-service.enabled": False,
    "services.settings.server": "data:,", "browser.download.folderList": 2, "browser.download.useDownloadDir": True,
    "browser.download.always_ask_before_handling_new_types": False, "browser.download.alwaysOpenPanel": False, "intl.accept_languages": "en",
    "dom.disable_beforeunload": True}
# What a test asks of Chromium by its own protocol, as scripts with the rights of Firefox itself.
PROTOCOL = {
    "Emulation.setDeviceMetricsOverride": """const {width, height} = arguments[0], shown = gBrowser.selectedBrowser;
        shown.style.setProperty('width', width + 'px', 'important');
        shown.style.setProperty('height', height + 'px', 'important');
        for (const name of ['min-width', 'max-width']) shown.style.setProperty(name, width + 'px', 'important');
        for (const name of ['min-height', 'max-height']) shown.style.setProperty(name, height + 'px', 'important');""",
    "Emulation.setTouchEmulationEnabled": "Services.prefs.setIntPref('ui.primaryPointerCapabilities', arguments[0].enabled ? 1 : 6);",
    "Emulation.setEmulatedMedia": "Services.prefs.setIntPref('layout.css.prefers-color-scheme.content-override', arguments[0].features[0].value === 'dark' ? 0 : 1);",
    "Network.emulateNetworkConditions": "Services.io.offline = arguments[0].offline;",
    "Network.clearBrowserCookies": "Services.cookies.removeAll();",
    "Browser.setDownloadBehavior": "Services.prefs.setStringPref('browser.download.dir', arguments[0].downloadPath);",
    "log": """const said = Services.console.getMessageArray().filter((one) => one instanceof Ci.nsIScriptError && !(one.flags & one.warningFlag) &&
            one.sourceName.startsWith('http')).map((one) => ({level: 'SEVERE', message: one.sourceName + ' ' + one.errorMessage}));
        Services.console.reset();
        return said;""",
}


class Marionette:
    """The connection to a running Firefox, as Selenium wants one: execute(command, parameters)."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), DEADLINE)
        self.stream = self.socket.makefile("rb")
        self.number = 0
        self.read()  # it says first who it is

    def read(self):
        length = b""
        while (digit := self.stream.read(1)) != b":":
            assert digit, "Firefox has ended"
            length += digit
        return json.loads(self.stream.read(int(length)))

    def ask(self, name, parameters):
        self.number += 1
        text = json.dumps([0, self.number, name, parameters])
        self.socket.sendall(f"{len(text)}:{text}".encode())
        _, _, error, result = self.read()
        return error, result

    def execute(self, command, parameters):
        parameters = {name: value for name, value in (parameters or {}).items() if name != "sessionId"}
        if command == C.NEW_SESSION:
            parameters = {}
        if command == C.SWITCH_TO_FRAME and isinstance(parameters["id"], dict):
            parameters = {"element": next(iter(parameters["id"].values()))}
        if command in (C.FIND_CHILD_ELEMENT, C.FIND_CHILD_ELEMENTS):
            parameters["element"] = parameters.pop("id")
        name = NAMES.get(command) or command.removeprefix("w3c")[0].upper() + command.removeprefix("w3c")[1:]
        error, result = self.ask(f"WebDriver:{name}", parameters)
        if error:
            return {"status": 500, "value": json.dumps({"value": error})}
        if command == C.NEW_SESSION:
            return {"value": result}
        return {"value": result["value"] if isinstance(result, dict) and result.keys() == {"value"} else result}


class Firefox(Remote):
    def privileged(self, script, *values):
        """The result of a script that may do what Firefox itself may."""
        self.command_executor.ask("Marionette:SetContext", {"value": "chrome"})
        try:
            return self.execute_script(script, *values)
        finally:
            self.command_executor.ask("Marionette:SetContext", {"value": "content"})

    def execute_cdp_cmd(self, name, wishes):
        return self.privileged(PROTOCOL[name], wishes)

    def get_log(self, _):
        return self.privileged(PROTOCOL["log"])


@contextlib.contextmanager
def firefox():
    """Firefox without a window, and without anything of an earlier one."""
    home = pathlib.Path(tempfile.mkdtemp(prefix="cv-firefox-"))
    home.joinpath("user.js").write_text("".join(f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in PREFERENCES.items()))
    running = subprocess.Popen(["firefox-esr", "--headless", "--marionette", "--remote-allow-system-access", "--profile", home, "--width", "1500", "--height", "1000"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "HOME": str(home)}, start_new_session=True)
    try:
        port = home / "MarionetteActivePort"
        wait_until(lambda: port.exists() and port.read_text(), "Firefox to start")
        yield Firefox(Marionette(int(port.read_text())), file_detector=UselessFileDetector())
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        shutil.rmtree(home, ignore_errors=True)
