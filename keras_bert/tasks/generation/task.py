"""Text generation with BERT: translations, summaries, replies.

`Seq2Seq` is a UniLM (Dong et al. 2019): one BERT with an attention mask in which the source sees itself, and the target
sees the source and its own past. The MLM head with its tied token table gives the scores of the next token. So every
BERT checkpoint can be fine-tuned to generate text.

A row is `[CLS] source [SEP] target [SEP]`: segment 0 up to the `[SEP]` of the source, segment 1 after it. The mask
follows from `segment_ids`, so the model's inputs are those of every BERT. The first token after the `[SEP]` of the
source is the first generated one; `[SEP]` ends a text.

To run a model elsewhere, there are two graphs (`tasks/generation/cached_decoder.py`), both without a loop, with caches
as named tensors of four dimensions:

1. `source_reader(task.model)`: `token_ids, segment_ids (all 0), padding_mask`, int32 `[B, S]` → `source_keys_i
   [B, N, D, S]`, `source_values_i [B, N, S, D]` for every layer i. Once per text.
2. `next_token_model(task.model)`: `token_ids, segment_ids, position_ids`, int32 `[B, 1]`, `source_mask [B, S]`,
   `target_mask [B, L]`, int32, `source_keys_i`, `source_values_i` as they came, `target_keys_i [B, N, D, L]`,
   `target_values_i [B, N, L, D]` → `logits [B, V]`, `new_keys_i [B, N, D, 1]`, `new_values_i [B, N, 1, D]`. Once per
   token. Both accept fixed sizes (`source_length=, target_length=, batch_size=`).

The loop around them, for step t = 0, 1, … with `n` tokens in the source: feed the token `[SEP]` for t = 0, then the
last generated one; `segment_ids` = min(t, 1); `position_ids` = n − 1 + t; `source_mask` = `padding_mask` without the
last `[SEP]`, for all t; `target_mask` = 1 in the slots below t. Write the new keys and values into slot t. Apply
`sampling.restrict` (tokens that are not text, minimum length, n-grams), choose a token, stop at `[SEP]` or at
`max_length`. `tasks/generation/token_writer.py` is this loop in `keras.ops`; `decoding/written_text.py` turns tokens
into text.
"""

import itertools
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.batching.prepared_data import PreparedData
from keras_bert.batching.replicas import replica_count
from keras_bert.checkpoint import load_model
from keras_bert.checkpoint.hub import find_directory
from keras_bert.checkpoint.loading import find_heads, open_checkpoint
from keras_bert.decoding.written_text import TextStream, write_text
from keras_bert.finetuning.best_weights import Score
from keras_bert.finetuning.report import FinetuneReport
from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import bert_encoder, encoder_config
from keras_bert.model.heads import bert_model, masked_lm_logits
from keras_bert.tasks.base.definition import Batches
from keras_bert.tasks.base.fitting import packs_rows
from keras_bert.tasks.base.task import Task, load_with_tokenizer
from keras_bert.tasks.generation.files import GenerationRows, Source, as_generation_rows, as_source
from keras_bert.tasks.generation.metrics import GenerationReport, generation_report
from keras_bert.tasks.generation.prefix_model import (
    HITS,
    LOGITS,
    LOSSES,
    as_prefix_model,
    check_writer,
    prefix_model,
    target_measure,
)
from keras_bert.tasks.generation.rows import GenerationData, Room, arrange_pairs, tokenize_sources
from keras_bert.tasks.generation.sampling import Decoding, TextTokens
from keras_bert.tasks.generation.token_writer import TokenWriter
from keras_bert.tasks.generation.training import NextTokenLoss, pick_places, place_count, spoil_targets
from keras_bert.text.subword_tokenizer import SubwordTokenizer
from keras_bert.text.tokenized_texts import TokenizedTexts

if TYPE_CHECKING:
    from typing_extensions import Self

_PICKED = "target_logits"
_KEPT_PARTS = ("start", "end")


