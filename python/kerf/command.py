# SPDX-License-Identifier: Apache-2.0
"""The programs kerf, kerf-run and kerf-profile of an installed package. They run the command line inside the package's
module, so that the wheel has the compiler once."""
from __future__ import annotations

import signal
import sys
from collections.abc import Callable

from . import _core


def _run(program: Callable[[list[str]], int], name: str) -> int:
    # Python answers these signals only between its own instructions, of which there are none before the end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    return program([name, *sys.argv[1:]])


def kerf() -> int:
    """Runs the program kerf with the arguments of this process, and returns the exit status."""
    return _run(_core.run_kerf, "kerf")


def kerf_run() -> int:
    """Runs the program kerf-run, as kerf does."""
    return _run(_core.run_kerf_run, "kerf-run")


def kerf_profile() -> int:
    """Runs the program kerf-profile, as kerf does."""
    return _run(_core.run_kerf_profile, "kerf-profile")
