"""Texts → texts that a BERT writes: translations, summaries, replies.

`Seq2Seq` is a UniLM (Dong et al. 2019): one BERT whose mask lets the source see itself, and the target the source and
its own past; the MLM head with its tied token table gives the scores of the next token. So every BERT checkpoint can
learn to write, and one with an MLM head knows words from the start. It is a task file like every other: the head, the
loss, the measure, and what an answer is.

A row is `[CLS] source [SEP] target [SEP]`, segment 0 up to the first `[SEP]` (that of the source), segment 1 after it;
the mask follows from `segment_ids`, so the model's inputs are those of every BERT. The token after the last `[SEP]` of
the source is the first that is written; `[SEP]` ends a text.

For whoever runs a model elsewhere, writing is two graphs (`tasks/generation/cached_decoder.py`), both without a loop,
with caches as tensors of four dimensions and names:

1. `source_reader(task.model)`: `token_ids, segment_ids (all 0), padding_mask`, int32 `[B, S]` → `source_keys_i
   [B, N, D, S]`, `source_values_i [B, N, S, D]` for every layer i. Once for a text.
2. `next_token_model(task.model)`: `token_ids, segment_ids, position_ids`, int32 `[B, 1]`, `source_mask [B, S]`,
   `target_mask [B, L]`, int32, `source_keys_i`, `source_values_i` as they came, `target_keys_i [B, N, D, L]`,
   `target_values_i [B, N, L, D]` → `logits [B, V]`, `new_keys_i [B, N, D, 1]`, `new_values_i [B, N, 1, D]`. Once for a
   token. Both take fixed sizes (`source_length=, target_length=, batch_size=`).

The loop around them, for step t = 0, 1, … with `n` tokens in the source: feed token `[SEP]` for t = 0, else the last
written one; `segment_ids` = min(t, 1); `position_ids` = n − 1 + t; `source_mask` = `padding_mask` without the last
`[SEP]`, for all t; `target_mask` = 1 in the slots below t. Put the new keys and values into slot t. Apply
`sampling.restrict` (tokens that are no text, minimum length, n-grams), choose, stop at `[SEP]` or at `max_length`.
`tasks/generation/token_writer.py` is that loop in `keras.ops`, `decoding/written_text.py` turns tokens into text.
"""

import itertools
import os
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bert.checkpoint import load_model
from keras_bert.checkpoint.hub import find_directory
from keras_bert.checkpoint.loading import find_heads, open_checkpoint
from keras_bert.decoding.written_text import TextStream, write_text
from keras_bert.finetuning.best_weights import Score
from keras_bert.model.config import BertConfig
from keras_bert.model.encoder import INPUT_NAMES, bert_encoder, encoder_config
from keras_bert.model.heads import bert_model, masked_lm_logits
from keras_bert.tasks.base.fitting import packs_rows
from keras_bert.tasks.base.task import Task
from keras_bert.tasks.generation.files import GenerationRows, as_generation_rows, as_source
from keras_bert.tasks.generation.metrics import GenerationReport, generation_report
from keras_bert.tasks.generation.prefix_model import (
    HITS,
    LOGITS,
    LOSSES,
    as_prefix_model,
    check_writer,
    measure_targets,
    prefix_model,
)
from keras_bert.tasks.generation.rows import GenerationData, Room, arrange_pairs, tokenize_sources
from keras_bert.tasks.generation.sampling import Decoding, TextTokens
from keras_bert.tasks.generation.token_writer import TokenWriter
from keras_bert.tasks.generation.training import NextTokenLoss, pick_places, place_count, spoil_targets
from keras_bert.text.tokenizer import BertTokenizer

_PICKED = "target_logits"
_KEPT_PARTS = ("start", "end")


