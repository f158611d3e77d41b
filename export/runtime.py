"""Answers from a `.tflite` file on the device: NumPy, LiteRT and `tokenizers`, no TensorFlow and no Keras.

`load("model.tflite")` gives a callable: texts → the same answers as `task.predict`. Vocabulary, labels and settings are
in the file. It is what an app does, in Python, so that the file can be tried before it is shipped; a room of its own
because it must run where nothing else of this project is needed.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from export.metadata import FileMetadata, read_metadata
from keras_bert.decoding import choose_labels, inverse_sigmoid, mean_by_owner, sigmoid, softmax, sort_labels
from keras_bert.tokenized_texts import TokenizedTexts

# === Tasks ===


class Runtime(ABC):
    """A loaded file; a subclass for each task says what an answer is. `load` finds the right one.

    Args:
        path: The `.tflite` file, or a directory that has it as `model.tflite`.
        metadata: What it says of itself; `None` reads it.
        num_threads: Threads of the interpreter.
    """

    task: ClassVar[str]

    def __init__(self, path: str | os.PathLike, metadata: FileMetadata | None = None, *, num_threads: int = 1):
        path = _find_file(path)
        metadata = read_metadata(path) if metadata is None else metadata
        if metadata.task != self.task:
            raise ValueError(f"{path} is for the task {metadata.task!r}, not {self.task!r}; open it with load.")
        self._check(path, metadata)
        self.metadata = metadata
        self._tokenizer = _make_tokenizer(metadata)
        self._special = {name: metadata.vocabulary.index(name) for name in ("[PAD]", "[CLS]", "[SEP]")}
        self._signatures = _Signatures(path, metadata, num_threads)

    def __call__(self, texts: str | Sequence, **options) -> Any:
        """The answer for a text, or a list of answers for a list of texts or pairs of texts."""
        if isinstance(texts, str):
            return self([texts], **options)[0]
        texts = list(texts)
        if not texts:
            return []
        tokenized, owners = self.tokenize(*_split_pairs(texts))
        return self._answers(self.outputs(tokenized), owners, **options)

    @property
    def longest(self) -> int:
        """The most tokens of a row."""
        return self._signatures.longest

    def outputs(self, tokenized: TokenizedTexts) -> dict[str, np.ndarray]:
        """What the file gives for each row, by name."""
        return self._signatures.run(tokenized)

    def row_of(self, length: int) -> TokenizedTexts:
        """A row of that many tokens, whatever they say; for timing."""
        if not 3 <= length <= self.longest:
            raise ValueError(f"length={length}: the file takes rows of 3 to {self.longest} tokens.")
        ids = np.full(length - 2, self._special["[SEP]"], np.int32)
        return TokenizedTexts(ids, np.array([0, length - 2]), **self._special_ids())

    def _special_ids(self):
        return {f"{name.strip('[]').lower()}_id": index for name, index in self._special.items()}

    def _check(self, path: Path, metadata: FileMetadata) -> None:  # noqa: B027  not every task needs one
        """An error where the file, which may come from anywhere, lacks what the answers are made of."""

    @abstractmethod
    def _answers(self, outputs: dict[str, np.ndarray], owners: np.ndarray, **options) -> list:
        """The answers, from outputs `[rows, …]` and the text that each row belongs to."""

    def tokenize(self, texts: list[str], pairs: list[str] | None = None) -> tuple[TokenizedTexts, np.ndarray]:
        """Texts as rows of at most `longest` tokens, cut or in windows, as the task was told; and whose row each is."""
        sides = [
            _flat(self._tokenizer.encode_batch_fast(side, add_special_tokens=False)) for side in (texts, pairs or [])
        ]
        tokenized = TokenizedTexts(*sides[0], *(sides[1] if pairs else ()), **self._special_ids())
        length = self.longest
        if self.metadata.settings.get("long_texts") == "windows":
            return tokenized.windows(length, max(1, length // 2))
        return tokenized.trimmed(length)[0], np.arange(len(tokenized))


class Classifier(Runtime):
    """Texts → labels with probabilities, or numbers where the model was trained for regression.

    Example:
        >>> classify = Classifier("model.tflite")  # doctest: +SKIP
        >>> print(classify("wake me at seven")[0])  # doctest: +SKIP
        set_alarm (98%)
    """

    task = "classification"

    def _check(self, path, metadata):
        outputs = {"single_label": "probabilities", "multi_label": "probabilities", "regression": "class_logits"}
        output = outputs.get(metadata.kind)
        if output not in metadata.outputs or (metadata.labels is None) != (metadata.kind == "regression"):
            raise ValueError(
                f"{path} has kind {metadata.kind!r}, outputs {list(metadata.outputs)} and "
                f"{len(metadata.labels or ())} labels, which do not go together; export it again."
            )

    def _answers(self, outputs, owners, *, threshold: float = 0.5):
        kind, labels = self.metadata.kind, self.metadata.labels
        if kind == "regression":
            return [float(value) for value in mean_by_owner(outputs["class_logits"], owners)[:, 0]]
        probabilities = np.asarray(outputs["probabilities"], np.float64)
        if probabilities.shape[1:] != (len(labels),):
            raise ValueError(
                f"The file gives {probabilities.shape[1:]} numbers for {len(labels)} labels; export it again."
            )
        # The windows of a text share its answer by the mean of their logits, as in Keras. Softmax has lost a constant
        # for each window, and the softmax of the mean loses it again.
        if kind == "multi_label":
            probabilities = sigmoid(mean_by_owner(inverse_sigmoid(probabilities), owners))
            return [choose_labels(row, labels, threshold=threshold) for row in probabilities]
        tiny = np.finfo(np.float32).tiny
        return [sort_labels(row, labels) for row in softmax(mean_by_owner(np.log(probabilities + tiny), owners))]


_RUNTIMES = {runtime.task: runtime for runtime in (Classifier,)}


def load(path: str | os.PathLike, *, num_threads: int = 1) -> Runtime:
    """Open a file that `export.convert` wrote from a task, or a directory that has it as `model.tflite`.

    Args:
        path: The file. What it says of itself is checked before anything is run.
        num_threads: Threads of the interpreter.

    Returns:
        A callable: a text or a list of texts → the answers of `task.predict`.

    Example:
        >>> answer = load("model.tflite")  # doctest: +SKIP
        >>> print(answer("wake me at seven")[0])  # doctest: +SKIP
        set_alarm (98%)
    """
    path = _find_file(path)
    metadata = read_metadata(path)
    if metadata.task not in _RUNTIMES:
        raise ValueError(f"{path} is for the task {metadata.task!r}; this version knows {', '.join(_RUNTIMES)}.")
    return _RUNTIMES[metadata.task](path, metadata, num_threads=num_threads)


def _find_file(path):
    path = Path(path)
    path = path / "model.tflite" if path.is_dir() else path
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}; expected a .tflite file that export.convert wrote.")
    return path


# === Texts ===


def _is_pair(text):
    return isinstance(text, tuple | list) and len(text) == 2 and all(isinstance(side, str) for side in text)


def _split_pairs(texts):
    are_pairs = {_is_pair(text) for text in texts}
    if are_pairs == {True}:
        return map(list, zip(*texts, strict=True))
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(
                f"Got {type(text).__name__} {str(text)[:40]!r}; expected strings, or pairs of strings only."
            )
    return texts, None


def _flat(encodings):
    ids = [encoding.ids for encoding in encodings]
    splits = np.concatenate([[0], np.cumsum([len(row) for row in ids], dtype=np.int64)]).astype(np.int64)
    return np.array([index for row in ids for index in row], np.int32), splits


def _make_tokenizer(metadata):
    """BERT's tokenizer in Rust, with no special tokens: what stands in a user's text is text."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    vocabulary = {token: index for index, token in enumerate(metadata.vocabulary)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    settings = metadata.tokenizer
    tokenizer.normalizer = normalizers.BertNormalizer(
        lowercase=settings.get("do_lower_case", True),
        strip_accents=settings.get("strip_accents"),
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


# === Signatures ===


class _Signatures:
    """The signatures of a file; each row runs through the shortest that it fits."""

    def __init__(self, path, metadata, num_threads):
        try:
            from ai_edge_litert.interpreter import Interpreter
        except ImportError as error:
            raise ImportError("Running a .tflite file needs LiteRT: pip install 'keras-bert-edge[export]'") from error
        try:
            self._interpreter = Interpreter(model_path=str(path), num_threads=num_threads)
            present = set(self._interpreter.get_signature_list())
        except ValueError as error:
            raise ValueError(f"{path} is not a TFLite model, or is cut short: {error}") from None
        if missing := set(metadata.signatures) - present:
            raise ValueError(f"{path} names the signatures {sorted(missing)}, which it does not have.")
        self._lengths, self._runners = metadata.signatures, {}
        for key, length in self._lengths.items():
            self._check_length(path, key, length)
        limit = metadata.settings.get("sequence_length", 512)
        if type(limit) is not int or limit < 3:
            raise ValueError(f"{path} has sequence_length={limit!r}; expected a number of tokens, 3 or more.")
        self.longest = min(limit, max(length or limit for length in self._lengths.values()))

    def run(self, tokenized: TokenizedTexts) -> dict[str, np.ndarray]:
        """The outputs of all rows, one at a time: the files have batch 1."""
        ids, splits, second_begins = tokenized.packed()
        rows = [
            self._run_row(ids[splits[i] : splits[i + 1]], int(second_begins[i]), tokenized.pad_id)
            for i in range(len(tokenized))
        ]
        return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}

    def _run_row(self, ids, second_begins, pad_id):
        key, length = next((key, n) for key, n in self._lengths.items() if n is None or n >= len(ids))
        length = len(ids) if length is None else length
        token_ids = np.full((1, length), pad_id, np.int32)
        token_ids[0, : len(ids)] = ids
        places = np.arange(length)[None, :]
        return self._runner(key)(
            token_ids=token_ids,
            segment_ids=((places >= second_begins) & (places < len(ids))).astype(np.int32),
            padding_mask=(places < len(ids)).astype(np.int32),
        )

    def _check_length(self, path, key, length):
        """An error where metadata and graph differ, which the interpreter would name by the number of a node."""
        inputs = self._runner(key).get_input_details()
        shapes = {name: tuple(map(int, details["shape_signature"])) for name, details in inputs.items()}
        expected = dict.fromkeys(("token_ids", "segment_ids", "padding_mask"), (1, -1 if length is None else length))
        if shapes != expected:
            raise ValueError(f"{path}: the signature {key!r} takes {shapes}, not {expected} as its metadata says.")

    def _runner(self, key):
        """Its tensors are allocated when it first runs, not here."""
        if key not in self._runners:
            self._runners[key] = self._interpreter.get_signature_runner(key)
        return self._runners[key]
