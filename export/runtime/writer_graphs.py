"""Run the two graphs of a writer's `.tflite` file: read a source, then give the scores of the next token, step by step.

The signatures are `read_source` and `next_token`. A `Continuation` keeps what was written after a source in caches that
go into the graph and come out of it. `keras_bert/decoding/token_choice.py` chooses the tokens. Only LiteRT and NumPy
are needed.

`keras_bert/tasks/generation/task.py` describes how the graphs are run. If a file has several lengths, its signatures
end in `_<length>`. `next_tokens` is `next_token` for several beams at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from export.file.interpreter import open_interpreter
from export.file.metadata_reader import FileMetadata
from export.tasks.base.reader import Reader

READ, NEXT, NEXT_OF_BEAMS = "read_source", "next_token", "next_tokens"
_ROW_INPUTS = ("token_ids", "segment_ids", "padding_mask")

Graph = Callable[..., dict[str, np.ndarray]]


# === The graphs of a file ===


@dataclass(frozen=True)
class WriterSizes:
    """The sizes of a writer's tensors: layers, heads, their width, and the tokens of a source and a text."""

    layers: int
    heads: int
    width: int
    length: int
    slots: int

    def caches(self, part: str, batch: int, slots: int) -> dict[str, tuple[int, ...]]:
        """The shapes of the keys and values of a part (`source`, `target` or `new`), by name.

        Example:
            >>> WriterSizes(1, 2, 16, 8, 4).caches("new", 1, 1)
            {'new_keys_0': (1, 2, 16, 1), 'new_values_0': (1, 2, 1, 16)}
        """
        shapes = {"keys": (batch, self.heads, self.width, slots), "values": (batch, self.heads, slots, self.width)}
        return {f"{part}_{kind}_{layer}": shapes[kind] for layer in range(self.layers) for kind in ("keys", "values")}

    def read(self) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
        """The shapes of the inputs and outputs of the graph that reads."""
        return dict.fromkeys(_ROW_INPUTS, (1, self.length)), self.caches("source", 1, self.length)

    def step(self, batch: int, vocabulary: int) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
        """The shapes of the inputs and outputs of a graph that writes the next token."""
        takes: dict[str, tuple[int, ...]] = dict.fromkeys(("token_ids", "segment_ids", "position_ids"), (batch, 1))
        takes |= {"source_mask": (batch, self.length), "target_mask": (batch, self.slots)}
        takes |= {**self.caches("source", batch, self.length), **self.caches("target", batch, self.slots)}
        return takes, {"logits": (batch, vocabulary), **self.caches("new", batch, 1)}


@dataclass(frozen=True)
class WriterGraphs:
    """The graphs for sources of one length: one that reads, and those that write, by their batch size."""

    sizes: WriterSizes
    vocabulary: int
    read: Graph
    steps: dict[int, Graph]


