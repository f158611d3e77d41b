"""XLM-R, DistilBERT and ELECTRA: what transformers saved we compute to 1e-5 and write again bit by bit."""

import json

import numpy as np
import pytest
from family_models import OUTPUTS, TWISTS
from places import GOLDEN
from safetensors.numpy import load_file, save_file
from tiny_models import TINY, assert_same_weights, batch, tiny_model

from keras_bert.checkpoint import CheckpointError, load_encoder, load_model, save_pretrained
from keras_bert.checkpoint.families import FAMILIES, find_family
from keras_bert.model.encoder import encoder_config
from keras_bert.model.heads import HEADS
from keras_bert.tasks.classification.task import TextClassifier

GOLDEN_ARRAYS = np.load(GOLDEN / "families.npz")
NAMES = sorted({name.split("/")[0] for name in GOLDEN_ARRAYS.files} - {"inputs"})


def golden(kind):
    return {key[len(kind) + 1 :]: GOLDEN_ARRAYS[key] for key in GOLDEN_ARRAYS.files if key.startswith(f"{kind}/")}


def write_reference(directory, name):
    """The directory that transformers wrote."""
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(str(golden(name)["config"]))
    save_file(golden(f"{name}/weights"), directory / "model.safetensors")
    return directory


def assert_golden(model, name):
    outputs = next(rows for suffix, rows in OUTPUTS.items() if name.endswith(suffix))
    inputs, wanted = golden("inputs"), golden(f"{name}/outputs")
    found = model(inputs)
    for ours, theirs in outputs.items():
        actual, desired = np.asarray(found[ours]), np.stack([wanted[key] for key in theirs], axis=-1)
        desired = desired[..., 0] if len(theirs) == 1 else desired
        assert actual.shape == desired.shape
        if ours not in ("pooled_output", "class_logits"):  # padding's values mean nothing
            actual, desired = (array[inputs["padding_mask"] == 1] for array in (actual, desired))
        np.testing.assert_allclose(actual, desired, rtol=0, atol=1e-5, err_msg=ours)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore:.* has no pooler", "ignore:.* is an ELECTRA generator")
def test_families_equal_transformers_and_come_back_bit_by_bit(tmp_path, name):
    model, _ = load_model(write_reference(tmp_path / "theirs", name))
    assert_golden(model, name)
    save_pretrained(model, tmp_path / "ours")
    assert json.loads((tmp_path / "ours/config.json").read_text())["architectures"] == [name]
    written = load_file(tmp_path / "ours/model.safetensors")
    for key, array in golden(f"{name}/weights").items():
        np.testing.assert_array_equal(written[key], array, err_msg=key)
    # Only the encoders of families without a pooler have more: its weights may have been trained since.
    more = {key.rpartition(".")[0] for key in written} - {key.rpartition(".")[0] for key in golden(f"{name}/weights")}
    assert more <= ({"pre_classifier", "classifier.dense"} if name.endswith("Model") else set())
    again, _ = load_model(tmp_path / "ours")
    assert_same_weights(model, again)
    assert encoder_config(again) == encoder_config(model)


@pytest.mark.parametrize("family", sorted(TWISTS))
@pytest.mark.parametrize("heads", [(), ("classification",), HEADS], ids=["encoder", "classifier", "all"])
def test_every_head_of_every_family_round_trips(tmp_path, family, heads):
    model = tiny_model(heads, **TWISTS[family])
    assert find_family(encoder_config(model)).model_type == family
    save_pretrained(model, tmp_path / "model")
    copy, _ = load_model(tmp_path / "model")
    assert encoder_config(copy) == encoder_config(model)
    assert_same_weights(model, copy)
    for name, value in copy(batch()).items():
        if name != "hidden_states":
            np.testing.assert_array_equal(model(batch())[name], value)


@pytest.mark.parametrize("family", sorted(TWISTS))
def test_odd_settings_survive(tmp_path, family):
    odd = {"activation": "relu", "pooling": "mean", "dropout": 0.2, "attention_dropout": 0.3, "initializer_range": 0.01}
    model = tiny_model(("classification",), **{**TWISTS[family], **odd, "position": "sinusoidal"})
    save_pretrained(model, tmp_path / "model")
    copy, _ = load_model(tmp_path / "model")
    assert encoder_config(copy) == encoder_config(model)
    # transformers' class would pool the first token.
    assert not json.loads((tmp_path / "model/config.json").read_text())["architectures"][0].endswith("Classification")


