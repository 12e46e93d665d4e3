# SPDX-License-Identifier: GPL-2.0
"""What most tests use, to be imported by one line: `from harness.test import eq, load, measure`."""

from .kernel import *  # noqa: F403
from .ktap import *  # noqa: F403
from .laws import *  # noqa: F403
from .memory import *  # noqa: F403
from .module import *  # noqa: F403
from .names import *  # noqa: F403
from .needs import *  # noqa: F403
from .process import *  # noqa: F403
from .workload import *  # noqa: F403
