"""A prefix language model sees what it may; its two graphs score a token as the whole row does. Both backends."""

import keras
import numpy as np
from keras import ops
from tiny_writers import CONFIG, random_writer, recomputed_scores, source_batch

from keras_bert.model.attention_bias import MASK_BIAS
from keras_bert.model.encoder import bert_encoder
from keras_bert.tasks.generation import token_writer
from keras_bert.tasks.generation.cached_decoder import cache_names, cache_shape, next_token_model, source_reader
from keras_bert.tasks.generation.sampling import Decoding, TextTokens


def sources():
    """The sources of the batch, without padding."""
    ids, mask = source_batch()
    return [tuple(row[:length].tolist()) for row, length in zip(ids, mask.sum(axis=1), strict=True)]


# === The mask ===


def test_source_sees_source_and_target_its_past():
    ids = np.array([[2, 5, 6, 3, 7, 8, 3, 0]], "int32")
    segments, mask = np.array([[0, 0, 0, 0, 1, 1, 1, 0]], "int32"), np.array([[1] * 7 + [0]], "int32")
    encoder = bert_encoder(CONFIG, prefix_lm=True, return_attentions=True, seed=1)
    seen = encoder({"token_ids": ids, "segment_ids": segments, "padding_mask": mask})["attentions"][0]
    seen = ops.convert_to_numpy(seen)[0, 0, :7] > 0
    allowed = np.array([[column < 4 or column <= row for column in range(7)] + [False] for row in range(7)])
    np.testing.assert_array_equal(seen, allowed)
    bias = encoder.get_layer("prefix_bias")(np.full((1, 1, 1, 8), MASK_BIAS, "float32"), segments)
    assert float(ops.min(bias)) == MASK_BIAS  # never twice as low, for the scale of int8


def test_packed_rows_give_what_single_rows_give():
    model, packed = random_writer(), bert_encoder(CONFIG, prefix_lm=True, packed=True)
    values = {weight.path: weight for weight in model.weights}
    for weight in packed.weights:
        weight.assign(values.get(weight.path, weight))
    ids = np.array([[2, 5, 3, 7, 8], [2, 9, 10, 3, 6]], "int32")
    segments = np.array([[0, 0, 0, 1, 1], [0, 0, 0, 0, 1]], "int32")
    plain = keras.Model(model.input, model.get_layer("mlm_transform").input)
    alone = plain({"token_ids": ids, "segment_ids": segments, "padding_mask": np.ones_like(ids)})
    numbers = np.array([[1] * 5 + [2] * 5], "int32")
    both = {"token_ids": ids.reshape(1, 10), "segment_ids": segments.reshape(1, 10), "padding_mask": numbers}
    together = ops.convert_to_numpy(packed(both)["sequence_output"]).reshape(2, 5, -1)
    np.testing.assert_allclose(together, ops.convert_to_numpy(alone), atol=2e-5)


# === The two graphs ===


def test_every_step_scores_as_the_whole_row_does():
    model, (ids, mask) = random_writer(), source_batch()
    step, slots = next_token_model(model), 5
    source = dict(source_reader(model)({"token_ids": ids, "segment_ids": ids * 0, "padding_mask": mask}))
    lengths = mask.sum(axis=1, keepdims=True)
    source["source_mask"] = mask * (np.arange(ids.shape[1]) < lengths - 1)
    names = cache_names(CONFIG.num_layers, "target")
    cache = {name: np.zeros((3, *cache_shape(CONFIG, name, slots)), "float32") for name in names}
    fed = np.array([[3, 3, 3], [5, 10, 6], [6, 6, 7], [12, 5, 5], [5, 5, 5]], "int32")  # first the source's [SEP]
    for slot, tokens in enumerate(fed):
        inputs = {"token_ids": tokens[:, None], "segment_ids": np.full((3, 1), min(slot, 1))}
        inputs |= {"position_ids": lengths - 1 + slot, "target_mask": np.tile(np.arange(slots) < slot, (3, 1))}
        inputs = {name: ops.convert_to_tensor(value, "int32") for name, value in inputs.items()}
        outputs = step(inputs | {name: ops.convert_to_tensor(value) for name, value in (source | cache).items()})
        outputs = {name: ops.convert_to_numpy(value) for name, value in outputs.items()}
        for row, whole in enumerate(sources()):
            expected = recomputed_scores(model, whole, tuple(fed[1 : slot + 1, row].tolist()))
            np.testing.assert_allclose(outputs["logits"][row], expected, atol=1e-4, err_msg=f"slot {slot}, row {row}")
        for name in names:
            place = np.s_[..., slot : slot + 1] if "_keys_" in name else np.s_[:, :, slot : slot + 1]
            cache[name][place] = outputs[name.replace("target", "new")]


def test_fixed_sizes_for_devices():
    step = next_token_model(random_writer(), source_length=7, target_length=4, batch_size=1)
    assert step.input["target_keys_1"].shape == (1, 2, 16, 4)
    assert step.input["source_values_0"].shape == (1, 2, 7, 16)
    assert step.output["new_values_1"].shape == (1, 2, 1, 16)
    assert source_reader(random_writer(), sequence_length=7, batch_size=1).output["source_keys_0"].shape == (
        1,
        2,
        16,
        7,
    )


# === The loop ===


def test_the_loop_feeds_what_the_whole_row_has():
    model, tokens = random_writer(), TextTokens(start_id=3, end_id=3, pad_id=0, never=(), size=16)
    writer = token_writer.TokenWriter(model, tokens, Decoding(max_length=4))
    source, _, cache = writer.begin(*source_batch())
    written = np.array([[3, 5, 6, 12, 5], [3, 10, 6, 5, 9], [3, 6, 7, 5, 5]], "int32")
    for index in range(1, 5):
        so_far = np.where(np.arange(5) < index, written, 0)
        scores, cache = writer.next_scores(source, ops.convert_to_tensor(so_far), cache, index)
        for row, whole in enumerate(sources()):
            expected = recomputed_scores(model, whole, tuple(written[row, 1:index].tolist()))
            found = ops.convert_to_numpy(scores)[row]
            np.testing.assert_allclose(found, expected, atol=1e-4, err_msg=f"token {index} of row {row}")


def test_the_loop_writes_what_the_whole_row_says(monkeypatch):
    monkeypatch.setattr(token_writer, "compiled", lambda function, variables: function)
    model = random_writer(num_layers=1)
    tokens = TextTokens(start_id=3, end_id=3, pad_id=0, never=(), size=16)
    written = token_writer.TokenWriter(model, tokens, Decoding(max_length=3)).write(*source_batch())
    for source, row in zip(sources(), written, strict=True):
        expected = []
        while len(expected) < 3 and 3 not in expected:
            expected.append(int(np.argmax(recomputed_scores(model, source, tuple(expected)))))
        assert row == [token for token in expected if token != 3]
