"""What is fuzzed: for each format a good file, how it is opened, and what to do with what was opened.

A target that opens a broken file either raises one of the errors that a user can read, or gives something whole.
"""

import atexit
import contextlib
import functools
import gzip
import itertools
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "helpers"))
CORPUS = ROOT / "tests" / "compat" / "0.1.0"

Open = Callable[[Path], Any]


def compile_vocabularies_once() -> None:
    """Keep what was compiled of a vocabulary: it takes longest of all, and few broken files change it."""
    from keras_bert.text.wordpiece import WordpieceGraph

    build = WordpieceGraph.build
    built = functools.lru_cache(maxsize=8)(lambda vocabulary, unknown, rules: build(list(vocabulary), unknown, rules))
    WordpieceGraph.build = lambda vocabulary, unknown, rules: built(tuple(vocabulary), unknown, rules)


@dataclass(frozen=True)
class Target:
    """A format.

    Args:
        kind: How its files are broken; see `mutations.mutate`.
        make: Writes a good place into a directory and returns the file in it to break.
        open: Opens the place of that file; raises what a user would see.
        errors: The errors that are an answer.
        always_refused: Whether a good file gets such an error, too.
    """

    kind: str
    make: Callable[[Path], Path]
    open: Open
    errors: tuple[type[BaseException], ...] = (ValueError, OSError)
    always_refused: bool = False


# === Checkpoints ===


def _checkpoint(folder: str, file: str) -> Callable[[Path], Path]:
    def make(directory: Path) -> Path:
        shutil.copytree(CORPUS / "checkpoints" / folder, directory / "model", dirs_exist_ok=True)
        return directory / "model" / file

    return make


def _sharded(directory: Path) -> Path:
    """Weights in two files with an index, which is broken."""
    from safetensors.numpy import load_file, save_file

    place = _checkpoint("huggingface", "model.safetensors")(directory)
    arrays = load_file(place)
    names, place = sorted(arrays), place.parent
    parts = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, held in parts.items():
        save_file({name: arrays[name] for name in held}, place / file)
    (place / "model.safetensors").unlink()
    index = {"metadata": {}, "weight_map": {name: file for file, held in parts.items() for name in held}}
    (place / "model.safetensors.index.json").write_text(json.dumps(index))
    return place / "model.safetensors.index.json"


def _sentencepiece(file: str, *, mapped: bool = False) -> Callable[[Path], Path]:
    """A model with a vocabulary of SentencePiece, with a map of characters or without.

    One of its two files is there, and broken.
    """

    def make(directory: Path) -> Path:
        from family_models import TWISTS
        from tiny_tasks import CONFIG
        from tiny_unigram import GOLDEN_MODELS, TINY_UNIGRAM

        import keras_bert

        character_map = GOLDEN_MODELS[0].character_map if mapped else b""
        tokenizer = keras_bert.UnigramTokenizer(replace(TINY_UNIGRAM, character_map=character_map))
        config = CONFIG.replace(vocabulary_size=tokenizer.vocabulary_size, **TWISTS["xlm-roberta"])
        keras_bert.save_pretrained(keras_bert.bert_encoder(config, seed=0), directory / "model", tokenizer=tokenizer)
        for other in {"sentencepiece.bpe.model", "tokenizer.json"} - {file}:
            (directory / "model" / other).unlink(missing_ok=True)
        return directory / "model" / file

    return make


def _sentence_encoder(file: str) -> Callable[[Path], Path]:
    """A sentence encoder with the files of sentence-transformers."""

    def make(directory: Path) -> Path:
        from keras_bert.checkpoint.sentence_transformers import write_sentence_modules

        place = _checkpoint("huggingface", file)(directory)
        write_sentence_modules(directory / "model", pooling="mean", normalize=True, sequence_length=16, width=16)
        return place

    return make


def _keras_archive(directory: Path) -> Path:
    """A whole model as Keras saves it, which can hold code; it is never opened."""
    import keras

    (directory / "model").mkdir(parents=True)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])
    model.save(directory / "model" / "model.keras")
    return directory / "model" / "model.keras"


def _open_archive(path: Path) -> None:
    import keras_bert

    for place in (path, path.parent):
        with contextlib.suppress(ValueError, OSError):
            keras_bert.load_encoder(place)
            raise RuntimeError("a .keras file was opened")
    raise ValueError("refused, as it has to be")


_EMPTY = 12345.678


