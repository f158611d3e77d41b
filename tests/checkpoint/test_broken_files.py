"""Bad files: each is met by an error that says what is wrong; nothing is half loaded, nothing in a file runs."""

import json
import pickle
import re
import shutil

import h5py
import numpy as np
import pytest
from places import TESTS
from safetensors.numpy import load_file, save_file
from tiny_models import TINY, VOCABULARY, tiny_model

from keras_bert.checkpoint import CheckpointError, load_encoder, load_model, loading, save_pretrained
from keras_bert.checkpoint.google import check_index
from keras_bert.text.tokenizer import BertTokenizer
from tests.fuzz.mutations import mutate

FORMATS = {"huggingface": "model.safetensors", "google": "bert_model.ckpt.data-00000-of-00001"}
FORMATS["keras_hub"] = "model.weights.h5"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A good directory of each format."""
    root = tmp_path_factory.mktemp("saved")
    model = tiny_model(activation="gelu_tanh")
    for format in FORMATS:
        save_pretrained(model, root / format, tokenizer=BertTokenizer(VOCABULARY), format=format)
    return root


@pytest.fixture
def directory(saved, tmp_path):
    """A copy of the Hugging Face directory, to be broken."""
    return copy(saved, tmp_path, "huggingface")


def copy(saved, tmp_path, format):
    return shutil.copytree(saved / format, tmp_path / format)


def edit(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **changes}))


def rewrite(directory, **changes):
    """Change arrays of model.safetensors; `None` takes one away."""
    arrays = {**load_file(directory / "model.safetensors"), **changes}
    save_file({name: array for name, array in arrays.items() if array is not None}, directory / "model.safetensors")


def complains(directory, *messages, load=load_encoder):
    """Loading fails before a model is built, and the message has all of these."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loading, "bert_encoder", lambda *args, **kwargs: pytest.fail("a model was built"))
        with pytest.raises(CheckpointError) as caught:
            load(directory)
    for message in messages:
        assert re.search(message, str(caught.value)), str(caught.value)


# === Weights ===


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("keep", [0.0, 0.01, 0.5, 0.98])
def test_truncated(saved, tmp_path, format, keep):
    path = copy(saved, tmp_path, format) / FORMATS[format]
    path.write_bytes(path.read_bytes()[: int(keep * path.stat().st_size)])
    with pytest.raises(CheckpointError, match=r"(?s)is not a complete .* cut off or damaged"):
        load_encoder(path.parent)


@pytest.mark.parametrize("format", FORMATS)
def test_garbage(saved, tmp_path, format):
    path = copy(saved, tmp_path, format) / FORMATS[format]
    path.write_bytes(np.random.default_rng(0).bytes(path.stat().st_size))
    with pytest.raises(CheckpointError, match=r"(?s)is not a complete .* damaged"):
        load_encoder(path.parent)


def test_google_index_is_damaged(saved, tmp_path):
    directory = copy(saved, tmp_path, "google")
    path = directory / "bert_model.ckpt.index"
    path.write_bytes(path.read_bytes()[:-60])
    complains(directory, "is not a complete TensorFlow checkpoint")


# TensorFlow ends the process on these: their checksums are right.
@pytest.mark.parametrize("name", ["entry-is-no-message", "entry-length-is-wrong"])
def test_google_index_that_ends_the_process(name, tmp_path):
    directory = shutil.copytree(TESTS / "compat" / "0.1.0" / "checkpoints" / "google", tmp_path / "google")
    shutil.copy(TESTS / "fuzz" / "found" / f"tf1_index-{name}", directory / "bert_model.ckpt.index")
    complains(directory, "is not a complete TensorFlow checkpoint .the index holds a damaged message")


def test_google_index_is_read_or_refused(saved, tmp_path):
    directory = copy(saved, tmp_path, "google")
    path, refused = directory / "bert_model.ckpt.index", 0
    good = path.read_bytes()
    check_index(str(directory / "bert_model.ckpt"))
    for seed in range(150):
        path.write_bytes(mutate(good, "sorted_table" if seed % 3 else "bytes", np.random.default_rng(seed)))
        try:
            check_index(str(directory / "bert_model.ckpt"))
        except ValueError:
            refused += 1
    assert refused > 75


def test_google_weights_are_missing_or_several(saved, tmp_path):
    directory = copy(saved, tmp_path, "google")
    index = directory / "bert_model.ckpt.index"
    for name in ("a.ckpt.index", "b.ckpt.index"):
        shutil.copy(index, directory / name)
    index.unlink()
    complains(directory, r"no bert_model.ckpt.index.*a.ckpt.index, b.ckpt.index. Expected one checkpoint")