class Seq2Seq(Task):
    """BERT that writes.

    Args:
        model: A model with `mlm_logits` on an encoder with `prefix_lm=True`.
        tokenizer: Its tokenizer.
        sequence_length: The most tokens of source and target together.
        target_length: The most tokens of a target, its `[SEP]` included; the source has the rest of the row. `None` is
            a quarter of the row, at most 64.
        keeps: Which part of a source that is too long is read: its `"start"`, or its `"end"` (the last turns of a
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
        tokenizer: BertTokenizer,
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
        self._token_counts = None
        self._writers: tuple[keras.Model, dict] = (model, {})

    @classmethod
    def from_pretrained(cls, directory_or_name: str | os.PathLike, *, seed: int = 0, **kwargs) -> "Seq2Seq":
        """A writer on pretrained weights; where the checkpoint has an MLM head, with that.

        Args:
            directory_or_name: A model directory, or a name.
            seed: Of a new head.
            kwargs: `sequence_length`, `target_length`, `keeps`.
        """
        directory = find_directory(directory_or_name)
        has_head = "masked_lm" in find_heads(open_checkpoint(directory))
        if has_head:
            loaded, tokenizer = load_model(directory, seed=seed)
            if tokenizer is None:
                raise ValueError(f"{directory} has no vocab.txt, so texts cannot be tokenized; add the model's own.")
        else:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", ".* has no pooler", UserWarning)  # writing needs none
                loaded, tokenizer = cls.load_parts(directory, seed)
        return cls(as_prefix_model(loaded, seed=seed), tokenizer, fresh_heads=not has_head, **kwargs)

    @classmethod
    def from_scratch(cls, config: BertConfig, tokenizer: BertTokenizer, *, seed: int = 0, **kwargs) -> "Seq2Seq":
        """A writer with random weights: for a vocabulary of one's own (`learn_vocabulary`) and enough examples.

        Args:
            config: The sizes of the encoder.
            tokenizer: The vocabulary.
            seed: Of the weights.
            kwargs: As for `from_pretrained`.
        """
        return cls(prefix_model(config, seed=seed), tokenizer, fresh_heads=True, **kwargs)

    # === Training ===

    def fit(
        self,
        x,
        y=None,
        *,
        label_smoothing: float = 0.0,
        target_spoiling: float = 0.0,
        spoilt_by: str = "random",
        **options,
    ):
        """Fine-tune on sources and targets. Beside what is said here, as `Task.fit`.

        Args:
            x: The path of a TSV, CSV or JSONL file with the columns `source` and `target`; `GenerationRows` from
                `read_generation` or `read_parallel`; pairs of `(source, target)`; or sources. A source may be a list
                of texts, such as the turns of a dialogue.
            y: The targets, where `x` is sources.
            label_smoothing: The share of a token's probability that is spread over all tokens; 0.1 is usual.
            target_spoiling: The share of the target's tokens that the model reads wrong, so that it learns to go on
                after a mistake. The loss asks for the right ones.
            spoilt_by: What stands in their place: `"random"` tokens, or `"mask"`, `[MASK]`.
            options: `validation_data`, `recipe`, `metric` (`"log_likelihood"` of a wanted token, or `"accuracy"`: how
                often it is the likeliest), `columns` (arguments of `read_generation`), `directory`, `verbose`, and
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

    def generate(self, texts, *, batch_size: int = 32, **decoding) -> Any:
        """Write behind sources.

        Args:
            texts: Sources: strings, or lists of strings that belong together, such as the turns of a dialogue. One
                string gives one text.
            batch_size: Texts at a time.
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
        answers: list = [None] * len(rows)
        order = sorted(range(len(rows)), key=lambda index: -len(rows[index]))
        for begin in range(0, len(order), batch_size):
            chosen = order[begin : begin + batch_size]
            for index, ids in zip(chosen, writer.write(*self.padded([rows[i] for i in chosen])), strict=True):
                answers[index] = write_text(map(self.tokenizer.id_to_token, ids))
        return answers

    def predict(self, texts, *, batch_size: int = 32, **decoding) -> Any:
        """The same as `generate`, by the name that all tasks have."""
        return self.generate(texts, batch_size=batch_size, **decoding)

    def stream(self, text, **decoding) -> Iterator[str]:
        """Write behind one source, and give the text piece by piece as it comes.

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

    def evaluate(self, x, y=None, *, columns: dict | None = None, batch_size: int = 32, **decoding) -> GenerationReport:
        """Write behind sources, and measure the texts and the probability of the wanted ones.

        Args:
            x, y: As for `fit`.
            columns: The same.
            batch_size: Texts at a time.
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
            lowercase=self.tokenizer.lowercase,
            normalize=self._through_tokenizer,
            loss=score.details["val_loss"],
            notes=data.notes,
        )

    def _through_tokenizer(self, text):
        """A text as the model could write it at best: in the tokenizer's case, with spaces by rule."""
        return write_text(map(self.tokenizer.id_to_token, self.tokenizer.tokenize_flat([text])[0].tolist()))

    def writer(self, decoding):
        """What writes by these settings, and the room for sources; kept, because tracing its graph takes seconds."""
        limit = self.config.max_sequence_length
        length = self.target_length if decoding.max_length is None else decoding.max_length
        room = min(self.sequence_length - self.target_length, limit - length)
        if room < 3:
            raise ValueError(f"max_length={length} leaves no room for a source: the model has {limit} positions.")
        if self._writers[0] is not self.model:
            self._writers = (self.model, {})
        key, writers = replace(decoding, max_length=length, seed=None), self._writers[1]
        if key not in writers:
            writers[key] = TokenWriter(self.model, TextTokens.of(self.tokenizer, self.config.vocabulary_size), key)
        if isinstance(decoding.sampler, str) or decoding.seed is not None:
            writers[key].reseed(decoding.seed)
        return writers[key], Room(room, length, self.keeps)

    def _source_rows(self, sources, room):
        if not sources:
            return []
        ids, splits, cut = tokenize_sources(self.tokenizer, sources, room)
        if cut:
            warnings.warn(f"{cut:,} of {len(sources):,} sources were cut to {room.source} tokens", stacklevel=3)
        rows = [ids[begin:end].tolist() for begin, end in itertools.pairwise(splits)]
        return [[self.tokenizer.cls_id, *row, self.tokenizer.sep_id] for row in rows]

    def padded(self, rows):
        width = max(map(len, rows))
        ids = np.full((len(rows), width), self.tokenizer.pad_id, np.int32)
        mask = np.zeros_like(ids)
        for index, row in enumerate(rows):
            ids[index, : len(row)], mask[index, : len(row)] = row, 1
        return ids, mask

    # === What a task adds ===

    def build_encoder(self, config, **options):
        return bert_encoder(config, prefix_lm=True, **options)

    def build_model(self, encoder, *, classifier_dropout, seed):
        return bert_model(None, "masked_lm", encoder=encoder, seed=seed)

    def build_training_model(self, encoder, *, classifier_dropout, seed, table=None):
        if not packs_rows(self):
            return self.build_model(encoder, classifier_dropout=classifier_dropout, seed=seed)
        places = keras.Input((), dtype="int32", name="target_places")
        states = ops.reshape(encoder.output["sequence_output"], (-1, encoder_config(encoder).hidden_dim))
        logits = masked_lm_logits(encoder, ops.take(states, places, axis=0), seed=seed)
        return keras.Model({**encoder.input, "target_places": places}, {_PICKED: logits}, name="bert")

    def set_start_weights(self, model):
        if self.fresh_heads and self._token_counts is not None:
            # From the first step on the likely tokens are the frequent ones, which a zero bias takes long to learn.
            share = (self._token_counts + 1) / np.sum(self._token_counts + 1)
            model.get_layer("mlm_bias").bias.assign(np.log(share).astype("float32"))

    def begin_fit(self, train, validation, metric):
        super().begin_fit(train, validation, metric)
        labels = train.labels.values
        self._token_counts = np.bincount(labels[labels >= 0], minlength=self.config.vocabulary_size)

    def change_batches(self, batches, data, *, batch_size, steps, packed):
        labelled = np.add.reduceat(data.labels.values >= 0, data.labels.splits[:-1])
        places = place_count(labelled, batch_size)
        spoiling = {
            "mask_id": self.tokenizer.mask_id if self._spoilt_by == "mask" else None,
            "vocabulary_size": self.tokenizer.vocabulary_size,
        }

        def make(seed, epoch, epochs):
            made = batches(seed, epoch, epochs)
            if self._spoilt and seed is not None:
                made = spoil_targets(made, self._spoilt, seed=seed, first_step=epoch * steps, **spoiling)
            return pick_places(made, places, label=LOGITS, output=_PICKED) if packed else made

        return make

    def losses(self):
        return {LOGITS: NextTokenLoss(self._smoothing)}

    def training_losses(self):
        return {_PICKED: NextTokenLoss(self._smoothing)} if packs_rows(self) else self.losses()

    def prepare(self, x, y, *, class_weight=None, **columns) -> GenerationData:
        if class_weight is not None:
            raise ValueError("class_weight is for classes; texts have none. Leave it out.")
        rows: GenerationRows = as_generation_rows(x, y, **columns)
        room = Room(self.sequence_length - self.target_length, self.target_length, self.keeps)
        return arrange_pairs(self.tokenizer, rows, room)

    def outputs(self, tokenized, model=None, batch_size: int = 16):
        # Fewer rows at a time than elsewhere: the scores of all tokens of a batch are in memory together.
        return super().outputs(tokenized, model, batch_size)

    def forward(self, model):
        """Of each token of a target how likely it was: scores over the vocabulary would not fit into memory."""
        if self._last_forward is None or self._last_forward[0] is not model:
            states_of = keras.Model(model.input, model.get_layer("mlm_transform").input)
            spec = {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in INPUT_NAMES}

            def measure(inputs):
                return measure_targets(model, states_of(inputs, training=False), inputs)

            self._last_forward = (model, tf.function(measure, input_signature=[spec]))
        return self._last_forward[1]

    def score(self, outputs, data, metric):
        counted = data.labels.values >= 0
        loss, accuracy = (float(np.mean(outputs[name][counted])) for name in (LOSSES, HITS))
        numbers = {"log_likelihood": -loss, "accuracy": accuracy}
        if metric not in numbers:
            raise ValueError(
                f"metric={metric!r}: expected one of {', '.join(numbers)} while training; evaluate() writes texts and "
                "measures BLEU and ROUGE."
            )
        return Score(numbers[metric], False, {"val_loss": loss, "val_accuracy": accuracy})

    # === Directories ===

    @classmethod
    def from_directory(cls, directory, settings):
        loaded, tokenizer = load_model(directory)
        return cls(as_prefix_model(loaded), tokenizer, **cls.from_settings(settings, directory))

    def settings(self):
        return {"target_length": self.target_length, "keeps": self.keeps}

    @classmethod
    def from_settings(cls, settings, directory):
        return {name: value for name, value in settings.items() if name != "long_texts"}  # sources are always cut
