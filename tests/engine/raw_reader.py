#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Print a C program that reads snapshots, made from nothing but schedhist_raw.h.

Such as: raw_reader.py include/uapi/schedhist_raw.h > reader.c

The program reads a snapshot from standard input as the header tells readers to. It prints each record
on a line: its type and its fields, without those for padding. A trailing array of numbers or structures
takes more lines: one for each element, after the fields. Text is printed in hexadecimal digits, up to its NUL.
"""

import argparse
import re
from pathlib import Path

PREFIX = "schedhist_raw_"

HEAD = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <schedhist_raw.h>

struct scheme { __u32 precision, buckets; };

static struct scheme machine, groups;
static unsigned char *buffer;
static size_t length;

static int broken(const char *what)
{
	fprintf(stderr, "raw: %s\n", what);
	return 1;
}

static void number(__u64 value)
{
	printf(" %llu", (unsigned long long)value);
}

static void text(const void *from, size_t size)
{
	const unsigned char *byte = from;

	printf(" ");
	for (; size && *byte; size--)
		printf("%02x", *byte++);
}

static int is_scheme(struct scheme scheme, __u32 bits)
{
	return bits < 64 && scheme.precision < bits && scheme.precision < 32 &&
	       scheme.buckets == ((__u64)(bits - scheme.precision + 1) << scheme.precision) + 1;
}
"""

TAIL = r"""
int main(void)
{
	const struct schedhist_raw_header *header;
	size_t room = 0, at;
	__u32 cpus = 0;

	do {
		room = room ? room * 2 : 1 << 16;
		buffer = realloc(buffer, room);
		length += fread(buffer + length, 1, room - length, stdin);
	} while (length == room);
	header = (const void *)buffer;
	if (length < sizeof(*header) || memcmp(header->magic, SCHEDHIST_RAW_MAGIC, 8) ||
	    header->version != SCHEDHIST_RAW_VERSION)
		return broken("no snapshot");
	machine = (struct scheme){ header->precision, header->buckets };
	groups = (struct scheme){ 0 };
	at = header->header_length;
	if (at < sizeof(*header) || at % 8 || !is_scheme(machine, header->value_bits))
		return broken("bad header");
	print_header(header);
	for (;;) {
		const struct schedhist_raw_record *record = (const void *)(buffer + at);

		if (at > length || length - at < sizeof(*record) || record->length < sizeof(*record) ||
		    record->length % 8 || length - at < record->length)
			return broken("cut off");
		at += record->length;
		if (record->type == SCHEDHIST_RAW_END)
			break;
		cpus += record->type == SCHEDHIST_RAW_CPU;
		if (record->type == SCHEDHIST_RAW_GROUPING) {
			const struct schedhist_raw_grouping *grouping = (const void *)record;

			if (record->length < sizeof(*grouping))
				return broken("short");
			groups = (struct scheme){ grouping->precision, grouping->buckets };
			if (!is_scheme(groups, header->value_bits))
				return broken("bad grouping");
		}
		if (print_record(record))
			return 1;
	}
	return at == length && cpus == header->cpus ? 0 : broken("bad end");
}
"""


def structures(text):
    """Return the fields of each structure: type, name, and the dimension in brackets or nothing."""
    field = re.compile(r"\t(?:struct )?(\w+) (\w+)(\[\w*\])?;")
    bodies = re.findall(r"^struct (\w+) \{\n(.*?)^\};", text, re.M | re.S)
    return {name: field.findall(body) for name, body in bodies}


class Program:
    """The functions that print structures."""

    def __init__(self, text):
        self.structs = structures(text)
        self.records = re.findall(
            rf"^#define SCHEDHIST_RAW_(\w+)\s+\d+\s*/\* struct {PREFIX}(\w+) \*/", text, re.M)

    def is_counter(self, fields, name):
        """Return whether a field has the length of a trailing array: PAIRS of PAIR, NAME_LENGTH of NAME."""
        return any(size == "[]" and name in (f"{array}s", f"{array}_length")
                   for _, array, size in fields)

    def show(self, kind, value):
        """Return the lines that print a value."""
        if kind in self.structs:
            return [line for field in self.structs[kind] for line in self.show_field(field, f"{value}.")]
        return [f'printf(" %d", {value});' if kind == "__s32" else f"number({value});"]

    def show_field(self, field, of):
        """Return the lines that print a field that is no trailing array."""
        kind, name, size = field
        value = of + name
        if not size:
            return self.show(kind, value)
        if kind in ("char", "__u8"):
            return [f"text({value}, sizeof({value}));"]
        lines = self.show(kind, f"{value}[i]")
        return [f"for (__u32 i = 0; i < {size[1:-1]}; i++) {{", *lines, "}"]

    def function(self, record, struct):
        """Return the function that prints a record."""
        fields = self.structs[PREFIX + struct]
        trailing = [field for field in fields if field[2] == "[]"]
        skipped = ("record", "reserved", "magic", "version", "header_length")
        head = [line for field in fields
                if field not in trailing and field[1] not in skipped
                and not self.is_counter(fields, field[1])
                for line in self.show_field(field, "r->")]
        lines = [f'printf("{record.lower()}");', *head]
        for kind, name, _ in trailing:
            counter = next(field[1] for field in fields if self.is_counter(fields, field[1]))
            room = f"(r->record.length - sizeof(*r)) / sizeof(r->{name}[0])"
            check = [f"if ({room} < r->{counter})", f'return broken("{record}");']
            if kind == "char":
                lines = [*check, *lines, f"text(r->{name}, r->{counter});"]
                break
            element = [*lines, "number(i);"] if kind not in self.structs else [*lines]
            element += self.show(kind, f"r->{name}[i]")
            if kind == f"{PREFIX}pair":
                scheme = "groups" if record.startswith("GROUP") else "machine"
                index = f"r->{name}[i].index"
                element += [f"number({PREFIX}lower({scheme}.precision, {index}));",
                            f"number({PREFIX}upper({scheme}.precision, {scheme}.buckets, {index}));"]
                element = [f"if ({index} >= {scheme}.buckets)", 'return broken("index");', *element]
            element.append(r'printf("\n");')
            lines = [*check, *lines, r'printf("\n");', f"for (__u32 i = 0; i < r->{counter}; i++) {{", *element, "}"]
        if not trailing or trailing[0][0] == "char":
            lines.append(r'printf("\n");')
        if struct != "header":
            lines = ["if (r->record.length < sizeof(*r))", f'return broken("{record}");', *lines]
        body = "\n\t".join(lines)
        return (f"static int print_{record.lower()}(const struct {PREFIX}{struct} *r)\n"
                f"{{\n\t{body}\n\treturn 0;\n}}\n")

    def source(self):
        """Return the whole program."""
        functions = [self.function(*record) for record in [("HEADER", "header"), *self.records]]
        cases = "".join(f"\tcase SCHEDHIST_RAW_{name}:\n\t\treturn print_{name.lower()}((const void *)record);\n"
                        for name, _ in self.records)
        dispatch = ("static int print_record(const struct schedhist_raw_record *record)\n"
                    f"{{\n\tswitch (record->type) {{\n{cases}\tdefault:\n\t\treturn 0;\n\t}}\n}}\n")
        return "\n".join([HEAD, *functions, dispatch, TAIL])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("header", type=Path)
    print(Program(parser.parse_args().header.read_text(encoding="ascii")).source())
