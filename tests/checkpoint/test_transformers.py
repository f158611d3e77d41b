"""Beside the reference: what transformers saves we load with the same logits, and what we save transformers
loads.

Runs where torch and transformers are installed.
"""

import numpy as np
import pytest
from family_models import OUTPUTS, TWISTS
from tiny_models import TINY, VOCABULARY, batch, tiny_model
from tiny_unigram import TINY_UNIGRAM

from keras_bert.checkpoint import load_encoder, load_labels, load_model, save_pretrained
from keras_bert.text.packing import pack
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.unigram import UnigramTokenizer

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

# Class, our heads, and our outputs beside theirs.
CLASSES = [
    ("BertModel", (), {"sequence_output": "last_hidden_state", "pooled_output": "pooler_output"}),
    (
        "BertForPreTraining",
        ("masked_lm", "next_sentence"),
        {"mlm_logits": "prediction_logits", "nsp_logits": "seq_relationship_logits"},
    ),
    ("BertForMaskedLM", ("masked_lm",), {"mlm_logits": "logits"}),
    ("BertForNextSentencePrediction", ("next_sentence",), {"nsp_logits": "logits"}),
    ("BertForSequenceClassification", ("classification",), {"class_logits": "logits"}),
    ("BertForTokenClassification", ("token_classification",), {"token_logits": "logits"}),
    ("BertForQuestionAnswering", ("question_answering",), {"span_logits": ("start_logits", "end_logits")}),
]
EACH_CLASS = pytest.mark.parametrize(("name", "heads", "outputs"), CLASSES, ids=[row[0] for row in CLASSES])


def reference_model(name, **changes):
    """A tiny model of transformers, all of whose weights are random."""
    settings = {
        "vocab_size": 40,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "hidden_size": 16,
        "intermediate_size": 24,
        "max_position_embeddings": 12,
        **({"num_labels": 3} if "Classification" in name else {}),
    }
    generator = torch.Generator().manual_seed(5)
    model = getattr(transformers, name)(transformers.BertConfig(**{**settings, **changes})).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.3 + 0.1)
    return model


def assert_same_outputs(ours, reference, outputs, segments=True):
    inputs = batch()
    if not segments:  # not the token that XLM-R takes for padding
        inputs["token_ids"] = np.where(inputs["padding_mask"], np.maximum(inputs["token_ids"], 4), 1).astype("int32")
    real = inputs["padding_mask"] == 1
    found = ours(inputs)
    with torch.no_grad():
        wanted = reference(
            input_ids=torch.tensor(inputs["token_ids"]).long(),
            attention_mask=torch.tensor(inputs["padding_mask"]).long(),
            **({"token_type_ids": torch.tensor(inputs["segment_ids"]).long()} if segments else {}),
        )
    for mine, theirs in outputs.items():
        actual = np.asarray(found[mine])
        if isinstance(theirs, tuple):
            desired = np.stack([wanted[key].numpy() for key in theirs], axis=-1)
        else:
            desired = wanted[theirs].numpy()
        if actual.ndim == 3:  # a value for each token: padding's means nothing
            actual, desired = actual[real], desired[real]
        np.testing.assert_allclose(actual, desired, rtol=0, atol=1e-5, err_msg=mine)


@EACH_CLASS
def test_we_load_what_transformers_saves(tmp_path, name, heads, outputs):
    reference = reference_model(name)
    reference.save_pretrained(tmp_path)
    model, _ = load_model(tmp_path)
    assert set(outputs) <= set(model.output)
    assert_same_outputs(model, reference, outputs)


@EACH_CLASS
def test_transformers_loads_what_we_save(tmp_path, name, heads, outputs):
    model = tiny_model(heads)
    save_pretrained(model, tmp_path / "model", tokenizer=BertTokenizer(VOCABULARY))
    kind = getattr(transformers, name)
    reference, report = kind.from_pretrained(tmp_path / "model", output_loading_info=True)
    assert reference.config.architectures == [name]
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not report[problem], (problem, report[problem])
    assert_same_outputs(model, reference.eval(), outputs)


