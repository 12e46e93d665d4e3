#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Show the figures of the benchmark as tables, or compare them with their budget.

The files hold JSON: a list of objects with "part", "row", "column", "value" and "unit".
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

Figure = dict[str, object]


def read(files: list[str]) -> list[Figure]:
    return [figure for file in files for figure in json.loads(Path(file).read_text())]


def to_json(default: str) -> None:
    figures = []
    for line in sys.stdin:
        part, row, column, value, unit = [default, *line.rstrip("\n").split("\t")][-5:]
        figures.append({"part": part, "row": row, "column": column, "value": float(value), "unit": unit})
    print("[\n" + ",\n".join(json.dumps(figure) for figure in figures) + "\n]")


def shown(value: float) -> str:
    """Return the value as text: small ones with a decimal."""
    return f"{value:.0f}" if abs(value) >= 100 or value == round(value) else f"{value:.1f}"


def arranged(figures: list[Figure]) -> tuple[list[str], dict[str, dict[str, float]]]:
    """Return the columns, and the cells of each row by column."""
    columns = list(dict.fromkeys(str(figure["column"]) for figure in figures))
    rows: dict[str, dict[str, float]] = {}
    for figure in figures:
        rows.setdefault(str(figure["row"]), {})[str(figure["column"])] = float(figure["value"])
    return columns, rows


def table(title: str, files: list[str]) -> None:
    print(title)
    figures = read(files)
    parts = list(dict.fromkeys(figure["part"] for figure in figures))
    for part in parts:
        columns, rows = arranged([figure for figure in figures if figure["part"] == part])
        if len(parts) > 1:
            print(f"\n{part}")
        heads = columns
        if max(len(column) for column in columns) > 11:
            # Names are long: a letter stands for each.
            heads = [chr(ord("A") + number) for number in range(len(columns))]
            for head, column in zip(heads, columns):
                print(f"  {head}: {column}")
        width = max(len(row) for row in rows)
        print(f"{'':{width}}" + "".join(f"{head:>12}" for head in heads))
        for row, cells in rows.items():
            texts = (shown(cells[column]) if column in cells else "" for column in columns)
            print(f"{row:{width}}" + "".join(f"{text:>12}" for text in texts).rstrip())


def budget(file: str) -> dict[tuple[str, str, str], float]:
    maxima = {}
    for number, line in enumerate(Path(file).read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            part, column, maximum, row = line.split("\t")
            if (part, row, column) in maxima:
                sys.exit(f"{file}:{number}: a second time: {line}")
            maxima[part, row, column] = float(maximum)
        except ValueError:
            sys.exit(f"{file}:{number}: not PART, COLUMN, MAXIMUM, ROW, with tabs between: {line}")
    return maxima


def check(file: str, but: str | None, files: list[str]) -> None:
    """Check the maxima. A figure in the budget must be there, if its part is."""
    maxima = budget(file) | (budget(but) if but else {})
    missing = [name for name in files if not Path(name).is_file()]
    figures = read([name for name in files if name not in missing])
    values = {(f["part"], f["row"], f["column"]): f for f in figures}
    parts = {Path(name).stem for name in files} | {figure["part"] for figure in figures}
    bad = [f"{name} is not there" for name in missing]
    tested = 0
    for key, maximum in maxima.items():
        part, row, column = key
        if part not in parts:
            continue
        tested += 1
        if key not in values:
            bad.append(f"{part}: {row}, {column}: there is no such figure")
        elif float(values[key]["value"]) < -maximum:
            bad.append(f"{part}: {row}, {column}: {float(values[key]['value']):g}: it was not measured")
        elif not float(values[key]["value"]) <= maximum:
            value, unit = float(values[key]["value"]), values[key]["unit"]
            bad.append(f"{part}: {row}, {column}: {value:g} {unit}, {value - maximum:g} above {maximum:g}")
    if not tested:
        bad.append("the budget has nothing of these parts")
    for line in bad:
        print(f"not ok {line}")
    if bad:
        sys.exit(1)
    print(f"ok budget: {tested} figures are within their maxima")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(dest="what", metavar="WHAT", required=True)
    part = what.add_parser("json", help='make JSON of lines "[PART<tab>]ROW<tab>COLUMN<tab>VALUE<tab>UNIT" on '
                           'standard input')
    part.add_argument("part", help="that of lines that have none")
    for name, first, text in (("table", "title", "print a table for each part, with a line for each row"),
                              ("check", "budget", "fail if a figure is above its maximum")):
        command = what.add_parser(name, help=text)
        command.add_argument(first)
        command.add_argument("files", nargs="*", metavar="FILE")
    command.add_argument("--but", metavar="BUDGET", help="another one, whose maxima count instead")
    arguments = parser.parse_args()
    match arguments.what:
        case "json":
            to_json(arguments.part)
        case "table":
            table(arguments.title, arguments.files)
        case "check":
            check(arguments.budget, arguments.but, arguments.files)


main()
