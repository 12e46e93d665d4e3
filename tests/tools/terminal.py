#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Draw what `tmux capture-pane -pe` prints as SVG.

usage: python3 tests/tools/terminal.py [--white] [--title TEXT] < CAPTURE > PICTURE.svg
"""

import re
import sys
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT, BASE = 8.4, 17, 13
# The first 16 colours as VGA has them, on white those of xterm; 256 are the same everywhere.
DARK = ["#000000", "#c23621", "#25bc24", "#bbbb00", "#492ee1", "#d338d3", "#33bbc8", "#cbcccd",
        "#818383", "#fc391f", "#31e722", "#eaec23", "#5833ff", "#f935f8", "#14f0f0", "#e9ebeb"]
GROUND = {False: ("#101418", "#d8dee4"), True: ("#ffffff", "#1c1f23")}


class Style(NamedTuple):
    fore: str
    back: str
    bold: bool
    underlined: bool


def colour(number: int) -> str:
    if number < 16:
        return DARK[number]
    if number < 232:
        levels = [0, 95, 135, 175, 215, 255]
        parts = [levels[(number - 16) // factor % 6] for factor in (36, 6, 1)]
    else:
        parts = [8 + 10 * (number - 232)] * 3
    return "#" + "".join(f"{part:02x}" for part in parts)


class Pen:
    """The state that the sequences of a terminal change."""

    def __init__(self, white: bool) -> None:
        self.ground = GROUND[white]
        self.reset()

    def reset(self) -> None:
        self.fore: str | None = None
        self.back: str | None = None
        self.bold = self.dim = self.reverse = self.underlined = False

    def extended(self, codes: list[int]) -> str:
        if codes.pop(0) == 5:
            return colour(codes.pop(0))
        return "#" + "".join(f"{codes.pop(0):02x}" for _ in range(3))

    def take(self, text: str) -> None:
        codes = [int(code or 0) for code in re.split("[;:]", text)]
        while codes:
            code = codes.pop(0)
            if code == 0:
                self.reset()
            elif code in (1, 22):
                self.bold, self.dim = code == 1, False
            elif code == 2:
                self.dim = True
            elif code in (4, 24):
                self.underlined = code == 4
            elif code in (7, 27):
                self.reverse = code == 7
            elif code == 38:
                self.fore = self.extended(codes)
            elif code == 48:
                self.back = self.extended(codes)
            elif code in (39, 49):
                setattr(self, "fore" if code == 39 else "back", None)
            elif 30 <= code % 60 <= 37:
                self.fore = colour(code % 60 - 30 + 8 * (code >= 90))
            elif 40 <= code % 60 <= 47 or 100 <= code <= 107:
                self.back = colour(code - 40 if code < 100 else code - 92)
            else:
                sys.exit(f"unknown: {text!r}")

    def style(self) -> Style:
        back, fore = self.back or self.ground[0], self.fore or self.ground[1]
        if self.reverse:
            fore, back = back, fore
        return Style("#8a8a8a" if self.dim else fore, back, self.bold, self.underlined)


def runs(line: str, pen: Pen) -> list[tuple[int, str, Style]]:
    """Returns the parts of a line of the same style, each with its column."""
    found: list[tuple[int, str, Style]] = []
    column = 0
    for part in re.split("(\x1b\\[[0-9;:]*m)", line):
        if part.startswith("\x1b"):
            pen.take(part[2:-1])
        elif part:
            found.append((column, part, pen.style()))
            column += len(part)
    return found


def block(character: str) -> tuple[float, float] | None:
    """Returns how much of its cell a character fills from below, and how densely: fonts leave gaps."""
    if "▁" <= character <= "█":
        return (ord(character) - ord("▁") + 1) / 8, 1
    return {"░": (1, 0.25), "▒": (1, 0.5), "▓": (1, 0.75)}.get(character)


def draw(capture: str, white: bool, title: str) -> str:
    lines = capture.rstrip("\n").split("\n")
    pen = Pen(white)
    all_runs = [runs(line, pen) for line in lines]
    columns = max(column + len(text) for line in all_runs for column, text, _ in line)
    width, height = columns * WIDTH + 16, len(lines) * HEIGHT + 16
    out = [
        "<!-- SPDX-License-Identifier: GPL-2.0 -->",
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 -8 {width:.0f} {height}" '
        'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="13.5">'
        f'<title>{escape(title)}</title><rect x="-8" y="-8" width="{width:.0f}" height="{height}" rx="6" '
        f'fill="{pen.ground[0]}"/>',
    ]
    for row, line in enumerate(all_runs):
        for column, text, style in line:
            x, y = column * WIDTH, row * HEIGHT
            if style.back != pen.ground[0]:
                out.append(f'<rect x="{x:.1f}" y="{y}" width="{len(text) * WIDTH:.1f}" height="{HEIGHT}" fill="{style.back}"/>')
            for found in re.finditer("([▁-█░▒▓])\\1*|[^▁-█░▒▓ ](?:[^▁-█░▒▓ ]| (?! ))*", text):
                at, part = x + found.start() * WIDTH, found[0].rstrip(" ")
                length = len(part) * WIDTH
                if filled := block(part[0]):
                    high, density = filled
                    more = f' fill-opacity="{density}"' if density < 1 else ""
                    out.append(f'<rect x="{at:.1f}" y="{y + (1 - high) * HEIGHT:.1f}" width="{length:.1f}" '
                               f'height="{high * HEIGHT:.1f}" fill="{style.fore}"{more}/>')
                    continue
                more = ' font-weight="bold"' * style.bold + ' text-decoration="underline"' * style.underlined
                out.append(f'<text x="{at:.1f}" y="{y + BASE}" textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs" '
                           f'fill="{style.fore}"{more} xml:space="preserve">{escape(part, quote=False)}</text>')
    return "\n".join(out) + "\n</svg>\n"


def main(words: list[str]) -> int:
    if "--help" in words:
        print(__doc__)
        return 0
    title = words[words.index("--title") + 1] if "--title" in words else "schedhist top"
    sys.stdout.write(draw(sys.stdin.read(), "--white" in words, title))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
