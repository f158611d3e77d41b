"""Freed memory stays with the process: the second large block costs no page faults."""

import subprocess
import sys

import pytest

CODE = """
import resource, sys, numpy as np
from keras_bert.system.allocator import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory() is True
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    block = np.ones(64 << 20, np.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a setting of glibc")
def test_second_block_faults_no_pages():
    def run(mode):
        done = subprocess.run([sys.executable, "-c", CODE, mode], capture_output=True, text=True, check=True)
        return int(done.stdout)

    default, kept = run("default"), run("keep")
    assert default > 10 * max(kept, 10), (default, kept)
