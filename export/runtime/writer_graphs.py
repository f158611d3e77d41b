"""The `.tflite` file of a writer and a source → scores of the next token, again and again.

Takes a file with the signatures `read_source` and `next_token`, gives `Continuation`s: each keeps what was written
behind a source in the caches that go into the graph and come out of it. A room of its own because it is the half of
writing that asks the interpreter; which token is chosen is `keras_bert/decoding/token_choice.py`'s. LiteRT and NumPy
alone.

How the graphs are run is said in `keras_bert/tasks/generation/task.py`. Where a file has several lengths, signatures
end in `_<length>`; `next_tokens` is `next_token` for several beams at a time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from export.file.interpreter import open_interpreter
from export.file.metadata_reader import FileMetadata
from export.tasks.base.reader import Reader

READ, NEXT, NEXT_OF_BEAMS = "read_source", "next_token", "next_tokens"
_ROW_INPUTS = ("token_ids", "segment_ids", "padding_mask")

Graph = Callable[..., dict[str, np.ndarray]]


# === What a file has ===


@dataclass(frozen=True)
class WriterSizes:
    """The sizes of a writer's tensors: layers, heads, their width, tokens of a source and of a text."""

    layers: int
    heads: int
    width: int
    length: int
    slots: int

    def caches(self, part: str, batch: int, slots: int) -> dict[str, tuple[int, ...]]:
        """The shapes of a part's keys and values, by name.

        Example:
            >>> WriterSizes(1, 2, 16, 8, 4).caches("new", 1, 1)
            {'new_keys_0': (1, 2, 16, 1), 'new_values_0': (1, 2, 1, 16)}
        """
        shapes = {"keys": (batch, self.heads, self.width, slots), "values": (batch, self.heads, slots, self.width)}
        return {f"{part}_{kind}_{layer}": shapes[kind] for layer in range(self.layers) for kind in ("keys", "values")}

    def read(self) -> tuple[dict, dict]:
        """What the graph that reads takes and gives."""
        return dict.fromkeys(_ROW_INPUTS, (1, self.length)), self.caches("source", 1, self.length)

    def step(self, batch: int, vocabulary: int) -> tuple[dict, dict]:
        """What a graph that goes on takes and gives."""
        takes: dict[str, tuple[int, ...]] = dict.fromkeys(("token_ids", "segment_ids", "position_ids"), (batch, 1))
        takes |= {"source_mask": (batch, self.length), "target_mask": (batch, self.slots)}
        takes |= {**self.caches("source", batch, self.length), **self.caches("target", batch, self.slots)}
        return takes, {"logits": (batch, vocabulary), **self.caches("new", batch, 1)}


@dataclass(frozen=True)
class WriterGraphs:
    """The graphs for sources of one length: the one that reads, those that go on by the number of their texts."""

    sizes: WriterSizes
    vocabulary: int
    read: Graph
    steps: dict[int, Graph]


class WriterRunner:
    """The graphs of a file; each source runs through the shortest that it fits.

    Args:
        path: The file, or its bytes.
        metadata: What it says of itself.
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
            rows: How many texts are to be written behind it, side by side.
        """
        graphs = next((graphs for graphs in self._graphs if graphs.sizes.length >= len(ids)), None)
        if graphs is None:
            raise ValueError(f"A source has {len(ids)} tokens; the file takes {self._graphs[-1].sizes.length}.")
        row = np.full((1, graphs.sizes.length), self._pad_id, np.int32)
        row[0, : len(ids)] = ids
        is_token = (np.arange(row.shape[1])[None] < len(ids)).astype(np.int32)
        try:
            source = graphs.read(**dict(zip(_ROW_INPUTS, (row, np.zeros_like(row), is_token), strict=True)))
        except (RuntimeError, ValueError) as error:
            raise ValueError(
                f"{self._path} cannot be run: {error}. It is damaged, or needs a newer LiteRT; export it again."
            ) from None
        return Continuation(graphs, source, len(ids), rows)

    def scores(self, ids: np.ndarray, text: Sequence[int]) -> np.ndarray:
        """Scores over the vocabulary at every token of a text that is known, and behind it: `[1 + len(text), V]`.

        Args:
            ids: The tokens of a source, as for `begin`.
            text: Tokens behind it; fewer than the file has room for.
        """
        if len(text) >= self.slots:
            raise ValueError(f"The text has {len(text)} tokens; the file has room for {self.slots - 1}.")
        scores_of = self.begin(ids)
        return np.concatenate([scores_of(np.array([token])) for token in (self._start_id, *text)])

    def _open(self, key, length):
        """The graphs of one length; an error where they do not fit together."""
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
            raise ValueError(f"{self._path}: {names[1]!r} goes on with {batches[0]} texts, not with one.")
        return WriterGraphs(sizes, vocabulary, read, dict(zip(batches, steps, strict=True)))


def _shapes(details):
    return {name: tuple(map(int, one["shape_signature"])) for name, one in details.items()}


# === Going on ===


class Continuation:
    """A text, or several side by side, behind one source: called with the last tokens, it gives scores of the next.

    Args:
        graphs: Those of the source's length.
        source: What `read_source` gave.
        tokens: How many the source has.
        rows: How many texts.

    Example:
        >>> text = runner.begin(np.array([101, 7592, 102]))  # doctest: +SKIP
        >>> text(np.array([102])).shape  # doctest: +SKIP
        (1, 30522)
    """

    def __init__(self, graphs: WriterGraphs, source: dict[str, np.ndarray], tokens: int, rows: int):
        self._graphs, self._tokens, self._rows, self._slot = graphs, tokens, rows, 0
        sizes = graphs.sizes
        # The last [SEP] of the source is where writing begins: it is kept with what is written.
        self._source = {**source, "source_mask": (np.arange(sizes.length)[None] < tokens - 1).astype(np.int32)}
        self._kept = {
            name: np.zeros(shape, np.float32) for name, shape in sizes.caches("target", rows, sizes.slots).items()
        }

    def __call__(self, last: np.ndarray, live: np.ndarray | None = None) -> np.ndarray:
        """Scores `[rows, V]` of the next tokens.

        Args:
            last: The last tokens `[rows]`.
            live: Which rows matter, `[rows]`; `None` is all. What is computed one by one leaves the others out.
        """
        if self._slot == 0:
            parts = [(slice(0, 1), slice(None))]  # all rows are the same yet: one is run for all
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
        """Go on with these rows, in this order; some may be there twice."""
        if not np.array_equal(parents, np.arange(self._rows)):
            self._kept = {name: value[parents] for name, value in self._kept.items()}

    def _run(self, token, rows):
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
