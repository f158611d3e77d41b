"""Freed memory stays with the process: a large block that is freed can be used again without asking the kernel."""

import subprocess
import sys

import pytest

CODE = """
import sys, numpy as np
from keras_bert.system.allocator import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory() is True
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
before = resident()
block = np.ones(64 << 20, np.uint8)
held = resident() - before
del block
print(held, resident() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a setting of glibc")
def test_a_freed_block_stays_with_the_process():
    """Resident memory, not page faults: where numpy gets huge pages, a block has few faults either way."""

    def run(mode):
        done = subprocess.run([sys.executable, "-c", CODE, mode], capture_output=True, text=True, check=True)
        return [int(number) for number in done.stdout.split()]

    block = 64 << 20
    held, left = run("default")
    assert held > 0.9 * block and left < 0.1 * block
    held, left = run("keep")
    assert held > 0.9 * block and left > 0.9 * block