@pytest.mark.parametrize(("hidden_act", "activation"), [("gelu_new", "gelu_tanh"), ("relu", "relu")])
def test_activations_and_other_settings(tmp_path, hidden_act, activation):
    reference = reference_model("BertModel", hidden_act=hidden_act, layer_norm_eps=1e-3, type_vocab_size=3)
    reference.save_pretrained(tmp_path / "theirs")
    model, _ = load_model(tmp_path / "theirs")
    assert_same_outputs(model, reference, {"sequence_output": "last_hidden_state"})
    save_pretrained(model, tmp_path / "ours")
    again = transformers.BertModel.from_pretrained(tmp_path / "ours").eval()
    assert_same_outputs(model, again, {"sequence_output": "last_hidden_state"})
    assert model.get_layer("embeddings").config.activation == activation


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_and_shards_load_as_float32(tmp_path, dtype):
    reference = reference_model("BertForMaskedLM").to(getattr(torch, dtype))
    reference.save_pretrained(tmp_path, max_shard_size="4KB")
    assert (tmp_path / "model.safetensors.index.json").exists()
    model, _ = load_model(tmp_path)
    assert {weight.dtype for weight in model.weights} == {"float32"}
    assert_same_outputs(model, reference.float(), {"mlm_logits": "logits"})


def test_sinusoidal_positions_open_as_learned_ones(tmp_path):
    model = tiny_model(position="sinusoidal")
    save_pretrained(model, tmp_path / "model")
    reference = transformers.BertModel.from_pretrained(tmp_path / "model").eval()
    assert_same_outputs(model, reference, {"sequence_output": "last_hidden_state"})


def test_narrow_embeddings_are_refused_there_loudly(tmp_path):
    save_pretrained(tiny_model(embedding_dim=8), tmp_path / "model")
    with pytest.raises(RuntimeError, match="(?i)size"):
        transformers.BertModel.from_pretrained(tmp_path / "model")


def test_labels_and_tokenizers_agree(tmp_path):
    reference = reference_model("BertForSequenceClassification", id2label={0: "x", 1: "y", 2: "z"})
    reference.save_pretrained(tmp_path / "theirs")
    assert load_labels(tmp_path / "theirs") == ["x", "y", "z"]

    tokenizer = BertTokenizer(VOCABULARY)
    save_pretrained(
        tiny_model(("classification",)), tmp_path / "ours", tokenizer=tokenizer, labels=["no", "so so", "yes"]
    )
    config = transformers.AutoConfig.from_pretrained(tmp_path / "ours")
    assert config.id2label == {0: "no", 1: "so so", 2: "yes"}
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    texts = ["A b bc É 中a"]
    ids = theirs(texts, add_special_tokens=False)["input_ids"]
    assert tokenizer(texts).to_list() == ids

    # Newer versions write tokenizer.json and no vocab.txt.
    (tmp_path / "ours/vocab.txt").unlink()
    theirs.save_pretrained(tmp_path / "ours")
    assert not (tmp_path / "ours/vocab.txt").exists()
    _, again = load_encoder(tmp_path / "ours")
    assert again.vocabulary == VOCABULARY
    assert again(texts).to_list() == ids


def test_minilm_live(minilm_dir):
    reference = transformers.BertModel.from_pretrained(minilm_dir).eval()
    encoder, _ = load_encoder(minilm_dir)
    inputs = {**batch(), "token_ids": batch()["token_ids"] * 700}
    real = inputs["padding_mask"] == 1
    with torch.no_grad():
        wanted = reference(
            input_ids=torch.tensor(inputs["token_ids"]).long(),
            token_type_ids=torch.tensor(inputs["segment_ids"]).long(),
            attention_mask=torch.tensor(inputs["padding_mask"]).long(),
        )
    found = encoder(inputs)
    sequence = np.asarray(found["sequence_output"])
    np.testing.assert_allclose(sequence[real], wanted[0].numpy()[real], rtol=0, atol=1e-5)
    np.testing.assert_allclose(found["pooled_output"], wanted[1].numpy(), rtol=0, atol=1e-5)


