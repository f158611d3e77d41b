"""Sentence embeddings for semantic search, duplicates and clusters.

`SentenceEmbedder` pools the states of an encoder into one vector for each text; the cosine of two vectors is the
similarity of the texts. A sentence-transformers model is read with its pooling and gives the same vectors. Training
data are pairs with scores, or pairs and triplets that belong together.
"""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from keras_bert.batching.prepared_data import PreparedData
from keras_bert.checkpoint import load_encoder
from keras_bert.checkpoint.hub import find_directory
from keras_bert.checkpoint.sentence_transformers import FILES as SENTENCE_FILES
from keras_bert.checkpoint.sentence_transformers import read_sentence_modules, write_sentence_modules
from keras_bert.decoding.labels import mean_by_owner
from keras_bert.decoding.prompts import Prompts
from keras_bert.decoding.similarity import Hit, cosine_matrix, normalize_vectors, search_vectors, shorten_vectors
from keras_bert.evaluation.ranking import RetrievalReport, retrieval_report
from keras_bert.evaluation.reports import RegressionReport, regression_report
from keras_bert.finetuning.best_weights import Score
from keras_bert.finetuning.report import FinetuneReport
from keras_bert.model.pooling import grouped_model
from keras_bert.tasks.base.task import Task, is_pair_of_xy
from keras_bert.tasks.similarity.files import SentenceGroups, as_sentence_groups
from keras_bert.tasks.similarity.losses import ContrastiveLoss, CosineScoreLoss, MatryoshkaLoss
from keras_bert.tasks.similarity.pooling import OUTPUT, check_pooling, embedding_model
from keras_bert.text.subword_tokenizer import SubwordTokenizer
from keras_bert.text.tokenized_texts import TokenizedTexts

if TYPE_CHECKING:
    from typing_extensions import Self

_PAIRS = "pair_embeddings"
_METRICS = {True: ("spearman", "pearson"), False: ("accuracy@1", "mrr")}  # with scores, and without