def test_missing_and_extra_weights_are_listed(directory):
    rewrite(
        directory,
        **{"pooler.dense.bias": None, "encoder.layer.1.output.dense.bias": None, "mine": np.ones(2, "float32")},
    )
    complains(
        directory,
        r"missing weights: .*bert\.pooler\.dense\.bias.*bert\.encoder\.layer\.1\.output\.dense\.bias",
        r"do not belong to a BERT with this config: mine \(ignore_extra=True",
    )


def test_more_layers_in_the_file_than_in_the_config(directory):
    edit(directory / "config.json", num_hidden_layers=1)
    complains(directory, r"with this config: bert.encoder.layer.1.attention.*and 8 more")


def test_fewer_layers_in_the_file_than_in_the_config(directory):
    edit(directory / "config.json", num_hidden_layers=3)
    complains(directory, r"missing weights: bert.encoder.layer.2.attention")


def test_another_shape(directory):
    edit(directory / "config.json", vocab_size=41, intermediate_size=25)
    complains(
        directory,
        r"bert.embeddings.word_embeddings.weight has shape \[40, 16\], expected \[41, 16\]",
        r"intermediate.dense.weight has shape \[24, 16\], expected \[25, 16\]",
    )


@pytest.mark.parametrize("size", [10**9, 10**18])
@pytest.mark.parametrize("key", ["vocab_size", "num_hidden_layers", "max_position_embeddings"])
def test_absurd_sizes_cost_nothing(directory, key, size):
    edit(directory / "config.json", **{key: size})
    complains(directory, str(size))


def test_quantized_weights(directory):
    rewrite(directory, **{"pooler.dense.weight": np.ones((16, 16), "int8")})
    complains(directory, "bert.pooler.dense.weight is stored as I8, expected floats")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite(directory, value):
    kernel = np.ones((16, 16), "float32")
    kernel[3, 4] = value
    rewrite(directory, **{"pooler.dense.weight": kernel})
    with pytest.raises(CheckpointError, match="bert.pooler.dense.weight .* has 1 of 256 values that are not finite"):
        load_encoder(directory)


def test_a_weight_twice(directory):
    rewrite(directory, **{"bert.pooler.dense.bias": np.ones(16, "float32")})
    complains(directory, "holds bert.pooler.dense.bias twice")


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was opened",))


def test_a_pickle_is_refused_and_not_opened(directory):
    (directory / "model.safetensors").unlink()
    (directory / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb()))
    complains(directory, "only in pytorch_model.bin, a pickle.*If you trust it, convert it: transformers")


def test_a_pickle_under_another_name_is_not_opened(directory):
    (directory / "model.safetensors").write_bytes(pickle.dumps(Bomb()))
    complains(directory, "is not a complete safetensors file")


def test_no_weights(directory):
    (directory / "model.safetensors").unlink()
    complains(directory, "has neither model.safetensors nor model.safetensors.index.json")


# === Shards ===


def write_index(directory, places):
    (directory / "model.safetensors").unlink(missing_ok=True)
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


@pytest.mark.parametrize("name", ["../outside.safetensors", "/etc/passwd", "sub/x.safetensors", "x.bin", ".."])
def test_shards_outside_the_directory(directory, name):
    shutil.copy(directory / "model.safetensors", directory.parent / "outside.safetensors")
    write_index(directory, {"pooler.dense.bias": name})
    complains(directory, rf"names the file '{re.escape(name)}'; expected a .safetensors file beside it")


def test_a_shard_is_missing(directory):
    write_index(directory, {"pooler.dense.bias": "model-00001-of-00001.safetensors"})
    complains(directory, "names model-00001-of-00001.safetensors, which is missing")


def test_a_shard_lacks_a_weight(directory):
    shutil.copy(directory / "model.safetensors", directory / "model-1.safetensors")
    write_index(directory, {"pooler.dense.mine": "model-1.safetensors"})
    complains(directory, "weights that are not in their shards: pooler.dense.mine")


@pytest.mark.parametrize("places", [None, [], {"a": 1}])
def test_an_index_without_a_map(directory, places):
    write_index(directory, places)
    complains(directory, "no weight_map")


# === keras-hub ===


