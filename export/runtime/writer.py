"""Texts from the `.tflite` file of a `Seq2Seq`: NumPy, LiteRT and `tokenizers`, no TensorFlow and no Keras.

`load("model.tflite")` gives a `Writer` for such a file: sources → the same texts as `task.generate`. Its answers take a
loop, where every other task's file runs once for a row.
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
    """Sources → texts.

    Example:
        >>> write = Writer("translator.tflite")  # doctest: +SKIP
        >>> write("Two dogs run.", sampler="beam")  # doctest: +SKIP
        'zwei hunde rennen.'
        >>> for piece in write.stream("Two dogs run."):  # doctest: +SKIP
        ...     print(piece, end="")
    """

    writes = True
    runner_type = WriterRunner

    def __call__(self, texts, **choice) -> Any:
        """Write behind sources.

        Args:
            texts: Sources: strings, or lists of strings that belong together, such as the turns of a dialogue. One
                string gives one text.
            choice: As for `Seq2Seq.generate`: `max_length` (at most what the file has room for), `min_length`,
                `sampler` (a name), `num_beams`, `k`, `p`, `temperature`, `length_penalty`, `no_repeat_ngram`, `seed`.
        """
        inputs, is_one = self.reader.inputs(texts)
        if not inputs:
            return []
        data = self.reader.prepare(inputs)
        answers = self.reader.answers(self.outputs(data.tokenized, **choice), data, inputs)
        return answers[0] if is_one else answers

    def stream(self, text, **choice) -> Iterator[str]:
        """Write behind one source, and give the text piece by piece as it comes.

        Args:
            text: A source: a string, or a list of strings that belong together.
            choice: As for a call; beams cannot be streamed.
        """
        settings = self._check(choice)
        if settings.sampler == "beam":
            raise ValueError(
                "Beams cannot be streamed: which one is the best is known at the end. Call the writer, or use another "
                "sampler: 'greedy', 'top_k', 'top_p' or 'random'."
            )
        (ids,) = source_rows(self.reader.prepare([text]).tokenized)
        pieces = TextStream()
        for token in write_stepwise(self._runner.begin(ids), self._tokens(), settings):
            if piece := pieces.add(self.reader.tokenizer.id_to_token(token)):
                yield piece
        if piece := pieces.finish():
            yield piece

    def outputs(self, tokenized: TokenizedTexts, **choice) -> dict[str, np.ndarray]:
        """The ids written behind each source, `written_ids` `[rows, L]`, with padding behind them."""
        settings, tokens = self._check(choice), self._tokens()
        written = np.full((len(tokenized), self._runner.slots), tokens.pad_id, np.int32)
        for row, ids in enumerate(source_rows(tokenized)):
            if settings.sampler == "beam":
                text = write_beams(self._runner.begin(ids, settings.num_beams), tokens, settings)
            else:
                text = list(write_stepwise(self._runner.begin(ids), tokens, settings))
            written[row, : len(text)] = text
        return {"written_ids": written}

    def scores(self, ids: np.ndarray, text: Sequence[int]) -> np.ndarray:
        """Scores over the vocabulary at every token of a text that is known, and behind it: `[1 + len(text), V]`.

        Args:
            ids: The tokens of a source, `[CLS]` first and `[SEP]` last.
            text: Tokens behind it; fewer than the file has room for.
        """
        return self._runner.scores(ids, text)

    def _check(self, choice):
        settings = TokenChoice(**{"max_length": self._runner.slots, **choice})
        if not isinstance(settings.sampler, str):
            raise TypeError(f"sampler={settings.sampler!r}: a device takes a name: {', '.join(map(repr, SAMPLERS))}.")
        if settings.max_length is None or settings.max_length > self._runner.slots:
            raise ValueError(
                f"max_length={settings.max_length}: the file has room for {self._runner.slots} tokens; export the task "
                "with a larger target_length."
            )
        return settings

    def _tokens(self):
        return TextTokens.of(self.reader.tokenizer, self._runner.vocabulary)
