"""Directories with a Unigram tokenizer: as Hugging Face writes them, and as we do."""

import json

import pytest
from family_models import TWISTS
from tiny_models import tiny_model
from tiny_unigram import GOLDEN_MODELS, TINY_UNIGRAM

from keras_bert.checkpoint import CheckpointError, load_encoder, load_tokenizer, save_pretrained
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.unigram import UnigramTokenizer
from keras_bert.text.unigram_model import UnigramModel

SIZE = {"vocabulary_size": 512}
TEXTS = ["the film was good", "½ ﬁ <s>", ""]


@pytest.fixture
def directory(tmp_path):
    model = tiny_model(**SIZE, **TWISTS["xlm-roberta"])
    save_pretrained(model, tmp_path / "model", tokenizer=UnigramTokenizer(GOLDEN_MODELS[0]))
    return tmp_path / "model"


@pytest.mark.parametrize("removed", [None, "tokenizer.json", "sentencepiece.bpe.model", "tokenizer_config.json"])
def test_the_tokenizer_comes_back_from_either_file(directory, removed):
    if removed:
        (directory / removed).unlink()
    tokenizer = load_tokenizer(directory)
    assert tokenizer.vocabulary == list(GOLDEN_MODELS[0].tokens)
    assert tokenizer(TEXTS).to_list() == UnigramTokenizer(GOLDEN_MODELS[0])(TEXTS).to_list()


def test_the_file_has_sentencepiece_s_ids(directory):
    model = UnigramModel.from_bytes((directory / "sentencepiece.bpe.model").read_bytes())
    assert model.tokens[:3] == ("<unk>", "<s>", "</s>")
    assert "<mask>" not in model.tokens
    config = json.loads((directory / "tokenizer_config.json").read_text())
    assert config["tokenizer_class"] == "XLMRobertaTokenizer"
    assert config["model_max_length"] == 12


def test_a_bert_may_have_a_unigram_tokenizer(tmp_path):
    """Multilingual MiniLM and e5 are BERT encoders with XLM-R's tokenizer."""
    save_pretrained(tiny_model(vocabulary_size=64), tmp_path / "model", tokenizer=UnigramTokenizer(TINY_UNIGRAM))
    encoder, tokenizer = load_encoder(tmp_path / "model")
    assert encoder.get_layer("embeddings").config.position_offset == 0
    assert isinstance(tokenizer, UnigramTokenizer)


def test_another_tokenizer_replaces_all_files(directory):
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]
    model = tiny_model(**SIZE, **TWISTS["xlm-roberta"])
    save_pretrained(model, directory, tokenizer=BertTokenizer(vocabulary))
    assert load_tokenizer(directory).vocabulary == vocabulary
    save_pretrained(model, directory, tokenizer=UnigramTokenizer(TINY_UNIGRAM))
    assert load_tokenizer(directory).vocabulary == list(TINY_UNIGRAM.tokens)
    assert not (directory / "vocab.txt").exists()


def complains(directory, message):
    with pytest.raises(CheckpointError, match=message):
        load_tokenizer(directory)


def test_wrong_files_are_named(directory):
    path = directory / "sentencepiece.bpe.model"
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    complains(directory, "sentencepiece.bpe.model cannot be used: This is no complete model")
    path.write_bytes(b"\x12\x02\x18\x02")
    complains(directory, "is of the kind BPE")
    path.write_bytes(whole)
    config = directory / "tokenizer_config.json"
    config.write_text(json.dumps({"tokenizer_class": "CamembertTokenizer"}))
    complains(directory, "tokenizer_class is 'CamembertTokenizer', and the directory has a model of SentencePiece")


def test_a_vocabulary_larger_than_the_table_is_named(tmp_path, directory):
    (directory / "config.json").write_text(
        (directory / "config.json").read_text().replace('"vocab_size": 512', '"vocab_size": 20')
    )
    complains(directory, "tokens, but the model has 20")


@pytest.mark.parametrize("format", ["google", "keras_hub"])
def test_other_formats_have_no_place_for_it(tmp_path, format):
    model = tiny_model(vocabulary_size=64, activation="gelu_tanh")
    with pytest.raises(CheckpointError, match=f"{format} format has WordPiece vocabularies, got a UnigramTokenizer"):
        save_pretrained(model, tmp_path / "model", tokenizer=UnigramTokenizer(TINY_UNIGRAM), format=format)