@pytest.mark.parametrize("family", sorted(TWISTS))
@pytest.mark.parametrize("format", ["google", "keras_hub"])
def test_other_formats_say_what_they_lack(tmp_path, family, format):
    twists = {name: value for name, value in TWISTS[family].items() if name != "embedding_dim"}
    model = tiny_model(activation="gelu_tanh", **twists)
    with pytest.raises(CheckpointError, match=f"cannot express .*computes as {family}.*format='huggingface'"):
        save_pretrained(model, tmp_path / "model", format=format)


def test_segment_ids_do_not_matter_where_there_is_one_segment():
    inputs = batch()
    other = {**inputs, "segment_ids": inputs["segment_ids"] * 0}
    for family in ("xlm-roberta", "distilbert"):
        model = tiny_model(**TWISTS[family])
        np.testing.assert_array_equal(model(inputs)["sequence_output"], model(other)["sequence_output"])


def test_positions_begin_at_the_offset():
    model = tiny_model(position_offset=2)
    assert model.get_layer("embeddings").position.shape[0] == TINY.max_sequence_length + 2
    with pytest.raises(ValueError, match="exceeds max_sequence_length=12"):
        tiny_model(position_offset=2)({name: np.zeros((1, 13), "int32") for name in batch()})


# === What cannot be read ===


def edit_config(directory, **changes):
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_an_unknown_kind_is_named_with_what_is_supported(tmp_path):
    save_pretrained(tiny_model(), tmp_path / "model")
    edit_config(tmp_path / "model", model_type="deberta-v2")
    supported = "model_type is 'deberta-v2'; this library reads 'bert', 'xlm-roberta', 'distilbert', 'electra'"
    with pytest.raises(CheckpointError, match=supported):
        load_encoder(tmp_path / "model")
    assert list(FAMILIES) == ["bert", "xlm-roberta", "distilbert", "electra"]


@pytest.mark.filterwarnings("ignore:.* has no pooler")
def test_a_generator_is_no_start_for_a_classifier(tmp_path):
    directory = write_reference(tmp_path / "generator", "ElectraForMaskedLM")
    with pytest.warns(UserWarning, match="is an ELECTRA generator.*start from the discriminator"):
        load_encoder(directory)


@pytest.mark.filterwarnings("ignore:.* has no pooler")
def test_a_classifier_on_a_generator_is_told_so(tmp_path):
    directory = write_reference(tmp_path / "generator", "ElectraForMaskedLM")
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abc"]
    (directory / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    with pytest.warns(UserWarning, match="is an ELECTRA generator.*start from the discriminator"):
        TextClassifier.from_pretrained(directory, labels=["no", "yes"])


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("XLMRobertaModel", {"pad_token_id": None}, "pad_token_id is None and max_position_embeddings 14; expected"),
        ("XLMRobertaForMaskedLM", {"hidden_act": "relu"}, "hidden_act is 'relu', but the masked LM head .* has 'gelu'"),
        ("ElectraModel", {"type_vocab_size": 0}, "settings of this electra compute as distilbert"),
        ("DistilBertModel", {"n_heads": 3}, "is not a multiple of num_heads=3"),
        ("ElectraForSequenceClassification", {"architectures": ["ElectraForMultipleChoice"]}, "expected ElectraForSeq"),
    ],
)
def test_wrong_settings_are_named(tmp_path, name, changes, message):
    directory = write_reference(tmp_path / "model", name)
    edit_config(directory, **changes)
    with pytest.raises(CheckpointError, match=message):
        load_model(directory)


def test_missing_sizes_are_named_as_the_file_spells_them(tmp_path):
    directory = write_reference(tmp_path / "model", "DistilBertModel")
    config = json.loads((directory / "config.json").read_text())
    del config["dim"], config["n_layers"]
    (directory / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match="no n_layers, dim; expected .* of the type 'distilbert'"):
        load_encoder(directory)
