# SPDX-License-Identifier: GPL-2.0
"""The units of `export` under systemd, which is the first process of a PID namespace here."""

import os
import shutil
import subprocess
from pathlib import Path

from harness import cgroup
from harness.test import TREE, Wrong, defer, eq, matches, run, skip, start, wait_until
from harness.tool import TOOL, begin, scrape

SYSTEMD = "/usr/lib/systemd/systemd"
# Where systemd looks for units: it starts nothing else of the root's.
UNITS = "/run/systemd/system"
SCRIPT = f"""
    mount -t tmpfs tmpfs /run && mkdir -p {UNITS} && mount -t cgroup2 cgroup2 /sys/fs/cgroup || exit
    for unit in socket service; do
        cp {TREE}/debian/schedhist.schedhist-export.$unit {UNITS}/schedhist-export.$unit || exit
    done
    cp /usr/lib/systemd/system/*.target {UNITS}
    exec env container=test SYSTEMD_UNIT_PATH={UNITS} {SYSTEMD} --unit=schedhist-export.socket --log-target=console
"""


def exporter() -> list[str]:
    return subprocess.run(["pidof", "/usr/bin/schedhist"], stdout=subprocess.PIPE, text=True, check=False).stdout.split()


def test_tool_socket_unit():
    """The first scrape begins the service, which has no capability and no network, and reads the module all the
    same."""
    if not Path(SYSTEMD).exists():
        skip("systemd is not installed")
    begin()
    cgroup.on()
    run("ip", "link", "set", "lo", "up")
    program = Path("/usr/bin/schedhist")
    if program.exists():
        raise Wrong(f"{program} is there already")
    shutil.copy(TOOL, program)
    defer(os.unlink, program)
    folder = cgroup.ROOT / "systemd"
    folder.mkdir()
    defer(cgroup.remove, folder)
    job = f"echo 0 > {folder}/cgroup.procs && exec unshare --pid --fork --kill-child --mount-proc --cgroup sh -c \"$0\""
    start("sh", "-c", job, SCRIPT)
    text = ""
    eq("the exporter before the first scrape", exporter(), [])

    def is_served() -> bool:
        nonlocal text
        text = scrape()
        return bool(text)

    wait_until("an answer", is_served)
    matches("the answer", r"\nschedhist_up 1\n", text)
    matches("the answer", r"\nschedhist_runq_seconds_count ", text)
    [pid] = exporter()
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    matches("its capabilities", r"\nCapEff:\t0+\n", status)
    if os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net"):
        raise Wrong("the service has our network")
