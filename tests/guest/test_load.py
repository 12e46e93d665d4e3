# SPDX-License-Identifier: GPL-2.0
"""Loading, with good and bad parameters, and what a failed load leaves behind."""

import errno
import re

from harness import log
from harness.kernel import EXISTS
from harness.test import (KO, OF_LOADED, PARAMETERS, WORK, Wrong, assert_gone, check_laws, eq, fails, histogram, insert,
                          load, loaded, measure, messages, parameter, status, unload)


def test_precision():
    for precision in (1, 7):
        load(f"precision={precision}")
        eq("precision", status("precision"), precision)
        messages(2)
        measure(0)
        found = histogram("oncpu")
        eq("precision", found.precision, precision)
        found.check()
        check_laws()
        unload()
        assert_gone()


def test_precision_refused():
    # The kernel logs once for each boot that an out-of-tree module taints it.
    load()
    unload()
    ours = 'precision: "{}": expected 1 to 7'
    # The kernel itself refuses these, with its own messages.
    theirs = "`{}' invalid for parameter `precision'"
    for value, error, line in [
        ("0", errno.EINVAL, ours), ("8", errno.EINVAL, ours), ("4294967295", errno.EINVAL, ours),
        ("-1", errno.EINVAL, theirs), ("abc", errno.EINVAL, theirs), ("99999999999", errno.ERANGE, theirs),
    ]:
        mark = log.Mark()
        fails(error, load, f"precision={value}")
        said = [line for line in mark.lines() if "schedhist" in line]
        eq(f"log of precision={value}", said, [f"schedhist: {line.format(value)}"])
        assert_gone()


def test_clash():
    """The directory in debugfs exists already, created by a twin of the module under another name."""
    # The module's name field has room after it, so that the name can be replaced.
    twin, text = WORK / "schedhisu.ko", KO.read_bytes()
    changed = re.sub(rb"schedhist(\0{40})", rb"schedhisu\1", text)
    if changed == text:
        raise Wrong("cannot make a twin")
    twin.write_bytes(changed)
    load()
    mark = log.Mark()
    fails(EXISTS, insert, twin)
    said = [line for line in mark.lines() if re.match("schedhis[tu]: ", line)]
    eq("lines in the log", len(said), 1)
    if not said[0].endswith("cannot create the files in debugfs: EEXIST"):
        raise Wrong(f"the log: {said}")
    eq("the twin is loaded", loaded("schedhisu"), False)
    messages(2)
    measure(0)
    check_laws()
    unload()
    assert_gone()


def test_load_parameters():
    """All parameters can be read, and cannot be written."""
    load()
    modes = {path.name: path.stat().st_mode & 0o777 for path in (OF_LOADED / "schedhist/parameters").iterdir()}
    eq("parameters", modes, dict.fromkeys(PARAMETERS, 0o444))
    eq("precision", parameter("schedhist", "precision"), "5")
    eq("metrics", parameter("schedhist", "metrics"), "default")
    unload()
    load("precision=0x7", "metrics=oncpu,idle")
    eq("precision", parameter("schedhist", "precision"), "7")
    eq("metrics", parameter("schedhist", "metrics"), "oncpu,idle")
    eq("precision in use", status("precision"), 7)
