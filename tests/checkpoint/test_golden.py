"""Our encoder with MiniLM's weights equals PyTorch transformers', by the numbers in golden/minilm.npz."""

import numpy as np
import pytest
from places import GOLDEN
from tiny_models import assert_same_weights

from keras_bert.checkpoint import load_encoder, save_pretrained

GOLDEN_ARRAYS = GOLDEN / "minilm.npz"
INPUTS = ("token_ids", "segment_ids", "padding_mask")


@pytest.fixture(scope="module")
def minilm(minilm_dir):
    return load_encoder(minilm_dir)


@pytest.mark.parametrize("name", ["texts", "pairs"])
def test_minilm_equals_transformers(minilm, name):
    golden = np.load(GOLDEN_ARRAYS)
    inputs = {key: golden[f"{name}/{key}"] for key in INPUTS}
    real = inputs["padding_mask"] == 1
    assert not real.all(), "a padded batch is wanted"
    outputs = minilm[0](inputs)
    sequence = np.asarray(outputs["sequence_output"])
    np.testing.assert_allclose(sequence[real], golden[f"{name}/sequence_output"][real], rtol=0, atol=1e-5)
    np.testing.assert_allclose(outputs["pooled_output"], golden[f"{name}/pooled_output"], rtol=0, atol=1e-5)


def test_minilm_s_tokenizer_gives_the_ids_that_transformers_gave(minilm):
    _, tokenizer = minilm
    golden = np.load(GOLDEN_ARRAYS)
    first, second = golden["pairs/token_ids"][0], tokenizer(["Where is the station?"]).to_list()[0]
    assert first[: len(second) + 2].tolist() == [tokenizer.cls_id, *second, tokenizer.sep_id]
    assert tokenizer.lowercase
    assert tokenizer.strip_accents is None


@pytest.mark.parametrize("format", ["huggingface", "google", "keras_hub"])
@pytest.mark.filterwarnings("ignore:keras-hub's BertBackbone computes GELU")
def test_minilm_survives_a_round_trip(minilm, tmp_path, format):
    encoder, tokenizer = minilm
    kept = tokenizer if format == "google" else None  # once is enough: a tokenizer takes a second to build
    save_pretrained(encoder, tmp_path / "copy", tokenizer=kept, format=format)
    copy, copied_tokenizer = load_encoder(tmp_path / "copy")
    assert_same_weights(encoder, copy)
    if kept:
        assert copied_tokenizer.vocabulary == tokenizer.vocabulary