class SentenceEmbedder(Task):
    """BERT that gives one vector for each text.

    Args:
        model: A model with `sentence_embedding`, from `embedding_model`.
        tokenizer: Its tokenizer.
        pooling: `"mean"` of the tokens' states, `"cls"` or `"pooler"`.
        normalize: Whether vectors have length 1.
        score_range: The lowest and the highest score, such as `(0, 5)`; they are learned as
            cosines of 0 and 1, or of −1 and 1 if the lowest is negative. `None` uses scores from −1 to 1 as they are.
        prompts: What stands before texts, by name, such as `{"query": "query: ", "passage": "passage: "}`. `search` and
            training on pairs that belong together put the one called query before the first text and the one called
            document, passage or corpus before the others; everything else uses the default.
        default_prompt_name: The name of the default; `None` is no prompt.
        dimensions: How many of the first numbers of a vector are kept, for models that learned it
            (`fit(matryoshka=…)`); `None` keeps all.
        kwargs: As for `Task`: `sequence_length`, `long_texts` (a text in windows has the mean of its windows' vectors).

    Example:
        ```python
        embedder = SentenceEmbedder.from_pretrained("all-MiniLM-L6-v2")
        embedder.similarity(["A man plays the guitar."], ["Someone makes music."])  # [[0.5…]]
        embedder.search("how do I get to the station?", ["The train is late.", "Cats sleep a lot."], top=1)
        ```
    """

    name = "similarity"
    default_metric = "spearman"
    trains_groups = True

    def __init__(
        self,
        model: keras.Model,
        tokenizer: SubwordTokenizer,
        *,
        pooling: str = "mean",
        normalize: bool = True,
        score_range: Sequence[float] | None = None,
        prompts: Mapping[str, str] | None = None,
        default_prompt_name: str | None = None,
        dimensions: int | None = None,
        **kwargs: Any,
    ):
        super().__init__(model, tokenizer, **kwargs)
        if OUTPUT not in model.output:
            raise ValueError(f"The model gives {', '.join(model.output)}; expected {OUTPUT}: see embedding_model.")
        self.pooling, self.normalize = check_pooling(pooling), normalize
        self.prompts = Prompts(dict(prompts or {}), default_prompt_name)
        if dimensions not in (None, model.output[OUTPUT].shape[-1]):
            width = model.output[OUTPUT].shape[-1]
            raise ValueError(f"dimensions={dimensions!r}: the model gives {width}; see embedding_model(dimensions=…).")
        self.dimensions = dimensions
        if score_range is not None and (len(score_range) != 2 or not score_range[0] < score_range[1]):
            raise ValueError(f"score_range={score_range!r}: expected the lowest and the highest score, such as (0, 5).")
        self.score_range = None if score_range is None else tuple(map(float, score_range))
        self._pair_loss: keras.losses.Loss = CosineScoreLoss()

    @classmethod
    def from_pretrained(
        cls,
        directory_or_name: str | os.PathLike[str],
        *,
        pooling: str | None = None,
        normalize: bool | None = None,
        sequence_length: int | None = None,
        prompts: Mapping[str, str] | None = None,
        default_prompt_name: str | None = None,
        dimensions: int | None = None,
        seed: int = 0,
        **kwargs: Any,
    ) -> "SentenceEmbedder":
        """Make an embedder with pretrained weights.

        Args:
            directory_or_name: A model directory, or a name; sentence-transformers settings are read.
            pooling: `None` is the directory's setting, or `"mean"`.
            normalize: `None` is the directory's setting, or `True`.
            sequence_length: `None` is the directory's setting, or the model's maximum up to 512.
            prompts: `None` is the directory's setting; `{}` is no prompts.
            default_prompt_name: `None` is the directory's setting, or none where `prompts` are given.
            dimensions: How many of the first numbers of a vector to keep; `None` keeps all.
            seed: Random seed of dropout in training.
            kwargs: `score_range`, `long_texts`.
        """
        said = read_sentence_modules(find_directory(directory_or_name), pooling=pooling)
        pooling = check_pooling(said.pooling or "mean")
        normalize = normalize if normalize is not None else said.normalize is not False
        encoder, tokenizer = _load(said.directory, pooling, seed)
        length = sequence_length if sequence_length is not None else said.sequence_length
        if prompts is None:
            prompts, default_prompt_name = said.prompts, default_prompt_name or said.default_prompt_name
        return cls(
            embedding_model(encoder, pooling=pooling, normalize=normalize, dimensions=dimensions),
            tokenizer,
            pooling=pooling,
            normalize=normalize,
            sequence_length=length,
            prompts=prompts,
            default_prompt_name=default_prompt_name,
            dimensions=dimensions,
            **kwargs,
        )

    # === Training ===

    def fit(
        self,
        x: Any,
        y: Any = None,
        *,
        validation_data: Any = None,
        loss: str = "auto",
        temperature: float = 0.05,
        symmetric: bool = False,
        matryoshka: Sequence[int] = (),
        metric: str | None = None,
        columns: dict[str, Any] | None = None,
        **options: Any,
    ) -> FinetuneReport | keras.callbacks.History:
        """Fine-tune on pairs or triplets of texts. Other arguments are those of `Task.fit`.

        Args:
            x: Pairs of texts; triplets (a text, one that belongs to it, one that does not); `TextRows` with pairs; the
                path of a file, see `read_sentences`.
            y: The scores of pairs; without scores, the texts of a pair belong together, and not to other pairs.
            validation_data: The same, as `(x, y)` or as one value; it may be of the other kind.
            loss: `"cosine"` learns scores, `"contrastive"` what belongs together; `"auto"` decides by the data.
            temperature: For the contrastive loss: cosines are divided by it.
            symmetric: Whether the contrastive loss also finds the first text by the second.
            matryoshka: Numbers of dimensions, such as `(64, 128)`. The beginnings of vectors then learn to be vectors
                too, so that `dimensions=` loses little; the loss is the mean over these and whole vectors.
            metric: `"spearman"` or `"pearson"` if the data to measure on has scores, else `"accuracy@1"` or `"mrr"`;
                `None` is the first of these.
            columns: Arguments of `read_sentences`, for a file, e.g. `{"text": "sentence1", "pair": "sentence2"}`.
            options: `recipe`, `directory`, `verbose`, and changes of the recipe, e.g. `learning_rate=5e-5`.
        """
        train = as_sentence_groups(x, y, **(columns or {}))
        if validation_data is not None:
            check = validation_data if is_pair_of_xy(validation_data) else (validation_data, None)
            validation_data = as_sentence_groups(*check, **(columns or {}))
        measured = train if validation_data is None else validation_data
        metric = metric or _METRICS[measured.has_scores][0]
        _check_metric(metric, measured.has_scores)
        self._pair_loss = self._choose_loss(loss, train, temperature, symmetric)
        if widths := self._check_widths(matryoshka):
            self._pair_loss = MatryoshkaLoss(self._pair_loss, widths)
        return super().fit(train, validation_data=validation_data, metric=metric, **options)

    def _choose_loss(self, loss: str, train: SentenceGroups, temperature: float, symmetric: bool) -> keras.losses.Loss:
        if loss not in ("auto", "cosine", "contrastive"):
            raise ValueError(f"loss={loss!r}: expected 'auto', 'cosine' or 'contrastive'.")
        if loss == "cosine" and not train.has_scores:
            raise ValueError("loss='cosine' needs scores, and the examples have none; pass y, or loss='contrastive'.")
        if loss == "contrastive" and train.has_scores:
            raise ValueError(
                "loss='contrastive' needs pairs that belong together, and these have scores; leave out the scores "
                "(columns={'label': False} for a file) and the pairs that do not belong together, or use loss='cosine'."
            )
        if train.has_scores:
            self._scaled(train.scores)  # an error before anything is built
            return CosineScoreLoss()
        return ContrastiveLoss(temperature, symmetric)

    def _check_widths(self, matryoshka: Sequence[int]) -> tuple[int, ...]:
        """The lengths at which vectors train, the whole one first; none for plain training."""
        whole = self.model.output[OUTPUT].shape[-1]
        if not all(type(width) is int and 1 <= width <= whole for width in matryoshka):
            raise ValueError(f"matryoshka={tuple(matryoshka)}: expected numbers from 1 to {whole}, such as (64, 128).")
        return tuple(sorted({whole, *matryoshka}, reverse=True)) if matryoshka else ()

    # === Answers ===

    def predict(
        self, texts: Any, *, prompt_name: str | None = None, dimensions: int | None = None, batch_size: int = 64
    ) -> np.ndarray:
        """Compute the vectors of texts, float32 `[n, H]`; one string gives one vector, `[H]`.

        Args:
            texts: The texts.
            prompt_name: The prompt to put before each; `None` is the default, `""` is no prompt.
            dimensions: How many of the first numbers of a vector to give; `None` gives all.
            batch_size: Texts per batch.
        """
        if isinstance(texts, str):
            return self.predict([texts], prompt_name=prompt_name, dimensions=dimensions, batch_size=batch_size)[0]
        texts = list(texts)
        vectors = np.zeros((0, self.model.output[OUTPUT].shape[-1]), np.float32)
        if texts:
            tokenized, owners, notes = self.tokenize(texts, prompt_name=prompt_name)
            for note in notes:
                warnings.warn(f"{note}; long_texts='windows' reads them whole", stacklevel=2)
            vectors = self._by_text(self.outputs(tokenized, batch_size=batch_size)[OUTPUT], owners)
        return vectors if dimensions is None else shorten_vectors(vectors, dimensions, normalize=self.normalize)

    def tokenize(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, *, prompt_name: str | None = None
    ) -> tuple[TokenizedTexts, np.ndarray, tuple[str, ...]]:
        """As `Task.tokenize`, with a prompt before each text."""
        return super().tokenize(self.prompts.add(texts, prompt_name), pairs)

    def similarity(self, first: Any, second: Any, *, batch_size: int = 64) -> np.ndarray:
        """Compute the cosines of two lists of texts, `[n, m]`; vectors from `predict` are accepted too.

        Example:
            ```python
            embedder.similarity(["a cat", "a car"], ["a kitten"])  # [[0.8], [0.3]]
            ```
        """
        return cosine_matrix(*(self._vectors(given, None, batch_size) for given in (first, second)))

    def search(self, queries: Any, collection: Any, *, top: int = 5, batch_size: int = 64) -> Any:
        """Find the texts of a collection that are nearest to each query, the nearest first.

        Args:
            queries: Texts, which get the prompt for queries, or their vectors. One string gives one list.
            collection: Texts, which get the prompt for documents; or their vectors from `predict`, in which case hits
                have no text: `predict(texts, prompt_name=…)` puts the same prompt.
            top: The number of hits for each query.
            batch_size: Texts per batch.

        Returns:
            For each query a list of `Hit(index, score, text)`.
        """
        if isinstance(queries, str):
            return self.search([queries], collection, top=top, batch_size=batch_size)[0]
        collection = collection if isinstance(collection, np.ndarray) else list(collection)
        texts = None if isinstance(collection, np.ndarray) else collection
        found = self._vectors(collection, self.prompts.document, batch_size)
        asked = self._vectors(queries, self.prompts.query, batch_size)
        hits: list[list[Hit]] = search_vectors(asked, found, top=top, texts=texts)
        return hits

    def evaluate(
        self, x: Any, y: Any = None, *, columns: dict[str, Any] | None = None, dimensions: int | None = None
    ) -> RegressionReport | RetrievalReport:
        """Measure on pairs or triplets, in any form that `fit` takes.

        Args:
            x, y, columns: As for `fit`.
            dimensions: How many of the first numbers of a vector count; `None` counts all.

        Returns:
            For pairs with scores a `RegressionReport` (Spearman and Pearson of the cosine); else a `RetrievalReport`.
        """
        data = self.prepare(x, y, **(columns or {}))
        vectors = self.outputs(data.tokenized)[OUTPUT]
        if dimensions is not None:
            vectors = shorten_vectors(vectors, dimensions)
        report = self.report({OUTPUT: vectors}, data)
        return replace(report, notes=(*report.notes, *data.notes))

    def _vectors(self, given: Any, prompt_name: str | None, batch_size: int) -> np.ndarray:
        if isinstance(given, np.ndarray) and given.dtype.kind == "f":
            return given
        texts = [given] if isinstance(given, str) else given
        return self.predict(texts, prompt_name=prompt_name, batch_size=batch_size)

    def _by_text(self, vectors: np.ndarray, owners: np.ndarray) -> np.ndarray:
        """The vector of each text; for a text in windows the mean of its windows' vectors."""
        pooled = mean_by_owner(vectors, owners)
        return normalize_vectors(pooled) if self.normalize and len(pooled) < len(vectors) else pooled

    # === Task definition ===

    def build_model(self, encoder: keras.Model, *, classifier_dropout: float | None, seed: int | None) -> keras.Model:
        return embedding_model(encoder, pooling=self.pooling, normalize=self.normalize, dimensions=self.dimensions)

    def build_training_model(
        self,
        encoder: keras.Model,
        *,
        classifier_dropout: float | None,
        seed: int | None,
        table: np.ndarray | None = None,
    ) -> keras.Model:
        model = self.build_model(encoder, classifier_dropout=classifier_dropout, seed=seed)
        return grouped_model(model, OUTPUT, self.texts_per_example, name=_PAIRS)

    def losses(self) -> dict[str, keras.losses.Loss]:
        return {_PAIRS: self._pair_loss}

    def begin_fit(self, train: PreparedData, validation: PreparedData | None, metric: str) -> None:
        super().begin_fit(train, validation, metric)
        loss = self._pair_loss.loss if isinstance(self._pair_loss, MatryoshkaLoss) else self._pair_loss
        if isinstance(loss, CosineScoreLoss) != _has_scores(train):
            self._pair_loss = CosineScoreLoss() if _has_scores(train) else ContrastiveLoss()

    def metric_for(self, data: PreparedData) -> str:
        return _METRICS[_has_scores(data)][0]

    def prepare(self, x: Any, y: Any, *, class_weight: Any = None, **columns: Any) -> PreparedData:
        if class_weight is not None:
            raise ValueError("class_weight is for classes, and pairs of texts have none; leave it out.")
        groups = as_sentence_groups(x, y, **columns)
        tokenized, owners, notes = super().tokenize(self._with_prompts(groups))
        if len(owners) != len(groups.texts):
            raise ValueError(
                f"There are {len(owners) - len(groups.texts):,} more windows than texts: training and measuring need "
                "one row per text. Use long_texts='cut'; only predict() reads windows."
            )
        if groups.report.dropped:
            notes = (str(groups.report), *notes)
        labels = self._scaled(groups.scores, strict=False) if groups.has_scores else groups.text_numbers
        group = groups.texts_per_example
        owners = np.repeat(np.arange(len(groups)), group)
        return PreparedData(tokenized, labels, None, owners, notes, texts_per_example=group)

    def _with_prompts(self, groups: SentenceGroups) -> list[str]:
        """The texts with their prompts: those of a search where texts belong together, else the default."""
        names = [self.prompts.query, *[self.prompts.document] * (groups.texts_per_example - 1)]
        places = [None] * len(names) if groups.has_scores else names
        prompts = [self.prompts.find(name) for name in places]
        return [prompt + text for group in groups for prompt, text in zip(prompts, group.texts, strict=True)]

    def _scaled(self, scores: np.ndarray, strict: bool = True) -> np.ndarray:
        """Scale scores to cosines."""
        if self.score_range is None:
            if strict and np.abs(scores).max() > 1:
                raise ValueError(
                    f"The scores go from {scores.min():g} to {scores.max():g}, a cosine from −1 to 1; pass "
                    f"score_range=(lowest, highest) to from_pretrained, such as (0, 5) for STS-B."
                )
            return scores
        low, high = self.score_range
        if strict and not (low <= scores.min() and scores.max() <= high):
            raise ValueError(
                f"The scores go from {scores.min():g} to {scores.max():g}, outside of score_range={self.score_range}."
            )
        share = (scores - low) / (high - low)
        return (2 * share - 1 if low < 0 else share).astype(np.float32)

    @staticmethod
    def _groups_of(outputs: dict[str, np.ndarray], data: PreparedData) -> np.ndarray:
        vectors = outputs[OUTPUT]
        return vectors.reshape(-1, data.texts_per_example, vectors.shape[-1])

    def report(self, outputs: dict[str, np.ndarray], data: PreparedData) -> RegressionReport | RetrievalReport:
        """Measure outputs on labelled data."""
        vectors = self._groups_of(outputs, data)
        labels: Any = data.labels
        if labels.ndim == 2:
            found: RetrievalReport = retrieval_report(vectors, labels)
            return found
        cosines: Any = _cosines(vectors)
        report = regression_report(labels, cosines)
        if np.abs(labels).max() > 1:
            note = "scores are not on the scale of cosines, so the MSE has no meaning: see score_range"
            return replace(report, notes=(*report.notes, note))
        return report

    def score(self, outputs: dict[str, np.ndarray], data: PreparedData, metric: str) -> Score:
        labels: Any = data.labels
        has_scores = labels.ndim == 1
        _check_metric(metric, has_scores)
        report, vectors = self.report(outputs, data), self._groups_of(outputs, data)
        value = getattr(report, metric.replace("@", "_at_"))
        details = {}
        if isinstance(report, RegressionReport) and np.abs(labels).max() <= 1:
            details["val_loss"] = report.mse
        degenerate = bool(np.ptp(vectors, axis=(0, 1)).max() < 1e-3)
        # An undefined value (a correlation with a constant) counts as the worst.
        return Score(value if np.isfinite(value) else -1.0, degenerate, details)

    # === Directories ===

    optional_files = SENTENCE_FILES

    def add_files(self, directory: Path) -> None:
        # With these files, sentence-transformers opens it too.
        write_sentence_modules(
            directory,
            pooling=self.pooling,
            normalize=self.normalize,
            sequence_length=self.sequence_length,
            width=self.config.hidden_dim,
            prompts=self.prompts.texts,
            default_prompt_name=self.prompts.default,
        )

    def settings(self) -> dict[str, Any]:
        settings = {"pooling": self.pooling, "normalize": self.normalize, "score_range": self.score_range}
        prompts = {"prompts": dict(self.prompts.texts), "default_prompt_name": self.prompts.default}
        return {
            **settings,
            **(prompts if self.prompts.texts else {}),
            **({} if self.dimensions is None else {"dimensions": self.dimensions}),
        }

    @classmethod
    def from_directory(cls, directory: str | os.PathLike[str], settings: dict[str, Any]) -> "Self":
        encoder, tokenizer = _load(find_directory(directory), settings["pooling"], None)
        known = {name: settings[name] for name in ("pooling", "normalize", "dimensions") if name in settings}
        return cls(embedding_model(encoder, **known), tokenizer, **settings)


def _load(directory: str | os.PathLike[str], pooling: str, seed: int | None) -> tuple[keras.Model, SubwordTokenizer]:
    with warnings.catch_warnings():
        if pooling != "pooler":  # a missing pooler does not matter
            warnings.filterwarnings("ignore", message=".*has no pooler")
        encoder, tokenizer = load_encoder(directory, seed=seed)
    if tokenizer is None:
        raise ValueError(f"{directory} has no vocab.txt, so texts cannot be tokenized; add the model's own vocabulary.")
    return encoder, tokenizer


def _cosines(vectors: np.ndarray) -> np.ndarray:
    unit = normalize_vectors(vectors)
    return np.sum(unit[:, 0] * unit[:, 1], axis=-1)


def _has_scores(data: PreparedData) -> bool:
    labels: Any = data.labels
    if isinstance(labels, dict):  # with a teacher's outputs beside them
        labels = labels[_PAIRS]
    return labels is None or labels.ndim == 1


def _check_metric(metric: str, has_scores: bool) -> None:
    if metric not in _METRICS[has_scores]:
        data = "pairs with scores" if has_scores else "pairs without scores"
        raise ValueError(f"metric={metric!r}: {data} are measured by {' or '.join(_METRICS[has_scores])}.")
