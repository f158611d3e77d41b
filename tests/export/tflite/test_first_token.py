"""A file that reads the first token alone computes its last block for it alone, with the same numbers."""

import keras
import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from tiny_tflite import answerer, classifier, embedder, to_large_tflite, to_tflite

from export.file.check import check_file
from export.file.contents import parse, serialize
from export.file.editor import editors
from export.quantization.statistics import token_rows
from export.recipes import RECIPES
from export.tflite import conversion
from export.tflite.passes.first_token import keep_first_token
from keras_bert.model.encoder import bert_encoder, encoder_config
from keras_bert.text.tokenized_texts import TokenizedTexts

SIZE = encoder_config(classifier()).vocabulary_size
CALIBRATION = token_rows(TokenizedTexts(np.arange(160, dtype=np.int32) % (SIZE - 5) + 5, np.arange(0, 161, 10)))


def run(content, length, seed):
    interpreter = Interpreter(model_content=content, num_threads=1)
    ids = np.random.default_rng(seed).integers(5, SIZE, (1, length)).astype(np.int32)
    mask = (np.arange(length)[None] < length - seed % 3).astype(np.int32)
    inputs = {"token_ids": ids * mask, "segment_ids": mask - mask, "padding_mask": mask}
    (key,) = interpreter.get_signature_list()
    return interpreter.get_signature_runner(key)(**inputs)


def both(content, recipe, monkeypatch):
    """The file with the rewrite, and without."""
    with monkeypatch.context() as patched:
        patched.setattr(conversion, "keep_first_token", lambda file: None)
        plain = conversion.rewrite(content, RECIPES[recipe], CALIBRATION)
    return conversion.rewrite(content, RECIPES[recipe], CALIBRATION), plain


def lengths_of(content, name):
    """The tokens that each matrix product, or each softmax over tokens, works on; −1 is any number."""
    (editor,) = editors(parse(content))
    found = [one for one in editor.graph.operators if editor.is_op(one, name)]
    return [editor.extents(int(one.outputs[0]))[-2] for one in found]


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("length", [16, None])
def test_the_same_numbers(recipe, length, monkeypatch):
    rewritten, plain = both(to_tflite(classifier(), lengths=(length,)), recipe, monkeypatch)
    check_file(rewritten)
    for seed in range(4):
        found, expected = (run(content, length or 9 + seed, seed) for content in (rewritten, plain))
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value)
    products = {lengths_of(content, "FULLY_CONNECTED").count(length or -1) for content in (rewritten, plain)}
    assert max(products) - min(products) == 4  # queries, attention's output, two of the feed-forward part
    assert lengths_of(rewritten, "BATCH_MATMUL")[-2:] == [1, 1]
    assert lengths_of(rewritten, "SOFTMAX")[-2] == 1 != lengths_of(plain, "SOFTMAX")[-2]


@pytest.mark.parametrize("model", [embedder, lambda: answerer(16)])
def test_files_that_read_all_tokens_stay(model):
    content = to_tflite(model(), lengths=(None,))
    file = parse(content)
    before = serialize(file)
    keep_first_token(file)
    assert serialize(file) == before


def mixer():
    """A vector that is read as one side of a sum and as the second matrix of a product."""
    encoder = bert_encoder(encoder_config(classifier()), seed=0)
    states = encoder.output["sequence_output"]
    values = keras.layers.Dense(32, name="values")(states)
    shares = keras.ops.softmax(keras.ops.matmul(states, keras.ops.transpose(states, (0, 2, 1))))
    mixed = values + keras.ops.matmul(shares, values)
    return keras.Model(encoder.inputs, {"mixed": mixed[:, 0]})


@pytest.mark.parametrize("length", [16, None])
def test_what_a_product_reads_as_a_whole_stays(length, monkeypatch):
    rewritten, plain = both(to_large_tflite(mixer(), lengths=(length,)), "float32", monkeypatch)
    assert lengths_of(rewritten, "BATCH_MATMUL")[-1] == 1 and 1 not in lengths_of(rewritten, "FULLY_CONNECTED")[:-1]
    for seed in range(3):
        found, expected = (run(content, length or 9 + seed, seed)["mixed"] for content in (rewritten, plain))
        np.testing.assert_array_equal(found, expected)
