"""Run a `.tflite` file on a device, with NumPy, LiteRT and `tokenizers` only: no TensorFlow, no Keras.

`load("model.tflite")` gives a callable that takes texts and gives the same answers as `task.predict`. Vocabulary,
labels and settings are in the file. Use it to try a file before it is shipped in an app.
"""

import copy
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from export.file.metadata_reader import FileMetadata, read_metadata
from export.runtime.row_runner import RowRunner
from export.runtime.tokenizer import DeviceTokenizer
from export.tasks.base.definition import ExportedTask
from export.tasks.base.reader import Reader
from export.tasks.base.registry import find_export
from keras_bert.text.tokenized_texts import FlatTokenizer, TokenizedTexts

if TYPE_CHECKING:
    from typing_extensions import Self

# === Tasks ===

_RUNTIMES: dict[str, type["Runtime"]] = {}  # by the name of the task


class Runtime:
    """A loaded file: takes inputs and gives answers, as its task's reader defines. `load` opens any file.

    `load` opens a task's files with the first subclass that names the `task`; it can take more forms of input, or have
    more methods. A task without a subclass gets a plain `Runtime`.

    Args:
        path: The `.tflite` file, or a directory that has it as `model.tflite`.
        metadata: The metadata of the file; `None` reads it.
        num_threads: Threads of the interpreter.
    """

    task: ClassVar[str | None] = None  # the task of its files; `None` is any
    writes: ClassVar[bool] = False  # whether it is for tasks that write texts
    runner_type: ClassVar[type] = RowRunner

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "task" in vars(cls) and cls.task is not None:
            known = _RUNTIMES.setdefault(cls.task, cls)
            if (known.__module__, known.__qualname__) == (cls.__module__, cls.__qualname__):
                _RUNTIMES[cls.task] = cls  # a module may be loaded again

    def __init__(self, path: str | os.PathLike[str], metadata: FileMetadata | None = None, *, num_threads: int = 1):
        path = _find_file(path)
        metadata = read_metadata(path) if metadata is None else metadata
        if self.task not in (None, metadata.task) or _find_task(path, metadata.task).writes != self.writes:
            wanted = repr(self.task) if self.task else f"a task that {'writes' if self.writes else 'reads'}"
            raise ValueError(f"{path} is for the task {metadata.task!r}, not {wanted}; open it with load.")
        self.metadata = metadata
        self.reader = make_reader(path, metadata)
        self._file: tuple[Any, ...] = (path, metadata, self.reader, num_threads)
        self._runner: Any = self.runner_type(*self._file)

    def __call__(self, *given: Any, **options: Any) -> Any:
        """Give the answers of the task's `predict`: one for one input, a list for a list."""
        inputs, is_one = self.reader.inputs(*given)
        if not inputs:
            return []
        data = self.reader.prepare(inputs)
        answers = self.reader.answers(self.outputs(data.tokenized), data, inputs, **options)
        return answers[0] if is_one else answers

    @property
    def longest(self) -> int:
        """The most tokens of a row."""
        return self.reader.sequence_length

    def another(self) -> "Self":
        """Open the file once more, for another thread: an interpreter of its own, and the same reader."""
        other = copy.copy(self)
        other._runner = self.runner_type(*self._file)
        return other

    def outputs(self, tokenized: TokenizedTexts) -> dict[str, np.ndarray]:
        """The outputs of the file for each row, by name. Outputs for each token come without padding."""
        return self._runner.run(tokenized)

    def row_of(self, length: int) -> TokenizedTexts:
        """A row of that many tokens, for timing."""
        if not 3 <= length <= self.longest:
            raise ValueError(f"Got length={length}; expected 3 to {self.longest}, the tokens that the file takes.")
        tokenizer = self.reader.tokenizer
        ids, splits = np.full(length - 2, tokenizer.sep_id, np.int32), np.array([0, length - 2])
        special = (tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id)
        return TokenizedTexts(ids, splits, None, None, *special)


class Classifier(Runtime):
    """Takes texts or pairs of texts; gives labels with probabilities, or numbers for regression.

    Example:
        >>> classify = Classifier("model.tflite")  # doctest: +SKIP
        >>> print(classify("wake me at seven")[0])  # doctest: +SKIP
        set_alarm (98%)
    """

    task = "classification"


