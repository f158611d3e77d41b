"""Export generation: sources, answered with the texts that are written after them. The file has two graphs."""

import itertools
from typing import Any, ClassVar, NoReturn

import numpy as np

from export.tasks.base.definition import ExportedTask
from export.tasks.base.examples import PROBES, Examples
from export.tasks.base.reader import Reader
from export.tasks.base.registry import register_export
from export.tasks.base.served_file import Columns, ServedFile
from export.tasks.base.settings import COUNT, SHARE, Setting, one_of
from keras_bert.batching.prepared_data import PreparedData
from keras_bert.decoding.token_choice import SAMPLERS
from keras_bert.decoding.written_text import write_text
from keras_bert.tasks.generation.files import Source, as_generation_rows, as_source
from keras_bert.tasks.generation.rows import Room, tokenize_sources
from keras_bert.text.tokenized_texts import TokenizedTexts

# === The device ===


class SourceReader(Reader):
    """Reads sources, each a text or a list of texts that belong together; answers with texts.

    A row is a source, so `sequence_length` is the most tokens of a source. Answers come from `written_ids`, `[rows, L]`
    with padding at the end, which the loop around the file's graphs gives.
    """

    outputs = ("logits",)
    expected = {**Reader.expected, "target_length": COUNT, "keeps": one_of("start", "end")}

    @classmethod
    def from_line(cls, line: str) -> str | list[str]:
        return line.split("\t") if "\t" in line else line

    def prepare(self, inputs: list[Any]) -> PreparedData:
        return self.arrange([as_source(text, row) for row, text in enumerate(inputs, 1)])

    def arrange(self, sources: list[Source]) -> PreparedData:
        """Make a row of each source; a source without words is only special tokens."""
        room = Room(self.sequence_length, self.settings["target_length"], self.settings["keeps"])
        ids, splits, _ = tokenize_sources(self.tokenizer, sources, room)
        special = {name: getattr(self.tokenizer, name) for name in ("cls_id", "sep_id", "pad_id")}
        return PreparedData(TokenizedTexts(ids, splits, **special), None, None, np.arange(len(sources)))

    def answers(  # type: ignore[override]  # it has no options
        self, outputs: dict[str, np.ndarray], data: Any, inputs: list[Any]
    ) -> list[str]:
        pad_id = self.tokenizer.pad_id
        return [
            write_text(self.tokenizer.id_to_token(token) for token in row[row != pad_id].tolist())
            for row in outputs["written_ids"]
        ]


def source_rows(tokenized: TokenizedTexts) -> list[np.ndarray]:
    """The tokens of each source, `[CLS]` first and `[SEP]` last.

    Example:
        >>> source_rows(TokenizedTexts(np.array([7, 8, 9]), np.array([0, 2, 3])))
        [array([2, 7, 8, 3]), array([2, 9, 3])]
    """
    ids, splits, _ = tokenized.packed()
    return [ids[begin:end] for begin, end in itertools.pairwise(splits)]


# === The server ===

_LITTLE = Setting(lambda value: type(value) is int and 0 <= value <= 512, "a whole number from 0 to 512")
_BEAMS = Setting(lambda value: type(value) is int and 1 <= value <= 16, "a whole number from 1 to 16")
_POSITIVE = Setting(lambda value: type(value) in (int, float) and 0 < value <= 100, "a number over 0, at most 100")
_SEED = Setting(lambda value: value is None or (type(value) is int and 0 <= value < 2**32), "a whole number, or null")


class ServedTexts(ServedFile):
    """Answers with the texts that are written after sources."""

    variants: ClassVar[dict[str, dict[str, Any]]] = {"generate": {}, "generate_beam": {"sampler": "beam"}}
    options: ClassVar[dict[str, Setting]] = {
        "sampler": one_of(*SAMPLERS),
        "max_length": COUNT,
        "min_length": _LITTLE,
        "no_repeat_ngram": _LITTLE,
        "num_beams": _BEAMS,
        "k": COUNT,
        "p": SHARE,
        "temperature": _POSITIVE,
        "length_penalty": _POSITIVE,
        "seed": _SEED,
    }

    def prepare(self, inputs: list[Any]) -> PreparedData:
        return self.reader.arrange(inputs)

    def columns(self, outputs: dict[str, np.ndarray], data: Any, inputs: list[Any]) -> Columns:
        return {
            "written": self.reader.answers(outputs, data, inputs),
            "written_ids": list(outputs["written_ids"]),
            "truncated": self.truncated(data, inputs),
        }


# === The file ===


def _no_single_graph(task: Any, *others: Any) -> NoReturn:
    raise ValueError(
        f"The file of {type(task).__name__} has two graphs, one that reads and one that writes a token, so it has no "
        "single set of outputs. Use export.convert, load, verify and save_serving; functions that change the model "
        "do not take this task."
    )


# === Data ===


def _read_examples(task: Any, x: Any, y: Any, **columns: Any) -> Examples:
    """Read examples. Sources alone are strings or lists of strings; tuples are pairs of source and target."""
    if x is None or (y is None and isinstance(x, list | tuple) and all(isinstance(one, str | list) for one in x)):
        return Examples(list(PROBES if x is None else x))
    rows = as_generation_rows(x, y, **columns)
    known = all(example.target is not None for example in rows)
    return Examples(list(rows.sources), rows if known else None)


register_export(
    ExportedTask(
        name="seq2seq",
        reader=SourceReader,
        in_graph=_no_single_graph,
        from_task=_no_single_graph,
        to_task=_no_single_graph,
        writes=True,
        read_examples=_read_examples,
        served_file=ServedTexts,
    )
)