def test_links_out_of_a_preset_are_not_followed(saved, tmp_path):
    directory = copy(saved, tmp_path, "keras_hub")
    with h5py.File(directory / "model.weights.h5", "a") as file:
        del file["layers/dense/vars/0"]
        file["layers/dense/vars/0"] = h5py.ExternalLink(
            str(saved / "keras_hub/model.weights.h5"), "layers/dense/vars/0"
        )
    complains(directory, "layers/dense/vars/0 is a link to elsewhere")


def test_numbers_in_another_file_are_not_read(saved, tmp_path):
    directory = copy(saved, tmp_path, "keras_hub")
    with h5py.File(directory / "model.weights.h5", "a") as file:
        del file["layers/dense/vars/1"]
        outside = [(str(saved / "secret"), 0, 64)]
        file["layers/dense/vars"].create_dataset("1", (16,), "float32", external=outside)
    complains(directory, "layers/dense/vars/1 has its values in another file")


def test_a_type_in_the_place_of_numbers(saved, tmp_path):
    directory = copy(saved, tmp_path, "keras_hub")
    with h5py.File(directory / "model.weights.h5", "a") as file:
        del file["layers/dense/vars/1"]
        file["layers/dense/vars/1"] = np.dtype("float32")  # HDF5 keeps it as a type with a name
    complains(directory, "layers/dense/vars/1 is a type without values")


def test_another_preset(saved, tmp_path):
    directory = copy(saved, tmp_path, "keras_hub")
    edit(directory / "config.json", class_name="GemmaBackbone")
    complains(directory, "preset holds a 'GemmaBackbone'; expected a BertBackbone")
    edit(directory / "config.json", class_name="BertBackbone", config={"num_layers": 2})
    complains(directory, "config has no vocabulary_size, num_heads")


def test_a_preset_without_weights(saved, tmp_path):
    directory = copy(saved, tmp_path, "keras_hub")
    (directory / "model.weights.h5").unlink()
    complains(directory, "model.weights.h5 is missing")


# === Configs ===


@pytest.mark.parametrize("model_type", ["roberta", "xlnet", None, ["bert"]])
def test_another_architecture(directory, model_type):
    edit(directory / "config.json", model_type=model_type)
    complains(directory, rf"model_type is {re.escape(repr(model_type))}; this library reads 'bert', 'xlm-roberta'")


@pytest.mark.parametrize(
    ("model_type", "message"),
    [
        ("distilbert", "no n_layers, n_heads, dim, hidden_dim; expected the sizes"),
        ("electra", "do not fit"),
    ],
)
def test_a_config_of_another_family_than_the_weights(directory, model_type, message):
    edit(directory / "config.json", model_type=model_type)
    complains(directory, message)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("position_embedding_type", "relative_key"),
        ("is_decoder", True),
        ("add_cross_attention", True),
        ("auto_map", {"AutoModel": "code.Model"}),
        ("quantization_config", {"bits": 4}),
    ],
)
def test_keys_that_change_the_maths(directory, key, value):
    edit(directory / "config.json", **{key: value})
    complains(directory, f"{key} is {re.escape(repr(value))}, which makes it a different model")


def test_settings_that_make_no_sense(directory):
    path = directory / "config.json"
    edit(path, hidden_act="swish")
    complains(directory, "hidden_act is 'swish'; expected one of gelu")
    edit(path, hidden_act="gelu", num_attention_heads=3)
    complains(directory, "config.json: hidden_dim=16 is not a multiple of num_heads=3")
    values = json.loads(path.read_text())
    path.write_text(json.dumps({key: value for key, value in values.items() if key != "hidden_size"}))
    complains(directory, "no hidden_size; expected the sizes of a model of the type 'bert'")


@pytest.mark.parametrize(("text", "message"), [("{", "is not JSON"), ("[]", "holds a JSON list"), ("\xff", "not JSON")])
def test_configs_that_are_no_json(directory, text, message):
    (directory / "config.json").write_bytes(text.encode("latin-1"))
    complains(directory, message)


def test_any_value_of_any_key_gives_a_model_or_a_clear_error(directory, monkeypatch):
    monkeypatch.setattr(loading, "bert_encoder", lambda *args, **kwargs: pytest.skip("built"))
    (directory / "vocab.txt").unlink()  # building tokenizers would take most of the time
    path = directory / "config.json"
    good = json.loads(path.read_text())
    for key in [*good, "keras_bert", "id2label", "embedding_size"]:
        for value in (None, [], {}, [1], {"config": 1}, {"heads": 3}, {"a": 1}, "x", -1, 0, 1.5, True):
            path.write_text(json.dumps({**good, key: value}))
            for load in (load_encoder, load_model):
                try:
                    load(directory)
                except (CheckpointError, pytest.skip.Exception):
                    continue


