"""Write texts with the `.tflite` file of a `Seq2Seq`, with NumPy, LiteRT and `tokenizers` only.

`load("model.tflite")` gives a `Writer` for such a file. It takes sources and gives the same texts as `task.generate`.
It runs the file in a loop, once for each token; the files of other tasks run once for each row.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from export.runtime import Runtime
from export.runtime.writer_graphs import WriterRunner
from export.tasks.generation import source_rows
from keras_bert.decoding.token_choice import SAMPLERS, TextTokens, TokenChoice, write_beams, write_stepwise
from keras_bert.decoding.written_text import TextStream
from keras_bert.text.tokenized_texts import TokenizedTexts


class Writer(Runtime):
    """Takes sources; gives the texts written after them.

    Example:
        >>> write = Writer("translator.tflite")  # doctest: +SKIP
        >>> write("Two dogs run.", sampler="beam")  # doctest: +SKIP
        'zwei hunde rennen.'
        >>> for piece in write.stream("Two dogs run."):  # doctest: +SKIP
        ...     print(piece, end="")
    """

    writes = True
    runner_type = WriterRunner

    def __call__(self, texts: Any, **choice: Any) -> Any:
        """Write texts after sources.

        Args:
            texts: Sources: strings, or lists of strings that belong together, such as the turns of a dialogue. One
                string gives one text.
            choice: As for `Seq2Seq.generate`: `max_length` (at most the file's own), `min_length`,
                `sampler` (a name), `num_beams`, `k`, `p`, `temperature`, `length_penalty`, `no_repeat_ngram`, `seed`.
        """
        inputs, is_one = self.reader.inputs(texts)
        if not inputs:
            return []
        data = self.reader.prepare(inputs)
        answers = self.reader.answers(self.outputs(data.tokenized, **choice), data, inputs)
        return answers[0] if is_one else answers

    def stream(self, text: Any, **choice: Any) -> Iterator[str]:
        """Write a text after one source, and give it piece by piece.

        Args:
            text: A source: a string, or a list of strings that belong together.
            choice: As for a call; beams cannot be streamed.
        """
        settings = self.check_choice(choice)
        if settings.sampler == "beam":
            raise ValueError(
                "Beams cannot be streamed, because the best one is known only at the end. Call the writer, or use "
                "another sampler: 'greedy', 'top_k', 'top_p' or 'random'."
            )
        (ids,) = source_rows(self.reader.prepare([text]).tokenized)
        pieces = TextStream()
        for token in write_stepwise(self._runner.begin(ids), self._tokens(), settings):
            if piece := pieces.add(self.reader.tokenizer.id_to_token(token)):
                yield piece
        if piece := pieces.finish():
            yield piece

    def outputs(self, tokenized: TokenizedTexts, **choice: Any) -> dict[str, np.ndarray]:
        """The ids written after each source, `written_ids` `[rows, L]`, with padding at the end."""
        settings, tokens = self.check_choice(choice), self._tokens()
        written = np.full((len(tokenized), self._runner.slots), tokens.pad_id, np.int32)
        for row, ids in enumerate(source_rows(tokenized)):
            if settings.sampler == "beam":
                text = write_beams(self._runner.begin(ids, settings.num_beams), tokens, settings)
            else:
                text = list(write_stepwise(self._runner.begin(ids), tokens, settings))
            written[row, : len(text)] = text
        return {"written_ids": written}

    def scores(self, ids: np.ndarray, text: Sequence[int]) -> np.ndarray:
        """Scores over the vocabulary at every token of a known text, and after it: `[1 + len(text), V]`.

        Args:
            ids: The tokens of a source, `[CLS]` first and `[SEP]` last.
            text: The tokens after it; fewer than the most that the file writes.
        """
        return self._runner.scores(ids, text)

    def check_choice(self, choice: dict[str, Any]) -> TokenChoice:
        """The settings of a call; an error if the file cannot be run with them."""
        settings = TokenChoice(**{"max_length": self._runner.slots, **choice})
        if not isinstance(settings.sampler, str):
            raise TypeError(
                f"Got sampler={settings.sampler!r}; expected a name on a device: {', '.join(map(repr, SAMPLERS))}."
            )
        if settings.max_length is None or settings.max_length > self._runner.slots:
            raise ValueError(
                f"Got max_length={settings.max_length}; the file writes at most {self._runner.slots} tokens; pass "
                "less, or export the task with a larger target_length."
            )
        return settings

    def _tokens(self) -> TextTokens:
        return TextTokens.of(self.reader.tokenizer, self._runner.vocabulary)
