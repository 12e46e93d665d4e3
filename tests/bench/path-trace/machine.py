# SPDX-License-Identifier: GPL-2.0
"""The module's machine code, its source lines, and the names of the kernel's functions."""

from __future__ import annotations

import re
import subprocess
import sys
from bisect import bisect_right
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "guest"))
sys.dont_write_bytecode = True
from sites import SECTIONS, disassembly, tool  # noqa: E402

# Plain wrappers of a load or a store: an instruction in them counts for their caller.
PLAIN = re.compile(r"/engine/(cell|atomic)\.rs:")
# The folder in which it is compiled is the tree, or a copy of it.
SOURCE = re.compile(r"^/(?:schedhist|build/[0-9a-f]+/[^/]+)/src/(.*)")
# Branches of unsigned comparisons: index checks, and comparisons of times.
UNSIGNED = re.compile(r"j(a|ae|b|be)\b")


class Kernel:
    """The names of the kernel's functions: lines `at ADDRESS NAME`."""

    def __init__(self, lines: list[str]) -> None:
        symbols = (line.split() for line in lines if line.startswith("at "))
        found = sorted((int(address, 16), name) for _, address, name in symbols)
        self.addresses = [address for address, _ in found]
        self.names = [name for _, name in found]

    def name(self, address: int) -> str:
        index = bisect_right(self.addresses, address) - 1
        return self.names[index] if index >= 0 else f"{address:x}"


class Module:
    """The module's code. Addresses are those of sites.py: offsets in the sections of its file."""

    def __init__(self, ko: str) -> None:
        self.ko = ko
        self.instructions = {}
        self.functions = {}
        for name, function in disassembly(ko).items():
            for address, instruction in function.items():
                self.instructions[address] = instruction
                self.functions[address] = name
        self.frames: dict[int, list[str]] = {}
        sizes = re.findall(r" \.text +([0-9a-f]+) ", tool("objdump", "--headers", "--wide", ko))
        # The kernel loads what is rarely called right behind the rest.
        self.rare = -(-int(sizes[0], 16) // 16) * 16

    def address(self, loaded: int) -> int:
        """Returns the address of the instruction so far from where the kernel has loaded the code."""
        behind = loaded - self.rare
        return loaded if behind < 0 else SECTIONS[".text.unlikely."] + behind

    def locate(self, addresses: set[int]) -> None:
        """Finds the source lines of these instructions, the innermost inlined one first."""
        rare = SECTIONS[".text.unlikely."]
        for section, start in SECTIONS.items():
            text = "".join(f"{address - start:#x}\n" for address in sorted(addresses)
                           if (address >= rare) == (start == rare))
            if not text:
                continue
            command = ["addr2line", "-a", "-i", "-j", section, "-e", self.ko]
            run = subprocess.run(command, input=text, check=True, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True)
            for line in run.stdout.splitlines():
                if line.startswith("0x"):
                    found = self.frames.setdefault(start + int(line, 16), [])
                else:
                    found.append(line.split(" ")[0])

    def line(self, address: int) -> str:
        """Returns the source line that an instruction counts for."""
        for frame in self.frames.get(address, []):
            if (match := SOURCE.match(frame)) and not PLAIN.search(frame):
                return match[1]
        return "glue.c:0"

    def source(self, address: int) -> str:
        """Returns the file of that line."""
        return self.line(address).rsplit(":", 1)[0]

    def is_unsigned(self, address: int) -> bool:
        """Returns whether a branch belongs to an unsigned comparison."""
        return bool(UNSIGNED.match(self.instructions[address].text))


@cache
def demangled(name: str) -> str:
    """Returns the name as in the sources, without the hashes of crates."""
    return re.sub(r"\[[0-9a-f]+\]", "", tool("c++filt", "--format=rust", name).strip())


def offset_of_pid(ko: str) -> int:
    """Returns the offset of the PID in task_struct, as compiled into the module."""
    text = tool("sh", "-c", 'exec pahole --hex -C task_struct "$1" 2> /dev/null', "sh", ko)
    match = re.search(r"\bpid(?: __attribute__.*)?;\s*/\*\s*(0x[0-9a-f]+)", text)
    if not match:
        sys.exit("path: task_struct has no pid")
    return int(match[1], 16)


def size_of_task(ko: str) -> int:
    text = tool("sh", "-c", 'exec pahole -C task_struct "$1" 2> /dev/null', "sh", ko)
    return int(re.findall(r"/\* size: (\d+)", text)[-1])