def test_heads_that_are_promised_and_not_there(directory):
    edit(directory / "config.json", architectures=["BertForQuestionAnswering"])
    complains(directory, "missing weights: qa_outputs.weight, qa_outputs.bias", load=load_model)


def test_labels_of_another_number(tmp_path):
    save_pretrained(tiny_model(("classification",)), tmp_path, labels=["a", "b", "c"])
    edit(tmp_path / "config.json", id2label={"0": "a", "1": "b"})
    complains(tmp_path, "id2label in .* names 2 classes, but the classifier has 3", load=load_model)


def test_google_settings(saved, tmp_path):
    directory = copy(saved, tmp_path, "google")
    edit(directory / "bert_config.json", directionality="left")
    complains(directory, "directionality is 'left'; expected 'bidi'")
    edit(directory / "bert_config.json", directionality="bidi", hidden_act="swish")
    complains(directory, "hidden_act is 'swish'; expected one of gelu, relu")


# === Vocabularies and places ===


def test_vocabularies(directory):
    vocabulary, settings = directory / "vocab.txt", directory / "tokenizer_config.json"
    good = vocabulary.read_text(encoding="utf-8")
    vocabulary.write_text(good + "".join(f"t{i}\n" for i in range(40)), encoding="utf-8")
    complains(directory, f"has 50 tokens, but the model has {TINY.vocabulary_size}")
    vocabulary.write_text("a\nb\n", encoding="utf-8")
    complains(directory, r"vocabulary in .* cannot be used: unknown_token='\[UNK\]' is not among")
    vocabulary.write_bytes(b"\xff\xfe")
    complains(directory, "vocab.txt is not UTF-8")
    vocabulary.write_text(good, encoding="utf-8")
    edit(settings, tokenizer_class="RobertaTokenizer")
    complains(directory, "tokenizer_class is 'RobertaTokenizer'; expected one of BertTokenizer, ")
    edit(settings, tokenizer_class="BertJapaneseTokenizer")  # it splits words by a dictionary first
    complains(directory, "tokenizer_class is 'BertJapaneseTokenizer'")
    edit(settings, tokenizer_class="BertTokenizer", do_basic_tokenize=False)
    complains(directory, "do_basic_tokenize is false")
    edit(settings, do_basic_tokenize=True, do_lower_case="false")
    complains(directory, "do_lower_case is 'false'; expected true, false or null")
    edit(settings, do_lower_case=False, unk_token={"x": 1})
    complains(directory, "unk_token is {'x': 1}; expected a text")
    edit(settings, unk_token={"content": "[UNK]"})
    vocabulary.unlink()
    (directory / "tokenizer.json").write_text(json.dumps({"model": {"type": "BPE", "vocab": {}}}))
    complains(directory, "the model is 'BPE'; expected a WordPiece vocabulary")
    (directory / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"a": 0, "b": 7}}}))
    complains(directory, "ids of the vocabulary have gaps")
    (directory / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"a": 0, "b": "1"}}}))
    complains(directory, "the id of 'b' is '1'; expected a number")
    for name in ("model", "normalizer"):
        (directory / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {"a": 0}}, name: ["x"]}))
        complains(directory, rf"{name} is \['x'\]; expected an object")


def test_a_mark_at_the_beginning_of_a_vocabulary_is_no_part_of_its_first_token(directory):
    path = directory / "vocab.txt"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert load_encoder(directory)[1].vocabulary == VOCABULARY


@pytest.mark.parametrize("format", FORMATS)
def test_whether_chinese_is_split_comes_back(tmp_path, format):
    tokenizer = BertTokenizer(VOCABULARY, split_cjk=False)
    save_pretrained(tiny_model(activation="gelu_tanh"), tmp_path / "model", tokenizer=tokenizer, format=format)
    assert load_encoder(tmp_path / "model")[1].split_cjk is False


def test_places(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotADirectoryError, match="is a file; expected a model directory"):
        load_encoder(tmp_path / "file")
    with pytest.raises(FileNotFoundError, match=r"There is no directory .*nowhere'; expected a model directory or"):
        load_encoder(tmp_path / "nowhere")
    complains(tmp_path / "empty", "neither config.json .* nor bert_config.json .*; it holds nothing")
    with pytest.raises(NotADirectoryError, match="is a file; expected a directory to write"):
        save_pretrained(tiny_model(), tmp_path / "file")
