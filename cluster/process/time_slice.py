"""Asks Linux to run this process soon after it wakes.

A message passes through several processes that each work for a tenth of a millisecond and sleep again. On
a machine whose processors are busy, a process that wakes waits for the time slice of whatever runs, which
is about 3 ms. Since Linux 6.12 a process may ask for shorter slices of its own: it then gets its turn
earlier, and no more processor time than before (sched_setattr(2), `sched_runtime` of SCHED_OTHER).
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from typing import Final

_CALL_NUMBERS: Final = {"x86_64": 314, "aarch64": 274}
"""sched_setattr, for which the C library has no function."""

_ATTRIBUTES: Final = struct.Struct("=IIQiIQQQ")
"""struct sched_attr: size, policy, flags, nice, priority; runtime, deadline, period in nanoseconds."""

_THIS_THREAD: Final = 0


def ask_for_time_slice(microseconds: int) -> bool:
    """Have this thread, and those that it starts later, run in slices of this length.

    Linux takes 100 to 100,000 µs; kernels before 6.12 accept that without effect. Returns False where the
    system has no such call or refuses it, or where the process has a scheduling policy of its own.
    """
    number = _CALL_NUMBERS.get(platform.machine())
    if sys.platform != "linux" or number is None or os.sched_getscheduler(_THIS_THREAD) != os.SCHED_OTHER:
        return False
    nice = os.getpriority(os.PRIO_PROCESS, _THIS_THREAD)
    attributes = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_OTHER, 0, nice, 0, microseconds * 1000, 0, 0)
    return ctypes.CDLL(None).syscall(number, _THIS_THREAD, attributes, 0) == 0  # type: ignore[no-any-return]