class Seq2Seq(Task):
    """BERT that generates text.

    Args:
        model: A model with `mlm_logits` on an encoder with `prefix_lm=True`.
        tokenizer: Its tokenizer.
        sequence_length: Maximum number of tokens of source and target together.
        target_length: Maximum number of tokens of a target, including `[SEP]`; the source has the rest. `None` is
            a quarter of the row, at most 64.
        keeps: The part of a too long source that is read: its `"start"`, or its `"end"` (the last turns of a
            dialogue).
        fresh_heads: As for `Task`.

    Example:
        ```python
        translator = Seq2Seq.from_pretrained("all-MiniLM-L6-v2", sequence_length=128)
        print(translator.fit("train.tsv", validation_data="dev.tsv", learning_rate=3e-4, label_smoothing=0.1))
        translator.predict(["Two dogs run."], sampler="beam")  # ["zwei hunde rennen."]
        for piece in translator.stream("Two dogs run."):
            print(piece, end="")
        translator.save("translator")
        ```
    """

    name = "seq2seq"
    default_metric = "log_likelihood"
    token_outputs = (LOSSES, HITS)
    trains_packed = True
    trains_all_tokens = True

    def __init__(
        self,
        model: keras.Model,
        tokenizer: SubwordTokenizer,
        *,
        sequence_length: int | None = None,
        target_length: int | None = None,
        keeps: str = "start",
        fresh_heads: bool = False,
    ):
        check_writer(model, tokenizer)
        super().__init__(model, tokenizer, sequence_length=sequence_length, fresh_heads=fresh_heads)
        target_length = min(64, self.sequence_length // 4) if target_length is None else target_length
        if not 2 <= target_length <= self.sequence_length - 3:
            raise ValueError(
                f"target_length={target_length}: expected 2 to {self.sequence_length - 3}, so that a source of one "
                f"token fits into sequence_length={self.sequence_length} too."
            )
        if keeps not in _KEPT_PARTS:
            raise ValueError(f"keeps={keeps!r}: expected 'start' or 'end'.")
        self.target_length, self.keeps = target_length, keeps
        self._smoothing, self._spoilt, self._spoilt_by = 0.0, 0.0, "random"
        self._token_counts: np.ndarray | None = None
        self._writers: tuple[keras.Model, dict[Decoding, TokenWriter]] = (model, {})

    @classmethod
    def from_pretrained(cls, directory_or_name: str | os.PathLike[str], *, seed: int = 0, **kwargs: Any) -> "Seq2Seq":
        """Make a task with pretrained weights; the MLM head is used if the checkpoint has one.

        Args:
            directory_or_name: A model directory, or the name of a model.
            seed: Random seed of the new head.
            kwargs: `sequence_length`, `target_length`, `keeps`.
        """
        directory = find_directory(directory_or_name)
        has_head = "masked_lm" in find_heads(open_checkpoint(directory))
        if has_head:
            loaded, tokenizer = load_model(directory, seed=seed)
            if tokenizer is None:
                raise ValueError(
                    f"{directory} has no vocab.txt, so texts cannot be tokenized; add the model's vocabulary."
                )
        else:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", ".* has no pooler", UserWarning)  # generation needs none
                loaded, tokenizer = cls.load_parts(directory, seed)
        return cls(as_prefix_model(loaded, seed=seed), tokenizer, fresh_heads=not has_head, **kwargs)

    @classmethod
    def from_scratch(
        cls, config: BertConfig, tokenizer: SubwordTokenizer, *, seed: int = 0, **kwargs: Any
    ) -> "Seq2Seq":
        """Make a task with random weights: for your own vocabulary (`learn_vocabulary`) and enough examples.

        Args:
            config: The sizes of the encoder.
            tokenizer: The vocabulary.
            seed: Random seed of the weights.
            kwargs: As for `from_pretrained`.
        """
        return cls(prefix_model(config, seed=seed), tokenizer, fresh_heads=True, **kwargs)

    # === Training ===

    def fit(
        self,
        x: Any,
        y: Any = None,
        *,
        label_smoothing: float = 0.0,
        target_spoiling: float = 0.0,
        spoilt_by: str = "random",
        **options: Any,
    ) -> FinetuneReport | keras.callbacks.History:
        """Fine-tune on sources and targets. Other arguments are those of `Task.fit`.

        Args:
            x: The path of a TSV, CSV or JSONL file with the columns `source` and `target`; `GenerationRows` from
                `read_generation` or `read_parallel`; pairs of `(source, target)`; or sources. A source may be a list
                of texts, such as the turns of a dialogue.
            y: The targets, if `x` is sources.
            label_smoothing: The share of a token's probability that is spread over all tokens; 0.1 is usual.
            target_spoiling: The share of target tokens that are replaced in the input, so that the model learns to go
                on after a mistake. The labels are not changed.
            spoilt_by: What replaces them: `"random"` tokens, or `"mask"` (`[MASK]`).
            options: `validation_data`, `recipe`, `metric` (`"log_likelihood"` of a target token, or `"accuracy"`: how
                often it is the most likely), `columns` (arguments of `read_generation`), `directory`, `verbose`, and
                changes of the recipe.
        """
        NextTokenLoss(label_smoothing)
        if not 0 <= target_spoiling < 1:
            raise ValueError(f"target_spoiling={target_spoiling!r}: expected a share from 0 to below 1.")
        if spoilt_by not in ("random", "mask"):
            raise ValueError(f"spoilt_by={spoilt_by!r}: expected 'random' or 'mask'.")
        self._smoothing, self._spoilt, self._spoilt_by = label_smoothing, target_spoiling, spoilt_by
        return super().fit(x, y, **options)

    # === Answers ===

    def generate(self, texts: Any, *, batch_size: int = 32, **decoding: Any) -> Any:
        """Generate a text for each source.

        Args:
            texts: Sources: strings, or lists of strings that belong together, such as the turns of a dialogue. One
                string gives one text.
            batch_size: Texts per batch.
            decoding: Settings of `Decoding`: `max_length`, `min_length`, `sampler`, `num_beams`, `k`, `p`,
                `temperature`, `length_penalty`, `no_repeat_ngram`, `seed`.

        Returns:
            A text for each source.
        """
        if isinstance(texts, str):
            return self.generate([texts], batch_size=batch_size, **decoding)[0]
        writer, room = self.writer(Decoding(**decoding))
        sources = [as_source(text, row) for row, text in enumerate(texts, 1)]
        rows = self._source_rows(sources, room)
        answers = [""] * len(rows)
        order = sorted(range(len(rows)), key=lambda index: -len(rows[index]))
        for begin in range(0, len(order), batch_size):
            chosen = order[begin : begin + batch_size]
            for index, ids in zip(chosen, writer.write(*self.padded([rows[i] for i in chosen])), strict=True):
                answers[index] = write_text(map(self.tokenizer.id_to_token, ids))
        return answers

    def predict(self, texts: Any, *, batch_size: int = 32, **decoding: Any) -> Any:
        """Same as `generate`; all tasks have `predict`."""
        return self.generate(texts, batch_size=batch_size, **decoding)

    def stream(self, text: Any, **decoding: Any) -> Iterator[str]:
        """Generate a text for one source, and yield it piece by piece.

        Args:
            text: A source: a string, or a list of strings that belong together.
            decoding: As for `generate`; beams cannot be streamed.
        """
        writer, room = self.writer(Decoding(**decoding))
        pieces = TextStream()
        for token in writer.stream(*self.padded(self._source_rows([as_source(text, 1)], room))):
            if piece := pieces.add(self.tokenizer.id_to_token(token)):
                yield piece
        if piece := pieces.finish():
            yield piece

    def evaluate(
        self, x: Any, y: Any = None, *, columns: dict[str, Any] | None = None, batch_size: int = 32, **decoding: Any
    ) -> GenerationReport:
        """Generate texts, and measure them and the probability of the references.

        Args:
            x, y: As for `fit`.
            columns: Arguments of `read_generation`, for a file.
            batch_size: Texts per batch.
            decoding: As for `generate`.
        """
        data = self.prepare(x, y, **(columns or {}))
        score = self.score(self.outputs(data.tokenized), data, self.default_metric)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".* sources were cut", UserWarning)  # the report says so
            written = self.generate(data.rows.sources, batch_size=batch_size, **decoding)
        return generation_report(
            written,
            [target or "" for target in data.rows.targets],
            lowercase=getattr(self.tokenizer, "lowercase", False),
            normalize=self._through_tokenizer,
            loss=score.details["val_loss"],
            notes=data.notes,
        )

    def _through_tokenizer(self, text: str) -> str:
        """A text after tokenizing and detokenizing: the closest that the model can generate."""
        return write_text(map(self.tokenizer.id_to_token, self.tokenizer.tokenize_flat([text])[0].tolist()))

    def writer(self, decoding: Decoding) -> tuple[TokenWriter, Room]:
        """The writer for these settings, and the maximum lengths. It is kept, because tracing its graph is slow."""
        limit = self.config.max_sequence_length
        length = self.target_length if decoding.max_length is None else decoding.max_length
        room = min(self.sequence_length - self.target_length, limit - length)
        if room < 3:
            raise ValueError(
                f"max_length={length} leaves no room for a source: the model has {limit} positions; pass a smaller one."
            )
        if self._writers[0] is not self.model:
            self._writers = (self.model, {})
        key, writers = replace(decoding, max_length=length, seed=None), self._writers[1]
        if key not in writers:
            writers[key] = TokenWriter(self.model, TextTokens.of(self.tokenizer, self.config.vocabulary_size), key)
        if isinstance(decoding.sampler, str) or decoding.seed is not None:
            writers[key].reseed(decoding.seed)
        return writers[key], Room(room, length, self.keeps)

    def _source_rows(self, sources: Sequence[Source], room: Room) -> list[list[int]]:
        if not sources:
            return []
        ids, splits, cut = tokenize_sources(self.tokenizer, sources, room)
        if cut:
            warnings.warn(f"{cut:,} of {len(sources):,} sources were cut to {room.source} tokens", stacklevel=3)
        rows = [ids[begin:end].tolist() for begin, end in itertools.pairwise(splits)]
        return [[self.tokenizer.cls_id, *row, self.tokenizer.sep_id] for row in rows]

    def padded(self, rows: Sequence[Sequence[int] | np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Pad rows of ids to the longest one; gives ids and mask, int32 `[B, S]`."""
        width = max(map(len, rows))
        ids = np.full((len(rows), width), self.tokenizer.pad_id, np.int32)
        mask = np.zeros_like(ids)
        for index, row in enumerate(rows):
            ids[index, : len(row)], mask[index, : len(row)] = row, 1
        return ids, mask

    # === Task definition ===

    def build_encoder(self, config: BertConfig, **options: Any) -> keras.Model:
        return bert_encoder(config, prefix_lm=True, **options)

    def build_model(self, encoder: keras.Model, *, classifier_dropout: float | None, seed: int | None) -> keras.Model:
        return bert_model(None, "masked_lm", encoder=encoder, seed=seed)

    def build_training_model(
        self,
        encoder: keras.Model,
        *,
        classifier_dropout: float | None,
        seed: int | None,
        table: np.ndarray | None = None,
    ) -> keras.Model:
        if not packs_rows(self):
            return self.build_model(encoder, classifier_dropout=classifier_dropout, seed=seed)
        places = keras.Input((), dtype="int32", name="target_places")
        states = ops.reshape(encoder.output["sequence_output"], (-1, encoder_config(encoder).hidden_dim))
        logits = masked_lm_logits(encoder, ops.take(states, places, axis=0), seed=seed)
        return keras.Model({**encoder.input, "target_places": places}, {_PICKED: logits}, name="bert")

    def set_start_weights(self, model: keras.Model) -> None:
        if self.fresh_heads and self._token_counts is not None:
            # Start with the frequencies of tokens, which a zero bias takes long to learn.
            share = (self._token_counts + 1) / np.sum(self._token_counts + 1)
            model.get_layer("mlm_bias").bias.assign(np.log(share).astype("float32"))

    def begin_fit(self, train: PreparedData, validation: PreparedData | None, metric: str) -> None:
        super().begin_fit(train, validation, metric)
        token_labels: Any = train.labels
        labels = token_labels.values
        self._token_counts = np.bincount(labels[labels >= 0], minlength=self.config.vocabulary_size)

    def change_batches(
        self, batches: Batches, data: PreparedData, *, batch_size: int, steps: int, packed: bool
    ) -> Batches:
        labels: Any = data.labels
        labelled = np.add.reduceat(labels.values >= 0, labels.splits[:-1])
        places = place_count(labelled, batch_size, parts=replica_count())
        spoiling: dict[str, Any] = {
            "mask_id": self.tokenizer.mask_id if self._spoilt_by == "mask" else None,
            "vocabulary_size": self.tokenizer.vocabulary_size,
        }

        def make(seed: int | None, epoch: int, epochs: int) -> tf.data.Dataset:
            made = batches(seed, epoch, epochs)
            if self._spoilt and seed is not None:
                made = spoil_targets(made, self._spoilt, seed=seed, first_step=epoch * steps, **spoiling)
            if not packed:
                return made
            return pick_places(made, places, label=LOGITS, output=_PICKED, parts=replica_count())

        return make

    def losses(self) -> dict[str, keras.losses.Loss]:
        return {LOGITS: NextTokenLoss(self._smoothing)}

    def training_losses(self) -> dict[str, keras.losses.Loss]:
        return {_PICKED: NextTokenLoss(self._smoothing)} if packs_rows(self) else self.losses()

    def prepare(self, x: Any, y: Any, *, class_weight: Any = None, **columns: Any) -> GenerationData:
        if class_weight is not None:
            raise ValueError("class_weight is for classes, and generation has none; leave it out.")
        rows: GenerationRows = as_generation_rows(x, y, **columns)
        room = Room(self.sequence_length - self.target_length, self.target_length, self.keeps)
        return arrange_pairs(self.tokenizer, rows, room)

    def outputs(
        self, tokenized: TokenizedTexts, model: keras.Model | None = None, batch_size: int = 16
    ) -> dict[str, np.ndarray]:
        # Smaller batches than for other tasks: the scores of all tokens of a batch are in memory together.
        return super().outputs(tokenized, model, batch_size)

    def forward(self, model: keras.Model) -> Callable[[dict[str, Any]], dict[str, Any]]:
        """Inference that gives the loss of each target token: scores over the vocabulary would not fit into memory."""
        if self._last_forward is None or self._last_forward[0] is not model:
            self._last_forward = (model, target_measure(model))
        return self._last_forward[1]

    def score(self, outputs: dict[str, np.ndarray], data: PreparedData, metric: str) -> Score:
        labels: Any = data.labels
        counted = labels.values >= 0
        loss, accuracy = (float(np.mean(outputs[name][counted])) for name in (LOSSES, HITS))
        numbers = {"log_likelihood": -loss, "accuracy": accuracy}
        if metric not in numbers:
            raise ValueError(
                f"metric={metric!r}: expected one of {', '.join(numbers)} while training; evaluate() generates texts "
                "and measures BLEU and ROUGE."
            )
        return Score(numbers[metric], False, {"val_loss": loss, "val_accuracy": accuracy})

    # === Directories ===

    @classmethod
    def from_directory(cls, directory: str | os.PathLike[str], settings: dict[str, Any]) -> "Self":
        loaded, tokenizer = load_with_tokenizer(directory)
        return cls(as_prefix_model(loaded), tokenizer, **cls.from_settings(settings, Path(directory)))

    def settings(self) -> dict[str, Any]:
        return {"target_length": self.target_length, "keeps": self.keeps}

    @classmethod
    def from_settings(cls, settings: dict[str, Any], directory: Path) -> dict[str, Any]:
        return {name: value for name, value in settings.items() if name != "long_texts"}  # sources are always cut