class WriterRunner:
    """The graphs of a file; each source runs through the shortest that it fits.

    Args:
        path: The file, or its bytes.
        metadata: The metadata of the file.
        reader: Its tokenizer and settings.
        num_threads: Threads of the interpreter.
    """

    def __init__(self, path: Path | bytes, metadata: FileMetadata, reader: Reader, num_threads: int = 1):
        self._path = "The file" if isinstance(path, bytes) else path
        self._pad_id, self._start_id = reader.tokenizer.pad_id, reader.tokenizer.sep_id
        self._interpreter = open_interpreter(path, num_threads=num_threads)
        self.slots, tokens = reader.settings["target_length"], reader.tokenizer.vocabulary_size
        self._graphs = [self._open(key, length) for key, length in metadata.signatures.items()]
        self.vocabulary = self._graphs[0].vocabulary
        if any(graphs.vocabulary != self.vocabulary for graphs in self._graphs) or self.vocabulary < tokens:
            raise ValueError(f"{self._path} gives {self.vocabulary} scores for {tokens} tokens; export it again.")

    def begin(self, ids: np.ndarray, rows: int = 1) -> "Continuation":
        """Read a source.

        Args:
            ids: Its tokens, `[CLS]` first and `[SEP]` last.
            rows: How many texts to write after it, side by side.
        """
        graphs = next((graphs for graphs in self._graphs if graphs.sizes.length >= len(ids)), None)
        if graphs is None:
            raise ValueError(
                f"A source has {len(ids)} tokens; the file takes at most {self._graphs[-1].sizes.length}. Shorten it."
            )
        row = np.full((1, graphs.sizes.length), self._pad_id, np.int32)
        row[0, : len(ids)] = ids
        is_token = (np.arange(row.shape[1])[None] < len(ids)).astype(np.int32)
        source = graphs.read(**dict(zip(_ROW_INPUTS, (row, np.zeros_like(row), is_token), strict=True)))
        return Continuation(graphs, source, len(ids), rows)

    def scores(self, ids: np.ndarray, text: Sequence[int]) -> np.ndarray:
        """Scores over the vocabulary at every token of a known text, and after it: `[1 + len(text), V]`.

        Args:
            ids: The tokens of a source, as for `begin`.
            text: The tokens after it; fewer than the most that the file writes.
        """
        if len(text) >= self.slots:
            raise ValueError(f"The text has {len(text)} tokens; the file takes at most {self.slots - 1}. Shorten it.")
        scores_of = self.begin(ids)
        return np.concatenate([scores_of(np.array([token])) for token in (self._start_id, *text)])

    def _open(self, key: str, length: int | None) -> WriterGraphs:
        """Open the graphs of one length, and check that they fit together."""
        names = [key.replace(READ, part, 1) for part in (READ, NEXT, NEXT_OF_BEAMS)]
        found = set(self._interpreter.get_signature_list())
        if not key.startswith(READ) or length is None or not found.issuperset(names[:2]):
            raise ValueError(
                f"{self._path} has the signatures {', '.join(sorted(found))}; expected {READ} and {NEXT} of a writer."
            )
        read, *steps = (self._interpreter.get_signature_runner(name) for name in names if name in found)
        kept = _shapes(read.get_output_details())
        heads, width = (*kept.get("source_keys_0", ()), 0, 0, 0)[1:3]
        sizes = WriterSizes(len(kept) // 2, heads, width, length, self.slots)
        vocabulary = (*_shapes(steps[0].get_output_details()).get("logits", ()), 0, 0)[1]
        batches = [(*_shapes(step.get_input_details()).get("token_ids", ()), 0)[0] for step in steps]
        expected = [sizes.read(), *(sizes.step(batch, vocabulary) for batch in batches)]
        for name, graph, shapes in zip(names, (read, *steps), expected, strict=False):
            if (_shapes(graph.get_input_details()), _shapes(graph.get_output_details())) != shapes:
                raise ValueError(f"{self._path}: the signature {name!r} is not that of a writer; export it again.")
        if batches[0] != 1:
            raise ValueError(
                f"{self._path}: the signature {names[1]!r} takes {batches[0]} texts, not one; export it again."
            )
        read, *steps = (partial(_run, self._path, graph) for graph in (read, *steps))
        return WriterGraphs(sizes, vocabulary, read, dict(zip(batches, steps, strict=True)))


def _run(path: Path | str, graph: Graph, **inputs: np.ndarray) -> dict[str, np.ndarray]:
    """Run a graph; LiteRT prepares each when it is first run, and may refuse it then."""
    try:
        return graph(**inputs)
    except (RuntimeError, ValueError) as error:
        raise ValueError(
            f"{path} cannot be run: {error}. It is damaged, or needs a newer LiteRT; export it again."
        ) from None


def _shapes(details: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(map(int, one["shape_signature"])) for name, one in details.items()}


# === Writing ===


class Continuation:
    """One text, or several side by side, after a source. Call it with the last tokens to get the scores of the next.

    Args:
        graphs: The graphs for the source's length.
        source: The outputs of `read_source`.
        tokens: The number of tokens of the source.
        rows: The number of texts.

    Example:
        >>> text = runner.begin(np.array([101, 7592, 102]))  # doctest: +SKIP
        >>> text(np.array([102])).shape  # doctest: +SKIP
        (1, 30522)
    """

    def __init__(self, graphs: WriterGraphs, source: dict[str, np.ndarray], tokens: int, rows: int):
        self._graphs, self._tokens, self._rows, self._slot = graphs, tokens, rows, 0
        sizes = graphs.sizes
        # Writing begins at the last [SEP] of the source, so it is kept with the written tokens.
        self._source = {**source, "source_mask": (np.arange(sizes.length)[None] < tokens - 1).astype(np.int32)}
        self._kept = {
            name: np.zeros(shape, np.float32) for name, shape in sizes.caches("target", rows, sizes.slots).items()
        }

    def __call__(self, last: np.ndarray, live: np.ndarray | None = None) -> np.ndarray:
        """Give the scores of the next tokens, `[rows, V]`.

        Args:
            last: The last tokens `[rows]`.
            live: Which rows matter, `[rows]`; `None` is all. Rows that are run one by one skip the others.
        """
        if self._slot == 0:
            parts = [(slice(0, 1), slice(None))]  # all rows are still the same: run one for all
        elif self._rows in self._graphs.steps:
            parts = [(slice(None), slice(None))]
        else:
            parts = [(slice(row, row + 1),) * 2 for row in range(self._rows) if live is None or live[row]]
        scores = np.zeros((self._rows, self._graphs.vocabulary), np.float32)
        for ran, meant in parts:
            outputs = self._run(np.asarray(last, np.int32)[ran, None], ran)
            scores[meant] = outputs.pop("logits")
            for name, value in outputs.items():
                kept = self._kept[name.replace("new", "target")]
                place = (..., slice(self._slot, self._slot + 1)) + (slice(None),) * ("_values_" in name)
                kept[meant][place] = value
        self._slot += 1
        return scores

    def keep(self, parents: np.ndarray) -> None:
        """Continue with these rows, in this order; a row may occur more than once."""
        if not np.array_equal(parents, np.arange(self._rows)):
            self._kept = {name: value[parents] for name, value in self._kept.items()}

    def _run(self, token: np.ndarray, rows: slice) -> dict[str, np.ndarray]:
        batch = len(token)
        whole = np.ones_like(token)
        source = self._source if batch == 1 else {k: np.repeat(v, batch, axis=0) for k, v in self._source.items()}
        return self._graphs.steps[batch](
            token_ids=token,
            segment_ids=whole * min(self._slot, 1),
            position_ids=whole * (self._tokens - 1 + self._slot),
            target_mask=whole * (np.arange(self._graphs.sizes.slots)[None] < self._slot),
            **source,
            **{name: value[rows] for name, value in self._kept.items()},
        )