class Tagger(Runtime):
    """Takes texts or lists of words; gives entities with their places in the text.

    Example:
        >>> find = Tagger("names.tflite")  # doctest: +SKIP
        >>> find("Ada lives in Malmö.")[1]  # doctest: +SKIP
        Entity(text='Malmö', label='LOC', start=13, end=18, probability=0.98)
    """

    task = "tagging"


class Answerer(Runtime):
    """Takes a question and a context, or a list of such pairs; gives exact parts of the contexts.

    Example:
        >>> answer = Answerer("answers.tflite")  # doctest: +SKIP
        >>> print(answer("Where does the train go?", "The train to Malmö leaves at nine."))  # doctest: +SKIP
        Malmö (97%)
    """

    task = "question_answering"


class RelationFinder(Runtime):
    """Takes texts with two marked entities; gives the relations between them, with probabilities.

    Example:
        >>> relate = RelationFinder("relations.tflite")  # doctest: +SKIP
        >>> print(relate("The <e1>lid</e1> of a <e2>jar</e2>.")[0])  # doctest: +SKIP
        Component-Whole(e1,e2) (97%)
    """

    task = "relation"


class AspectJudge(Runtime):
    """Takes pairs of a sentence and an aspect, or sentences with `aspects`; gives a polarity for each.

    Example:
        >>> judge = AspectJudge("aspects.tflite")  # doctest: +SKIP
        >>> print(*judge("Great pizza, slow service.", aspects=["pizza", "service"]))  # doctest: +SKIP
        pizza: positive (99%) service: negative (93%)
    """

    task = "aspect"

    def __call__(self, texts: Any, *, aspects: list[str] | None = None) -> Any:
        """Give an `AspectPolarity` for each pair; with `aspects`, a list of them for each sentence."""
        if aspects is None:
            return super().__call__(texts)
        if isinstance(aspects, str):
            raise TypeError(f"Got aspects={aspects!r}, which is one string; expected a list: [{aspects!r}].")
        sentences = [texts] if isinstance(texts, str) else list(texts)
        answers = [super(AspectJudge, self).__call__([(one, aspect) for aspect in aspects]) for one in sentences]
        return answers[0] if isinstance(texts, str) else answers


class Chooser(Runtime):
    """Takes a context and choices, or a list of such; gives the choices, the likeliest first, with probabilities.

    Example:
        >>> choose = Chooser("endings.tflite")  # doctest: +SKIP
        >>> print(choose("She opens the umbrella.", ["It sings.", "It stops the rain."])[0])  # doctest: +SKIP
        It stops the rain. (96%)
    """

    task = "multiple_choice"


class Assistant(Runtime):
    """Takes commands; gives an intent and slots with their places in the text.

    Example:
        >>> understand = Assistant("assistant.tflite")  # doctest: +SKIP
        >>> print(understand("wake me at six"))  # doctest: +SKIP
        set_alarm (98%): six (time, 97%)
    """

    task = "intent_slots"


