#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Check lines of `schedhist -j` against tools/schedhist/schema.json, and that it knows all their fields.

usage: python3 tests/harness/schema.py FILE...

Checks each line of the files that begins with `{"schema":`, and that each schema is there. Knows the words of
JSON Schema that the file uses.
"""

import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

SCHEMA = Path(__file__).resolve().parents[2] / "tools/schedhist/schema.json"
TYPES: dict[str, Any] = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float),
                         "boolean": bool, "null": type(None)}
WORDS = {"$comment", "$schema", "$id", "$defs", "title", "description", "type", "required", "properties",
         "patternProperties", "allOf", "if", "then", "$ref", "enum", "const", "items", "prefixItems", "minItems", "maxItems",
         "minimum", "maximum", "pattern"}


class Invalid(Exception):
    """A value that does not match."""


@cache
def root() -> Any:
    return json.loads(SCHEMA.read_text(encoding="utf-8"))


def has_type(value: Any, name: str) -> bool:
    return isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool))


def matches(value: Any, schema: Any) -> bool:
    try:
        parts(value, schema, "")
    except Invalid:
        return False
    return True


def simple(value: Any, schema: Any, where: str) -> None:
    """Checks all that is no part of a value."""
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    number = value if has_type(value, "number") else 0
    for word, is_so in (
        ("type", any(has_type(value, name) for name in types)),
        ("enum", value in schema.get("enum", [])),
        ("const", value == schema.get("const")),
        ("minimum", number >= schema.get("minimum", 0)),
        ("maximum", number <= schema.get("maximum", 0)),
        ("pattern", not isinstance(value, str) or re.search(schema.get("pattern", ""), value)),
        ("minItems", not isinstance(value, list) or len(value) >= schema.get("minItems", 0)),
        ("maxItems", not isinstance(value, list) or len(value) <= schema.get("maxItems", 0)),
        ("required", not isinstance(value, dict) or set(schema.get("required", [])) <= set(value)),
    ):
        if word in schema and not is_so:
            raise Invalid(f"{where}: {word} {schema[word]}: {value}")


def parts(value: Any, schema: Any, where: str) -> set[str]:
    """Checks a value and its parts. Returns the fields that the schema knows."""
    if unknown := set(schema) - WORDS:
        raise Invalid(f"{where}: the schema has {unknown}, which this does not check")
    simple(value, schema, where)
    known: set[str] = set()
    also = list(schema.get("allOf", []))
    if "$ref" in schema:
        also.append(root()["$defs"][schema["$ref"].removeprefix("#/$defs/")])
    if "if" in schema and matches(value, schema["if"]):
        also.append(schema["then"])
    for more in also:
        known |= parts(value, more, where)
    if isinstance(value, list):
        first = schema.get("prefixItems", [])
        for number, item in enumerate(value):
            check(item, first[number] if number < len(first) else schema.get("items", {}), f"{where}[{number}]")
    if isinstance(value, dict):
        for name, field in value.items():
            of_name = [schema["properties"][name]] if name in schema.get("properties", {}) else []
            of_name += [of for pattern, of in schema.get("patternProperties", {}).items() if re.search(pattern, name)]
            for of in of_name:
                check(field, of, f"{where}.{name}")
                known.add(name)
    return known


def check(value: Any, schema: Any = None, where: str = "") -> None:
    """Raises `Invalid` unless a value matches, and the schema knows its fields."""
    known = parts(value, root() if schema is None else schema, where)
    if isinstance(value, dict) and set(value) - known:
        raise Invalid(f"{where}: the schema does not know {set(value) - known}")


def refused(value: Any) -> bool:
    try:
        check(value)
    except Invalid:
        return True
    return False


def main(files: list[str]) -> int:
    if not files or files[0].startswith("-"):
        print(__doc__)
        return 0 if "--help" in files else 2
    seen: set[str] = set()
    for file in files:
        for line in Path(file).read_text(encoding="utf-8").splitlines():
            if line.startswith('{"schema":'):
                value = json.loads(line)
                seen.add(value["schema"])
                check(value, None, value["schema"])
                for wrong in ({"schema": value["schema"]}, value | {"schema": "x"}, value | {"more": 1}):
                    if not refused(wrong):
                        raise Invalid(f"this is valid, too: {wrong}")
    missing = set(root()["properties"]["schema"]["enum"]) - seen
    print(f"{len(seen)} schemas" + "".join(f"\nnot seen: {name}" for name in sorted(missing)))
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
