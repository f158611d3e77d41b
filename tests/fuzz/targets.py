"""What is fuzzed: for each format a good file, how it is opened, and what to do with what was opened.

A target that opens a broken file either raises one of the errors that a user can read, or gives something whole.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests" / "compat" / "0.1.0"

Open = Callable[[Path], Any]


@dataclass(frozen=True)
class Target:
    """A format.

    Args:
        kind: How its files are broken; see `mutations.mutate`.
        make: Writes a good place into a directory and returns the file in it to break.
        open: Opens the place of that file; raises what a user would see.
        errors: The errors that are an answer.
    """

    kind: str
    make: Callable[[Path], Path]
    open: Open
    errors: tuple[type[BaseException], ...] = (ValueError, OSError)


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


def _open_encoder(path: Path) -> None:
    import keras
    import numpy as np

    from keras_bert import load_encoder

    place = next(parent for parent in path.parents if parent.name == "model")
    encoder, _ = load_encoder(place)
    ids = np.ones((1, 4), "int32")
    encoder({"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": ids})  # whole: it can be called
    keras.backend.clear_session()


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
        tokenizer("a good film")


# === Tasks and files for devices ===


def _task(file: str) -> Callable[[Path], Path]:
    def make(directory: Path) -> Path:
        found = CORPUS / "tasks" / "tagging_softmax"
        shutil.copytree(found, directory / "task", dirs_exist_ok=True)
        return directory / "task" / file

    return make


def _open_task(path: Path) -> None:
    import keras

    from keras_bert import load_task

    load_task(path.parent).predict("a good film")
    keras.backend.clear_session()


def _tflite(directory: Path) -> Path:
    return Path(shutil.copy(CORPUS / "tflite" / "classification.tflite", directory / "model.tflite"))


def _open_tflite(path: Path) -> None:
    import export

    export.load(path)("a good film")


def _open_metadata(path: Path) -> None:
    import export

    export.read_metadata(path)


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


def _open_manifest(path: Path) -> None:
    _open_examples(path)


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


def _file(name: str, data: bytes) -> Callable[[Path], Path]:
    def make(directory: Path) -> Path:
        (directory / name).write_bytes(data)
        return directory / name

    return make


def _reader(name: str, **options: Any) -> Open:
    def read(path: Path) -> None:
        import keras_bert

        list(getattr(keras_bert, name)(path, **options))

    return read


TARGETS = {
    "safetensors": Target("safetensors", _checkpoint("huggingface", "model.safetensors"), _open_encoder),
    "safetensors_index": Target("json", _sharded, _open_encoder),
    "config": Target("json", _checkpoint("huggingface", "config.json"), _open_encoder),
    "tf1_index": Target("bytes", _checkpoint("google", "bert_model.ckpt.index"), _open_encoder),
    "tf1_data": Target("bytes", _checkpoint("google", "bert_model.ckpt.data-00000-of-00001"), _open_encoder),
    "keras_hub_weights": Target("bytes", _checkpoint("keras_hub", "model.weights.h5"), _open_encoder),
    "keras_hub_config": Target("json", _checkpoint("keras_hub", "config.json"), _open_encoder),
    "tokenizer_json": Target("json", _tokenizer_json, _open_tokenizer),
    "vocab": Target("text", _checkpoint("huggingface", "vocab.txt"), _open_tokenizer),
    "task": Target("json", _task("keras_bert_task.json"), _open_task),
    "tflite": Target("bytes", _tflite, _open_tflite),
    "tflite_metadata": Target("zip", _tflite, _open_metadata),
    "shard": Target("bytes", _examples("shard-00000-00000.tfrecord"), _open_examples),
    "manifest": Target("json", _examples("manifest.json"), _open_manifest),
    "table": Target("text", _file("rows.tsv", _TABLE), _reader("read_rows")),
    "jsonl": Target("jsonl", _file("pairs.jsonl", _PAIRS), _reader("read_generation")),
    "conll": Target("text", _file("tags.conll", _CONLL), _reader("read_tagged")),
    "squad": Target("json", _file("squad.json", _SQUAD), _reader("read_squad")),
    "commands": Target("jsonl", _file("commands.jsonl", _COMMANDS), _reader("read_commands")),
    "relations": Target("text", _file("relations.txt", _RELATIONS), _reader("read_relations")),
    "aspects": Target("text", _file("aspects.xml", _ASPECTS), _reader("read_aspects")),
    "choices": Target("text", _file("choices.csv", _CHOICES), _reader("read_choices")),
}
