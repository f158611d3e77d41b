"""The divisors of a batch that two devices share are those of the whole batch."""

import json
import subprocess
import sys

from places import ROOT

SCRIPT = """
import json
import keras, tensorflow as tf
from keras_bert.training.whole_batch_loss import batch_totals, share_of_batch

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
parts = [tf.zeros((3, 2)), tf.zeros((1, 2))]  # three rows for one device, one for the other

def step(x):
    totals = batch_totals(None, x, None)
    return totals, share_of_batch(x, totals)

rows = strategy.experimental_distribute_values_from_function(lambda context: parts[context.replica_id_in_sync_group])
totals, shares = (strategy.experimental_local_results(one) for one in strategy.run(step, (rows,)))
print(json.dumps([[one.numpy().tolist() for one in totals], [float(one) for one in shares]]))
"""


def test_two_devices_know_the_rows_of_both():
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    totals, shares = json.loads(done.stdout.splitlines()[-1])
    assert totals == [[4.0], [4.0]]
    assert shares == [1.5, 0.5]