def _open_encoder(path: Path) -> None:
    from keras_bert.checkpoint import loading

    with _emptied_encoders():
        encoder, tokenizer = loading.load_encoder(next(one for one in path.parents if one.name == "model"))
    _require_a_whole_load(encoder)
    if tokenizer is not None:
        tokenizer("a good film")


@contextlib.contextmanager
def _emptied_encoders() -> Iterator[None]:
    """One encoder for each config: building it takes longer than all else. Whatever stays empty was not loaded."""
    from keras_bert.checkpoint import loading

    given = loading.bert_encoder
    loading.bert_encoder = _emptied_encoder
    try:
        yield
    finally:
        loading.bert_encoder = given


def _require_a_whole_load(model: Any) -> None:
    import numpy as np

    left = [weight.path for weight in model.weights if np.any(weight.numpy() == np.float32(_EMPTY))]
    if [name for name in left if "pooler" not in name and "seed" not in name]:
        raise RuntimeError(f"half a load: {left}")


_uses = itertools.count(1)


def _emptied_encoder(config: Any, **options: Any) -> Any:
    if next(_uses) % 500 == 0:  # each task leaves its heads on the encoder
        _encoder.cache_clear()
        _empty_values.cache_clear()
    encoder = _encoder(config, tuple(sorted(options.items())))
    for weight, value in zip(encoder.weights, _empty_values(encoder), strict=True):
        if value is not None:
            weight.value.assign(value)
    return encoder


@functools.lru_cache(maxsize=8)
def _empty_values(encoder: Any) -> list[Any]:
    import tensorflow as tf

    floats = (weight if weight.dtype == "float32" else None for weight in encoder.weights)
    return [None if weight is None else tf.fill(weight.shape, _EMPTY) for weight in floats]


@functools.lru_cache(maxsize=8)
def _encoder(config: Any, options: tuple) -> Any:
    from keras_bert.model.encoder import bert_encoder

    return bert_encoder(config, **dict(options))


