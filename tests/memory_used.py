"""How much memory a process needs, as the system sees it; what allocators keep for later is given back first.

Without that two looks at one process differ by more than what is asked for: each thread of pyarrow keeps pages of its
own. Call ``use_system_memory`` before anything else is done with pyarrow.
"""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
from pathlib import Path

import pyarrow as pa

GROWTH_MAX = 0.10
STATM = Path("/proc/self/statm")  # Linux; elsewhere ps knows


def use_system_memory() -> None:
    """Let pyarrow take memory from the system's allocator, which can be asked to give it back."""
    pa.set_memory_pool(pa.system_memory_pool())


def settled_bytes() -> int:
    """What this process has in memory, or 0 where nobody can say."""
    gc.collect()
    return resident_bytes() if give_back() else 0


def give_back() -> bool:
    """Ask the allocator for what it keeps; False where it can't be asked."""
    system = ctypes.CDLL(None)
    if hasattr(system, "malloc_trim"):  # glibc
        system.malloc_trim(0)
    elif hasattr(system, "malloc_zone_pressure_relief"):  # macOS
        system.malloc_zone_pressure_relief(None, 0)
    else:
        return False
    return True


def resident_bytes() -> int:
    if STATM.exists():
        return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    try:
        done = subprocess.run(["ps", "-o", "rss=", "-p", str(os.getpid())], capture_output=True, text=True, check=True)
        return int(done.stdout) * 1024
    except (OSError, ValueError, subprocess.CalledProcessError):
        return 0