def test_the_tiny_config_is_the_same_on_both_sides():
    settings = reference_model("BertModel").config
    assert (settings.hidden_size, settings.layer_norm_eps) == (TINY.hidden_dim, TINY.layer_norm_epsilon)


def test_unigram_tokenizers_agree(tmp_path):
    tokenizer = UnigramTokenizer(TINY_UNIGRAM)
    model = tiny_model(vocabulary_size=64, **TWISTS["xlm-roberta"])
    save_pretrained(model, tmp_path / "model", tokenizer=tokenizer)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    first, second = "the film was  good", "goodness plot"
    assert theirs([first, second], add_special_tokens=False)["input_ids"] == tokenizer([first, second]).to_list()
    packed = pack(tokenizer, ["the film"], ["good"])["token_ids"].numpy()[0].tolist()
    assert theirs("the film", "good")["input_ids"] == packed
    assert theirs.pad_token_id == tokenizer.pad_id and theirs.mask_token_id == tokenizer.mask_id


# === Other families ===

FAMILIES = {
    "XLMRoberta": ("xlm-roberta", {"type_vocab_size": 1, "pad_token_id": 1, "max_position_embeddings": 14}),
    "DistilBert": ("distilbert", {}),
    "Electra": ("electra", {"embedding_size": 8}),
}
HEADS = {
    "Model": (),
    "ForMaskedLM": ("masked_lm",),
    "ForSequenceClassification": ("classification",),
    "ForTokenClassification": ("token_classification",),
    "ForQuestionAnswering": ("question_answering",),
}


@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.parametrize("suffix", [*sorted(HEADS), "ForPreTraining"])
@pytest.mark.filterwarnings("ignore:.* has no pooler")
def test_other_families_open_in_transformers(tmp_path, family, suffix):
    if suffix == "ForPreTraining" and family != "Electra":
        pytest.skip("a head of ELECTRA alone")
    heads = HEADS.get(suffix, ("replaced_tokens",))
    model = tiny_model(heads, **TWISTS[FAMILIES[family][0]])
    save_pretrained(model, tmp_path / "model")
    kind = getattr(transformers, family + suffix)
    reference, report = kind.from_pretrained(tmp_path / "model", output_loading_info=True)
    assert reference.config.architectures == [family + suffix]
    assert not report["missing_keys"]
    assert not report["mismatched_keys"]
    assert all("pre_classifier" in key or "classifier.dense" in key for key in report["unexpected_keys"])
    wanted = next(rows for ending, rows in OUTPUTS.items() if (family + suffix).endswith(ending))
    names = {ours: theirs if len(theirs) > 1 else theirs[0] for ours, theirs in wanted.items()}
    assert_same_outputs(model, reference.eval(), names, segments=family == "Electra")


def test_the_default_settings_of_families_are_theirs(tmp_path):
    """A config.json that leaves keys out means what transformers' class means."""
    for family, (_, changes) in FAMILIES.items():
        sizes = {"n_layers": 2, "dim": 16, "n_heads": 2, "hidden_dim": 24} if family == "DistilBert" else {
            **{"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 24},
            **changes,
        }  # fmt: skip
        config = getattr(transformers, f"{family}Config")(vocab_size=40, **sizes)
        getattr(transformers, f"{family}ForSequenceClassification")(config).save_pretrained(tmp_path / family)
        model, _ = load_model(tmp_path / family)
        ours = model.get_layer("embeddings").config
        assert ours.layer_norm_epsilon == getattr(config, "layer_norm_eps", 1e-12)
        rate = config.seq_classif_dropout if family == "DistilBert" else 0.1
        assert model.get_layer("classifier_dropout").rate == rate