def _tokenizer_json(directory: Path) -> Path:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    place = _checkpoint("huggingface", "vocab.txt")(directory)
    words = place.read_text(encoding="utf-8").split("\n")
    made = Tokenizer(models.WordPiece({word: number for number, word in enumerate(words) if word}, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.save(str(place.with_name("tokenizer.json")))
    place.unlink()
    return place.with_name("tokenizer.json")


def _open_tokenizer(path: Path) -> None:
    from keras_bert.checkpoint import load_tokenizer

    tokenizer = load_tokenizer(path.parent)
    if tokenizer is not None:
        tokenizer(["a good film", "ﬁlm № Ⅷ ½ Ａ ｶﾞ é “x”　y"])  # the second has what normalization changes


# === Tasks and files for devices ===


def _task(file: str, name: str = "tagging_softmax") -> Callable[[Path], Path]:
    def make(directory: Path) -> Path:
        shutil.copytree(CORPUS / "tasks" / name, directory / "task", dirs_exist_ok=True)
        return directory / "task" / file

    return make


def _open_task(path: Path) -> None:
    import numpy as np

    from keras_bert import load_task

    with _emptied_encoders():
        task = load_task(path.parent)
    task = getattr(task, "task", task)  # a zero-shot classifier wraps one
    _require_a_whole_load(task.model)
    ids = np.ones((1, 4), "int32")
    task.model({"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids})  # whole: it can be called


def _open_pooling(path: Path) -> None:
    from keras_bert.checkpoint.sentence_transformers import read_sentence_modules

    read_sentence_modules(next(one for one in path.parents if one.name == "model"))


def _tflite(name: str) -> Callable[[Path], Path]:
    def make(directory: Path) -> Path:
        return Path(shutil.copy(CORPUS / "tflite" / f"{name}.tflite", directory / "model.tflite"))

    return make


def _unigram_file(directory: Path) -> Path:
    """A file with a model of SentencePiece behind its graph."""
    import export
    import keras_bert

    model = _sentencepiece("sentencepiece.bpe.model")(directory).parent
    task = keras_bert.TextClassifier.from_pretrained(model, labels=["bad", "good"], sequence_length=8)
    return Path(export.convert(task, directory / "model.tflite", recipe="float32", check=False).path)


def _open_tflite(path: Path) -> None:
    import export

    export.load(path)("a good film")


def _asked(name: str) -> Open:
    """Ask a file what it was asked when the corpus was made."""
    inputs = json.loads((CORPUS / "tflite" / f"{name}.tflite.json").read_text(encoding="utf-8"))["inputs"]

    def ask(path: Path) -> None:
        import export

        run = export.load(path)
        for call in inputs["calls"]:
            run(*call["args"], **call["options"])

    return ask


# === Requests ===

_VERBS = ("predict", "classify", "regress", "answer")


@functools.cache
def _server() -> Any:
    from tiny_server import serving

    opened = serving("classification.float32", max_texts=64)
    atexit.register(opened.__exit__, None, None, None)
    return opened.__enter__()


def _ask_server(path: Path) -> None:
    """Every address that takes a body gets it; one that answers is enough."""
    body, said = path.read_bytes(), {}
    answers = {verb: _server().ask(verb, body) for verb in _VERBS}
    embeddings = _server().post("/v1/embeddings", content=body)
    answers["embeddings"] = embeddings.status_code, embeddings.json()
    for verb, (status, answer) in answers.items():
        if status >= 500:
            raise RuntimeError(f"{verb} answers {status}: {answer}")
        said[verb] = status
        if status >= 400 and len(str(answer["error"])) < 20:
            raise RuntimeError(f"{verb} says too little: {answer}")
    if 200 not in said.values():
        raise ValueError(f"no address took it: {said}")


# === Corpora ===


def _examples(file: str) -> Callable[[Path], Path]:
    def make(directory: Path) -> Path:
        shutil.copytree(CORPUS / "pretraining" / "stopped" / "examples", directory / "examples", dirs_exist_ok=True)
        return directory / "examples" / file

    return make


def _open_examples(path: Path) -> None:
    import tensorflow as tf

    from keras_bert import read_examples

    try:
        for _ in read_examples(path.parent):
            pass
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
        raise ValueError(str(error)) from error


def _read_corpus(path: Path) -> None:
    from keras_bert.pretraining.corpus.documents import find_files
    from keras_bert.pretraining.corpus.sentences import split_sentences
    from keras_bert.pretraining.corpus.units import decode_documents, group_files, read_units

    for unit in read_units(group_files(find_files(path), 1 << 20), 0, 1 << 20):
        texts, _ = decode_documents(unit.blocks, "text")
        for text in texts:
            split_sentences(text)


def _learn(path: Path) -> None:
    import keras_bert

    keras_bert.learn_vocabulary(path, 40, progress=False)


# === Data files ===

_TABLE = b"text\tpair\tlabel\n" + b"".join(b"a good film %d\tthe plot\tgood\n" % n for n in range(8))
_CONLL = b"John B-person\nlives O\nin O\nParis B-location\n\nMary B-person\nsings O\n" * 3
_SQUAD = json.dumps(
    {
        "version": "1.1",
        "data": [
            {
                "title": "a",
                "paragraphs": [
                    {
                        "context": "The cat sat on the mat.",
                        "qas": [
                            {"id": "1", "question": "Who?", "answers": [{"text": "The cat", "answer_start": 0}]},
                            {"id": "2", "question": "Where?", "answers": [{"text": "mat", "answer_start": 19}]},
                        ],
                    }
                ],
            }
        ],
    }
).encode()
_COMMAND = {"text": "play jazz now", "intent": "play", "slots": [{"start": 5, "end": 9, "label": "genre"}]}
_COMMANDS = 4 * (json.dumps(_COMMAND).encode() + b"\n")
_RELATIONS = b'1\t"The <e1>cat</e1> sat on the <e2>mat</e2>."\nOn(e1,e2)\nComment:\n\n' * 4
_ASPECT = (
    b'<sentence id="1"><text>The food was good.</text><aspectTerms>\n'
    b'<aspectTerm term="food" polarity="positive" from="4" to="8"/></aspectTerms></sentence>\n'
)
_ASPECTS = b'<?xml version="1.0" encoding="utf-8"?>\n<sentences>\n' + 3 * _ASPECT + b"</sentences>\n"
_CHOICES = b"context,choice0,choice1,label\n" + b"It rains,take a coat,swim,0\n" * 4
_PAIRS = b"".join(json.dumps({"source": f"a b {n}", "target": f"b a {n}"}).encode() + b"\n" for n in range(4))
_ROWS = [{"text": f"a good film {n}", "pair": "the plot", "label": "good", "score": 0.5 * n} for n in range(4)]
_CSV = b'text,pair,label\n"a good, fine film","the ""plot""",good\na dull one,the cast,bad\n' * 4
_TOKENS = ["Bill", "founded", "Acme", "in", "-LRB-", "1990", "-RRB-"]
_TACRED = {"id": "1", "relation": "org:founded_by", "token": _TOKENS, "subj_start": 2, "subj_end": 2}
_TACRED |= {"obj_start": 0, "obj_end": 0, "subj_type": "ORGANIZATION", "obj_type": "PERSON"}
_ENTITIES = {"text": "Anna is in Rome", "entities": [{"start": 0, "end": 4, "label": "PER"}]}
_ANSWERS = {"question": "Who?", "context": "The cat sat.", "answers": [{"text": "The cat", "answer_start": 0}]}
_TEXT = b"A first document with a sentence. And another one.\nAnd a line.\n\nA second document, too.\n" * 8
_LINES = b"".join(json.dumps({"text": f"A document. Its number is {n}."}).encode() + b"\n" for n in range(8))


def _lines(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def _file(name: str, data: bytes) -> Callable[[Path], Path]:
    def make(directory: Path) -> Path:
        (directory / name).write_bytes(data)
        return directory / name

    return make


def _folder(directory: Path) -> Path:
    """Commands in three files."""
    place = directory / "snips"
    place.mkdir()
    (place / "seq.in").write_text("play jazz now\n" * 4)
    (place / "seq.out").write_text("O B-genre O\n" * 4)
    (place / "label").write_text("play\n" * 4)
    return place / "seq.out"


def _parallel(directory: Path) -> Path:
    (directory / "text.de").write_text("ein Hund\n" * 8)
    (directory / "text.en").write_text("a dog\n" * 8)
    return directory / "text.en"


def _glue(directory: Path) -> Path:
    place = directory / "RTE"
    place.mkdir()
    lines = ["index\tsentence1\tsentence2\tlabel", *(f"{n}\tA cat sat.\tA cat.\tentailment" for n in range(8))]
    (place / "dev.tsv").write_text("\n".join(lines) + "\n")
    return place / "dev.tsv"


def _read_commands_folder(path: Path) -> None:
    import keras_bert

    list(keras_bert.read_commands(path.parent))


def _read_parallel(path: Path) -> None:
    import keras_bert

    list(keras_bert.read_parallel(path.with_name("text.de"), path))


def _read_glue(path: Path) -> None:
    import keras_bert

    list(keras_bert.read_glue("RTE", path.parents[1], "dev"))


def _reader(name: str, **options: Any) -> Open:
    def read(path: Path) -> None:
        import keras_bert

        list(getattr(keras_bert, name)(path, **options))

    return read


_INSTANCES = {"instances": ["a good film", {"text": "a dull one"}], "inputs": ["the plot"]}
_REQUESTS = {**_INSTANCES, "signature_name": "serving_default", "options": {}, "input": ["a", "b"]}
_REQUEST = json.dumps({**_REQUESTS, "examples": [{"text": "a film"}], "context": {"text": "a"}}).encode()

_INDEX, _DATA = "bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"
TARGETS = {
    # === Checkpoints ===
    "safetensors": Target("safetensors", _checkpoint("huggingface", "model.safetensors"), _open_encoder),
    "safetensors_index": Target("json", _sharded, _open_encoder),
    "config": Target("json", _checkpoint("huggingface", "config.json"), _open_encoder),
    "tf1_index": Target("sorted_table", _checkpoint("google", _INDEX), _open_encoder),
    "tf1_data": Target("bytes", _checkpoint("google", _DATA), _open_encoder),
    "tf1_config": Target("json", _checkpoint("google", "bert_config.json"), _open_encoder),
    "keras_hub_weights": Target("bytes", _checkpoint("keras_hub", "model.weights.h5"), _open_encoder),
    "keras_hub_config": Target("json", _checkpoint("keras_hub", "config.json"), _open_encoder),
    "keras_hub_tokenizer": Target("json", _checkpoint("keras_hub", "tokenizer.json"), _open_encoder),
    "keras_archive": Target("zip", _keras_archive, _open_archive, always_refused=True),
    "sentence_modules": Target("json", _sentence_encoder("modules.json"), _open_pooling),
    "sentence_pooling": Target("json", _sentence_encoder("1_Pooling/config.json"), _open_pooling),
    # === Tokenizers ===
    "tokenizer_json": Target("json", _tokenizer_json, _open_tokenizer),
    "tokenizer_config": Target("json", _checkpoint("huggingface", "tokenizer_config.json"), _open_tokenizer),
    "vocab": Target("text", _checkpoint("huggingface", "vocab.txt"), _open_tokenizer),
    "sentencepiece": Target("protobuf", _sentencepiece("sentencepiece.bpe.model"), _open_tokenizer),
    "sentencepiece_map": Target("bytes", _sentencepiece("sentencepiece.bpe.model", mapped=True), _open_tokenizer),
    "unigram_json": Target("json", _sentencepiece("tokenizer.json"), _open_tokenizer),
    # === Tasks and files for devices ===
    "task": Target("json", _task("keras_bert_task.json"), _open_task),
    **{
        f"task_{name}": Target("json", _task("keras_bert_task.json", name), _open_task)
        for name in ("question_answering", "relation", "seq2seq", "similarity", "intent_slots", "zero_shot_similarity")
    },
    "labels": Target("text", _task("labels.txt", "classification"), _open_task),
    "ranges": Target("safetensors", _task("quantization.safetensors", "classification_quantized"), _open_task),
    "tflite": Target("flatbuffer", _tflite("classification"), _asked("classification")),
    "tflite_quantized": Target("flatbuffer", _tflite("classification_quantized"), _asked("classification_quantized")),
    "tflite_writer": Target("flatbuffer", _tflite("seq2seq"), _asked("seq2seq")),
    "tflite_metadata": Target("zip", _tflite("tagging_crf"), _asked("tagging_crf")),
    **{
        f"tflite_{name}": Target("zip", _tflite(name), _asked(name))
        for name in ("question_answering", "intent_slots", "multiple_choice", "aspect", "relation", "similarity")
    },
    "tflite_unigram": Target("zip", _unigram_file, _open_tflite),
    "request": Target("json", _file("body.json", _REQUEST), _ask_server),
    # === Corpora ===
    "shard": Target("records", _examples("shard-00000-00000.tfrecord"), _open_examples),
    "manifest": Target("json", _examples("manifest.json"), _open_examples),
    "corpus": Target("text", _file("corpus.txt", _TEXT), _read_corpus),
    "corpus_jsonl": Target("jsonl", _file("corpus.jsonl", _LINES), _read_corpus),
    "corpus_gz": Target("bytes", _file("corpus.txt.gz", gzip.compress(_TEXT, mtime=0)), _read_corpus),
    "vocabulary_text": Target("text", _file("corpus.txt", _TEXT), _learn),
    # === Data files ===
    "table": Target("text", _file("rows.tsv", _TABLE), _reader("read_rows")),
    "csv": Target("text", _file("rows.csv", _CSV), _reader("read_rows", pair="pair")),
    "rows_jsonl": Target("jsonl", _file("rows.jsonl", _lines(_ROWS)), _reader("read_rows", pair="pair")),
    "rows_json": Target("json", _file("rows.json", json.dumps(_ROWS).encode()), _reader("read_rows")),
    "rows_gz": Target("bytes", _file("rows.tsv.gz", gzip.compress(_TABLE, mtime=0)), _reader("read_rows")),
    "glue": Target("text", _glue, _read_glue),
    "jsonl": Target("jsonl", _file("pairs.jsonl", _PAIRS), _reader("read_generation")),
    "parallel": Target("text", _parallel, _read_parallel),
    "sentences": Target("jsonl", _file("pairs.jsonl", _lines(_ROWS)), _reader("read_sentences", label="score")),
    "conll": Target("text", _file("tags.conll", _CONLL), _reader("read_tagged")),
    "tagged_jsonl": Target("jsonl", _file("tags.jsonl", _lines(4 * [_ENTITIES])), _reader("read_tagged")),
    "squad": Target("json", _file("squad.json", _SQUAD), _reader("read_squad")),
    "squad_jsonl": Target("jsonl", _file("squad.jsonl", _lines(4 * [_ANSWERS])), _reader("read_squad")),
    "commands": Target("jsonl", _file("commands.jsonl", _COMMANDS), _reader("read_commands")),
    "commands_folder": Target("text", _folder, _read_commands_folder),
    "relations": Target("text", _file("relations.txt", _RELATIONS), _reader("read_relations")),
    "tacred": Target("json", _file("tacred.json", json.dumps(4 * [_TACRED]).encode()), _reader("read_relations")),
    "aspects": Target("text", _file("aspects.xml", _ASPECTS), _reader("read_aspects")),
    "choices": Target("text", _file("choices.csv", _CHOICES), _reader("read_choices")),
}
