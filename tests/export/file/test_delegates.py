"""The audit of a file for accelerators: what a delegate lists, what stays on the CPU, and what it does not like."""

import json

import pytest
from tiny_tflite import classifier, embedder, to_tflite

from export.file.contents import parse, schema
from export.file.delegates import DELEGATES, audit_delegate
from export.file.ops import audit_ops


@pytest.mark.parametrize("name", DELEGATES)
def test_every_listed_op_exists(name):
    assert DELEGATES[name].ops <= set(vars(schema().BuiltinOperator))
    assert {"FULLY_CONNECTED", "BATCH_MATMUL", "SOFTMAX", "GELU", "MEAN", "RSQRT"} <= DELEGATES[name].ops


@pytest.mark.parametrize("name", DELEGATES)
def test_every_op_is_taken_or_left(name):
    content = to_tflite(classifier())
    audit, ops = audit_delegate(content, name), audit_ops(content).ops
    assert {**audit.taken, **audit.left} == dict(ops)
    assert set(audit.left) == set(ops) - DELEGATES[name].ops
    assert sum(audit.types.values()) == sum(audit.taken.values())
    assert audit.share == sum(audit.taken.values()) / sum(ops.values())
    values = {key: json.loads(json.dumps(getattr(audit, key))) for key in ("taken", "left", "types", "problems")}
    assert audit.to_dict() == {"delegate": name, **values}


def test_token_tables_are_looked_up_on_the_cpu_beside_mediatek():
    content = to_tflite(classifier())
    assert "GATHER" in audit_delegate(content, "mediatek").left
    assert "GATHER" in audit_delegate(content, "qualcomm").taken and not audit_delegate(content, "gpu").left


def test_dynamic_lengths_and_float_ops_are_named():
    fixed, dynamic = to_tflite(embedder()), to_tflite(embedder(), lengths=(None,))
    assert not any("any length" in words for words in audit_delegate(fixed, "qualcomm").problems)
    assert any("export it with lengths=128" in words for words in audit_delegate(dynamic, "gpu").problems)
    assert any("compute in float" in words for words in audit_delegate(fixed, "mediatek").problems)
    assert not audit_delegate(fixed, "gpu").problems
    printed = str(audit_delegate(dynamic, "qualcomm"))
    assert "left to the CPU: " in printed and "FLOAT32" in printed and "any length" in printed


def test_another_delegate_is_an_error():
    with pytest.raises(ValueError, match=r"delegate='hexagon'; expected one of 'qualcomm', 'mediatek', 'gpu'"):
        audit_delegate(to_tflite(classifier()), "hexagon")
    assert parse(to_tflite(classifier())).subgraphs
