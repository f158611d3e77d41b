"""Answers from an exported directory on the device: NumPy, LiteRT and `tokenizers`, no TensorFlow and no Keras.

Takes a directory with `model.tflite`, `vocab.txt`, `tokenizer_config.json` and `labels.txt`, gives a callable: texts →
ranked labels. It is what an app does, in Python, so that the file can be tried before it is shipped.
"""

import json
from pathlib import Path

import numpy as np

from keras_bert.decoding import Label, rank_labels


class Classifier:
    """Classifies texts with an exported model.

    Example:
        >>> classify = Classifier("exported/")  # doctest: +SKIP
        >>> print(classify("wake me at seven")[0])  # doctest: +SKIP
        set_alarm (98%)
    """

    def __init__(self, directory: str | Path, *, num_threads: int = 1):
        directory = Path(directory)
        for name in ("model.tflite", "vocab.txt", "labels.txt"):
            if not (directory / name).is_file():
                raise FileNotFoundError(f"{directory} has no {name}; expected a directory with an exported classifier.")
        self.labels = (directory / "labels.txt").read_text(encoding="utf-8").split("\n")[:-1]
        self._tokenizer, self._special = _load_tokenizer(directory)
        self._runners = _load_runners(directory / "model.tflite", num_threads)

    def __call__(self, text: str) -> list[Label]:
        """All labels of one text, the likeliest first. A text over the longest length is cut."""
        if not isinstance(text, str):
            raise TypeError(f"Expected one string; got {type(text).__name__}.")
        ids = self._tokenizer.encode(text, add_special_tokens=False).ids
        length = next((n for n in self._runners if n >= len(ids) + 2), max(self._runners))
        outputs = self._runners[length](**self._pack(ids, length))
        return rank_labels(next(iter(outputs.values()))[0], self.labels)

    def _pack(self, ids, length):
        row = [self._special["[CLS]"], *ids[: length - 2], self._special["[SEP]"]]
        token_ids = np.full((1, length), self._special["[PAD]"], np.int32)
        token_ids[0, : len(row)] = row
        padding_mask = (np.arange(length)[None, :] < len(row)).astype(np.int32)
        return {"token_ids": token_ids, "segment_ids": np.zeros_like(token_ids), "padding_mask": padding_mask}


load = Classifier


def _load_tokenizer(directory):
    """BERT's tokenizer in Rust, with no special tokens: what stands in a user's text is text."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    settings_file = directory / "tokenizer_config.json"
    settings = json.loads(settings_file.read_text(encoding="utf-8")) if settings_file.is_file() else {}
    vocabulary = (directory / "vocab.txt").read_text(encoding="utf-8").split("\n")
    vocabulary = {token: index for index, token in enumerate(vocabulary) if token}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(
        lowercase=settings.get("do_lower_case", True),
        strip_accents=settings.get("strip_accents"),
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer, {name: vocabulary[name] for name in ("[PAD]", "[CLS]", "[SEP]")}


def _load_runners(path, num_threads):
    """A signature runner per sequence length, shortest first."""
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError as error:
        raise ImportError("Running a .tflite file needs LiteRT: pip install 'keras-bert-edge[export]'") from error
    interpreter = Interpreter(model_path=str(path), num_threads=num_threads)
    lengths = sorted(int(key.removeprefix("length_")) for key in interpreter.get_signature_list())
    return {length: interpreter.get_signature_runner(f"length_{length}") for length in lengths}
