#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Looks at pages of `schedhist report --html` with Chromium, which it talks to through pipes.

usage: browser.py CHROMIUM PAGES PICTURES [AXE]

PAGES has hour.html, an hour with a stall of 50 ms, and two.html, of two recordings; PICTURES is a
folder for what is seen. AXE is axe-core's script, which must find no fault. Prints a line "ok NAME" or "not ok NAME" for each test.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
import zlib
from typing import Any, Callable

# The stall, in seconds, and how long the browser may take for anything.
STALL, PATIENCE = 0.05, 120


class Failed(Exception):
    """A test has failed."""


def check(holds: object, text: str) -> None:
    if not holds:
        raise Failed(text)


class Browser:
    """A browser, and what it said."""

    def __init__(self, program: str, profile: str) -> None:
        commands, answers = os.pipe(), os.pipe()
        options = "--headless --no-sandbox --disable-gpu --hide-scrollbars --remote-debugging-pipe --no-first-run"
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{commands[0]} 4>&{answers[1]}', "sh", program, *options.split()]
            + [f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(commands[0], answers[1]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands[0])
        os.close(answers[1])
        self.commands, self.answers, self.number = commands[1], answers[0], 0
        self.partial, self.events = b"", [{}]

    def message(self) -> dict[str, Any]:
        while b"\0" not in self.partial:
            piece = os.read(self.answers, 1 << 20)
            check(piece, "the browser has ended")
            self.partial += piece
        line, self.partial = self.partial.split(b"\0", 1)
        return json.loads(line)

    def ask(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        self.number += 1
        command: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if session:
            command["sessionId"] = session
        os.write(self.commands, json.dumps(command).encode() + b"\0")
        while True:
            said = self.message()
            if said.get("id") == self.number:
                check("error" not in said, f"{method}: {said.get('error')}")
                return said["result"]
            self.events.append(said)


class Page:
    """A page in a tab of its own."""

    def __init__(
        self,
        browser: Browser,
        path: str,
        scheme: str = "light",
        width: int = 1280,
        height: int = 900,
        scripts: bool = True,
    ) -> None:
        self.browser = browser
        target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in "Page", "Runtime", "Log", "Network", "DOM":
            self.ask(f"{domain}.enable")
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.ask("Emulation.setEmulatedMedia", features=features)
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.ask("Emulation.setDeviceMetricsOverride", **metrics)
        self.ask("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.path = path
        browser.events.clear()
        self.ask("Page.navigate", url=f"file://{path}")
        end = time.monotonic() + PATIENCE
        while self.value("document.readyState") != "complete" or self.value("location.protocol") != "file:":
            check(time.monotonic() < end, "the page does not load")
            time.sleep(0.05)

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.ask(method, self.session, **parameters)

    def value(self, expression: str, wait: bool = False) -> Any:
        result = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=wait)
        check("exceptionDetails" not in result, f"{expression}: {result}")
        return result["result"].get("value")

    def complaints(self) -> list[str]:
        """Returns what the page said on the console, and what it loaded."""
        self.value("0")
        found = []
        for event in self.browser.events:
            method, parameters = event.get("method", ""), event.get("params", {})
            if method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
                found.append(json.dumps(parameters)[:300])
            if method == "Network.requestWillBeSent":
                url = parameters["request"]["url"]
                if not url.startswith("data:") and url.split("#")[0] != f"file://{self.path}":
                    found.append(f"loads {url}")
        return found

    def mouse(self, kind: str, x: float, y: float) -> None:
        button = {"button": "left", "clickCount": 1} if kind != "mouseMoved" else {}
        self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button)

    def click(self, x: float, y: float) -> None:
        for kind in "mouseMoved", "mousePressed", "mouseReleased":
            self.mouse(kind, x, y)

    def box(self, element: str) -> tuple[float, float, float, float]:
        """Scrolls to an element. Returns where it is in the window."""
        script = f"(() => {{ const e = {element}; e.scrollIntoView({{block: 'center'}}); return 0 }})()"
        self.value(script)
        script = f"(() => {{ const r = {element}.getBoundingClientRect(); return [r.x, r.y, r.width, r.height] }})()"
        x, y, width, height = self.value(script)
        return x, y, width, height

    def picture(self, **clip: float) -> bytes:
        parameters: dict[str, Any] = {"format": "png"}
        if clip:
            parameters["clip"] = {**clip, "scale": 1}
        else:
            parameters["captureBeyondViewport"] = True
        return base64.b64decode(self.ask("Page.captureScreenshot", **parameters)["data"])

    def close(self) -> None:
        self.browser.ask("Target.closeTarget", targetId=self.ask("Target.getTargetInfo")["targetInfo"]["targetId"])


def pixel(png: bytes) -> tuple[int, ...]:
    """Returns the colour of a picture of one pixel with 8 bits a channel, which no filter of PNG changes."""
    check(png[16:26] in (b"\0\0\0\1\0\0\0\1\b\2", b"\0\0\0\1\0\0\0\1\b\6"), f"an unknown kind of PNG: {png[16:26]!r}")
    at = png.index(b"IDAT")
    # More may follow, for the end.
    data = png[at + 4 :][: int.from_bytes(png[at - 4 : at], "big")]
    return tuple(zlib.decompressobj().decompress(data)[1:4])


def contrast(a: tuple[int, ...], b: tuple[int, ...]) -> float:
    """Returns the contrast of two colours as WCAG defines it."""

    def light(colour: tuple[int, ...]) -> float:
        parts = [c / 255 for c in colour[:3]]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((light(a), light(b)))
    return (high + 0.05) / (low + 0.05)


def seconds(text: str) -> float:
    """Parses what the script of the page prints: `50.3 ms`."""
    number, unit = text.split()
    return float(number) * {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[unit]


class Tests:
    def __init__(self, browser: Browser, pages: str, pictures: str, axe: str) -> None:
        self.browser, self.pages, self.pictures, self.axe = browser, pages, pictures, axe

    def open(self, name: str, **how: Any) -> Page:
        return Page(self.browser, os.path.join(self.pages, name), **how)

    def keep(self, page: Page, name: str) -> None:
        with open(os.path.join(self.pictures, f"{name}.png"), "wb") as out:
            out.write(page.picture())

    def size(self) -> None:
        for name in "hour.html", "two.html":
            size = os.path.getsize(os.path.join(self.pages, name))
            print(f"# {name}: {size} bytes")
            check(size < 1_000_000, f"{name} has {size} bytes")

    def quiet(self) -> None:
        """Nothing on the console, and nothing is loaded."""
        for name in "hour.html", "two.html":
            page = self.open(name)
            check(not page.complaints(), f"{name}: {page.complaints()}")
            page.close()
        # A page that loads something, or has a script of somebody else, would be seen.
        with open(os.path.join(self.pages, "hour.html"), encoding="utf-8") as file:
            text = file.read()
        for number, more in enumerate(('<img src="http://127.0.0.1:9/x">', "<script>alert(1)</script>")):
            name = f"bad{number}.html"
            with open(os.path.join(self.pages, name), "w", encoding="utf-8") as file:
                file.write(text.replace("</h1>", "</h1>" + more))
            page = self.open(name)
            check(page.complaints(), f"{more} is not seen")
            page.close()

    def stall(self) -> None:
        """The stall is a cell that can be seen, and the figures of it come at a click."""
        for scheme in "light", "dark":
            page = self.open("hour.html", scheme=scheme)
            svg = "document.querySelector('svg.heat')"
            left, top, width, _ = page.box(svg)
            scale = width / page.value(f"{svg}.viewBox.baseVal.width")
            area = [float(n) * scale for n in page.value(f"{svg}.dataset.area").split()]
            heat = page.value("JSON.parse(document.getElementById('data').textContent)[0].metrics[0]")
            row = next(r for r in range(200) if 2 ** (r // 2) * (1.5 if r % 2 else 1) > STALL * 1e9) - 1
            columns = [
                x for x, cells in enumerate(heat["cells"]) if row in cells[::2] and cells[cells.index(row) + 1] == 1
            ]
            check(len(columns) == 1, f"the stall is in columns {columns}")
            cell = area[2] / len(heat["cells"]), area[3] / heat["rows"]
            x = left + area[0] + (columns[0] + 0.5) * cell[0]
            y = top + area[1] + (heat["low"] + heat["rows"] - row - 0.5) * cell[1]
            row_y = y + page.value("scrollY") - 0.5
            found, beside = (pixel(page.picture(x=at, y=row_y, width=1, height=1)) for at in (x, x - 10))
            seen = contrast(found, beside)
            print(f"# {scheme}: the cell of the stall has {found} on {beside}, a contrast of {seen:.1f}")
            check(seen >= 2.5, "the stall can hardly be seen")
            page.click(x, y)
            said = page.value(f"{svg}.closest('figure').querySelector('output').textContent")
            print(f"# {said}")
            match = re.search(r"max ([\d.]+ \w+); from ([\d.]+ \w+) to ([\d.]+ \w+): (\d+)", said)
            check(match and said.endswith("(kept: click again to release)"), f"a click says: {said}")
            assert match
            check(seconds(match[2]) <= STALL <= seconds(match[3]) and match[4] == "1", f"a click says: {said}")
            check(STALL <= seconds(match[1]) < STALL * 1.05, f"the maximum is {match[1]}")
            # Elsewhere it stays.
            page.mouse("mouseMoved", left + area[0] + 2, y)
            check(
                page.value(f"{svg}.closest('figure').querySelector('output').textContent") == said, "it does not stay"
            )
            self.keep(page, f"stall-{scheme}")
            # The triangle above leads to the outlier with its culprit.
            x, y, width, height = page.box(f"{svg}.querySelector('.mark')")
            page.click(x + width / 2, y + height / 2)
            check(page.value("location.hash") == "#o0-0", "the mark leads nowhere")
            target = page.value("document.querySelector('tr:target').textContent")
            check("hog:9 50.0ms (100.0 %)" in target, f"the mark leads to {target}")
            # And back.
            x, y, width, height = page.box("document.querySelector('tr:target a')")
            page.click(x + width / 2, y + height / 2)
            check(page.value("location.hash") == "#m0-0", "the outlier leads nowhere")
            check(page.value("document.querySelector('a:target .mark') !== null"), "the mark is not shown")
            check(not page.complaints(), f"{page.complaints()}")
            page.close()

    def flame(self) -> None:
        """A frame can be looked at, and made as wide as the page."""
        page = self.open("hour.html")
        # The one before is that of chains.
        graph = "[...document.querySelectorAll('svg.flame')].at(-1)"
        frame = f"[...{graph}.querySelectorAll('g')].find((g) => g.textContent.startsWith('nginx:'))"
        before = page.box(f"{frame}.querySelector('rect')")
        whole = page.box(graph)[2]
        check(before[2] < whole / 2, f"nginx has {before[2]} of {whole}")
        said = f"{graph}.closest('figure').querySelector('output').textContent"
        x, y, width, height = page.box(f"{frame}.querySelector('rect')")
        page.click(x + width / 2, y + height / 2)
        check(re.match(r"nginx: 305ms, 33\.\d\d %$", page.value(said)), f"it says {page.value(said)}")
        x, y, width, height = page.box(f"{frame}.querySelector('rect')")
        check(abs(width - whole) < 2, f"nginx has {width} of {whole}")
        self.keep(page, "flame-zoomed")
        x, y, width, height = page.box(f"{graph}.querySelector('g rect')")
        page.click(x + width / 2, y + height / 2)
        check(abs(page.box(f"{frame}.querySelector('rect')")[2] - before[2]) < 1, "it does not go back")
        check(not page.complaints(), f"{page.complaints()}")
        page.close()

    def sorting(self) -> None:
        page = self.open("hour.html")
        cells = "[...document.querySelectorAll('#cpus + .pair tbody tr')].map((row) => row.cells[6].textContent)"
        x, y, width, height = page.box("document.querySelectorAll('#cpus + .pair thead button')[6]")
        page.click(x + width / 2, y + height / 2)
        check(page.value(cells)[0] == "50.3ms", f"the order is {page.value(cells)}")
        page.close()

    def without_scripts(self) -> None:
        page = self.open("hour.html", scripts=False)
        check(page.value("document.querySelectorAll('th button').length") == 0, "a script has run")
        text = page.value("document.body.innerText")
        for part in "Summary", "runq", "50.3ms", "hog:9", "nginx", "laws":
            check(part in text, f"no {part} without scripts")
        shown = "(e) => e.closest('details') || e.matches('.dark') || e.clientWidth"
        hidden = f"[...document.querySelectorAll('svg')].filter((e) => !({shown})(e))"
        check(page.value(f"{hidden}.length") == 0, "a chart is not there without scripts")
        self.keep(page, "without-scripts")
        page.close()

    def widths(self) -> None:
        """The page fits on a phone, with labels that can be read, and uses a large screen."""
        for name in "hour.html", "two.html":
            for screen, height in (360, 740), (3840, 2160):
                page = self.open(name, width=screen, height=height)
                width = page.value("document.documentElement.scrollWidth")
                check(width <= screen, f"{name} is {width} pixels wide on a screen of {screen}")
                used = page.box("document.body")[2]
                check(used >= screen * 0.9, f"{name} uses {used} pixels of {screen}")
                label = page.box("document.querySelector('svg.heat text')")[3]
                print(f"# {name}: labels have {label:.0f} pixels on a screen of {screen}")
                check(label >= 12, f"labels have {label} pixels on a screen of {screen}")
                self.keep(page, f"width-{screen}-{name[:-5]}")
                page.close()

    def schemes(self) -> None:
        """Text can be read in light and dark."""
        for scheme in "light", "dark":
            for name in "hour.html", "two.html":
                page = self.open(name, scheme=scheme)
                shown = page.value("getComputedStyle(document.querySelector('svg.heat image.dark')).display")
                check((shown != "none") == (scheme == "dark"), f"{scheme}: image.dark is {shown}")
                style = "(e, what) => getComputedStyle(e)[what].match(/[\\d.]+/g).map(Number)"
                ground = tuple(page.value(f"({style})(document.body, 'backgroundColor')"))
                for selector, what in (
                    ("p", "color"), ("figcaption", "color"), ("nav a", "color"), ("td", "color"),
                    ("svg.heat text", "fill"), (".t0", "fill"), (".t1", "fill"), (".t2", "fill"), (".t3", "fill"),
                ):  # fmt: skip
                    colour = tuple(page.value(f"({style})(document.querySelector('{selector}'), '{what}')"))
                    check(contrast(colour, ground) >= 4.5, f"{scheme}: {selector} has {colour} on {ground}")
                for selector in ".ft", ".fu", ".fk":
                    frame = tuple(page.value(f"({style})(document.querySelector('svg.flame {selector}'), 'fill')"))
                    label = tuple(page.value(f"({style})(document.querySelector('svg.flame text'), 'fill')"))
                    check(contrast(frame, label) >= 4.5, f"{scheme}: {selector} has {frame} below {label}")
                self.keep(page, f"{scheme}-{name[:-5]}")
                page.close()

    def accessible(self) -> None:
        """axe-core finds no fault, in light and dark, on a phone and on a desk."""
        with open(self.axe, encoding="utf-8") as file:
            script = file.read()
        for name, scheme, width in (
            ("hour.html", "light", 1280), ("hour.html", "dark", 360), ("two.html", "dark", 1280), ("two.html", "light", 360),
        ):  # fmt: skip
            page = self.open(name, scheme=scheme, width=width)
            page.value(script + "; 0")
            found = page.value("axe.run().then((all) => JSON.stringify(all.violations))", wait=True)
            said = [
                f"{rule['id']}: {rule['help']}: {node['html'][:200]}" for rule in json.loads(found) for node in rule["nodes"]
            ]
            check(not said, f"{name}, {scheme}, {width} pixels: {len(said)} faults\n# " + "\n# ".join(said[:20]))
            page.close()

    def printed(self) -> None:
        page = self.open("hour.html", scheme="dark")
        paper = {"printBackground": True, "paperWidth": 8.27, "paperHeight": 11.69}
        pdf = base64.b64decode(page.ask("Page.printToPDF", **paper)["data"])
        count = len(re.findall(rb"/Type\s*/Page\b", pdf))
        print(f"# {count} pages on paper")
        check(2 <= count <= 12, f"{count} pages on paper")
        with open(os.path.join(self.pictures, "printed.pdf"), "wb") as out:
            out.write(pdf)
        page.close()


def main() -> int:
    if len(sys.argv) not in (4, 5):
        print(__doc__)
        return 0 if "--help" in sys.argv else 2
    rc = 0
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(sys.argv[1], profile)
        tests = Tests(browser, *map(os.path.realpath, sys.argv[2:4]), axe="".join(sys.argv[4:]))
        all_tests: list[Callable[[], None]] = [
            tests.size, tests.quiet, tests.stall, tests.flame, tests.sorting, tests.without_scripts,
            tests.widths, tests.schemes, tests.printed,
        ]  # fmt: skip
        if tests.axe:
            all_tests.append(tests.accessible)
        for test in all_tests:
            try:
                test()
                print(f"ok {test.__name__}", flush=True)
            except Failed as failure:
                print(f"not ok {test.__name__}\n# {failure}", flush=True)
                rc = 1
            except Exception:  # pylint: disable=broad-except
                print(f"not ok {test.__name__}\n# " + traceback.format_exc().replace("\n", "\n# "), flush=True)
                rc = 1
        browser.process.terminate()
        browser.process.wait()
    return rc


if __name__ == "__main__":
    sys.exit(main())