class Embedder(Runtime):
    """Takes texts; gives float32 vectors `[n, H]`, or `[H]` for one text. Has `similarity` and `search`.

    Example:
        >>> embed = Embedder("embedder.tflite")  # doctest: +SKIP
        >>> embed.similarity(["a cat", "a car"], ["a kitten"])  # doctest: +SKIP
        array([[0.8], [0.3]])
    """

    task = "similarity"

    def __call__(
        self, texts: Any, *, prompt_name: str | None = None, dimensions: int | None = None
    ) -> np.ndarray | list[Any]:
        """Give the vectors of texts.

        Args:
            texts: A text, or several.
            prompt_name: The prompt to put before each; `None` is the default, `""` is no prompt.
            dimensions: How many of the first numbers of a vector to give; `None` gives all.
        """
        from keras_bert.decoding.similarity import shorten_vectors

        reader: Any = self.reader
        inputs, is_one = reader.inputs(texts)
        if not inputs:
            return []
        data = reader.prepare(inputs, prompt_name)
        vectors = np.stack(reader.answers(self.outputs(data.tokenized), data, inputs))
        if dimensions is not None:
            vectors = shorten_vectors(vectors, dimensions, normalize=reader.settings["normalize"])
        return vectors[0] if is_one else vectors

    def similarity(self, first: Any, second: Any) -> np.ndarray:
        """The cosine of each first text with each second, `[n, m]`. Takes texts, or their vectors."""
        from keras_bert.decoding.similarity import cosine_matrix

        return cosine_matrix(self._vectors(first), self._vectors(second))

    def search(self, queries: Any, collection: Any, *, top: int = 5) -> list[Any]:
        """Find the texts of a collection that are nearest to each query, as `SentenceEmbedder.search` does."""
        from keras_bert.decoding.similarity import search_vectors

        if isinstance(queries, str):
            return self.search([queries], collection, top=top)[0]
        texts = None if isinstance(collection, np.ndarray) else list(collection)
        reader: Any = self.reader
        found = self._vectors(collection, reader.prompts.document)
        asked = self._vectors(queries, reader.prompts.query)
        return search_vectors(asked, found, top=top, texts=texts)

    def _vectors(self, given: Any, prompt_name: str | None = None) -> np.ndarray:
        if isinstance(given, np.ndarray) and given.dtype.kind == "f":
            return given
        return np.asarray(self([given] if isinstance(given, str) else list(given), prompt_name=prompt_name))


# === Opening ===


def load(path: str | os.PathLike[str], *, num_threads: int = 1) -> Runtime:
    """Open a file that `export.convert` wrote from a task, or a directory that has it as `model.tflite`.

    Args:
        path: The file. Its metadata is checked before anything is run.
        num_threads: Threads of the interpreter.

    Returns:
        A callable that takes a text or a list of texts and gives the answers of `task.predict`.

    Example:
        >>> answer = load("model.tflite")  # doctest: +SKIP
        >>> print(answer("wake me at seven")[0])  # doctest: +SKIP
        set_alarm (98%)
    """
    path = _find_file(path)
    metadata = read_metadata(path)
    runtime = _RUNTIMES.get(metadata.task) or _general_runtime(path, metadata.task)
    return runtime(path, metadata, num_threads=num_threads)


def _general_runtime(path: Path, task: str) -> type[Runtime]:
    """The runtime of a task without a subclass."""
    if not _find_task(path, task).writes:
        return Runtime
    from export.runtime.writer import Writer  # imported only when a file needs it

    return Writer


def _find_task(path: Path | str | os.PathLike[str], name: str) -> ExportedTask:
    try:
        return find_export(name)
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from None


def _find_file(path: str | os.PathLike[str]) -> Path:
    path = Path(path).expanduser()
    path = path / "model.tflite" if path.is_dir() else path
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}; expected a .tflite file that export.convert wrote.")
    return path


def _make_tokenizer(metadata: FileMetadata) -> FlatTokenizer:
    if metadata.unigram is None:
        return DeviceTokenizer(metadata.vocabulary, metadata.tokenizer)
    from export.runtime.unigram_tokenizer import DeviceUnigramTokenizer  # imported only when a file needs it

    return DeviceUnigramTokenizer(metadata.unigram)


def make_reader(path: str | os.PathLike[str], metadata: FileMetadata) -> Reader:
    """Build the reader of a file. Its metadata is checked here, before anything is run.

    Args:
        path: The file's name, for errors.
        metadata: The metadata of the file.

    Example:
        >>> make_reader("model.tflite", read_metadata("model.tflite")).sequence_length  # doctest: +SKIP
        128
    """
    limit = metadata.settings.get("sequence_length", 512)
    if type(limit) is not int or limit < 3:
        raise ValueError(f"{path} has sequence_length={limit!r}; expected a number of tokens of at least 3.")
    exported = _find_task(path, metadata.task)
    try:
        reader = exported.reader(
            _make_tokenizer(metadata),
            sequence_length=min(limit, max(length or limit for length in metadata.signatures.values())),
            labels=metadata.labels,
            kind=metadata.kind,
            settings=metadata.settings,
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if missing := [name for name in reader.outputs if name not in metadata.outputs]:
        raise ValueError(
            f"{path} is for {metadata.task} and has the outputs {list(metadata.outputs)}, which do not go together: "
            f"expected {', '.join(missing)} too. Export it again."
        )
    return reader
