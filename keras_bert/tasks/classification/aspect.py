"""Aspect-based sentiment: what a sentence says about an aspect.

`AspectClassifier` reads `[CLS] sentence [SEP] aspect [SEP]`, so an aspect may be words of the sentence (*battery life*)
or a category that it does not mention (*service*). It is a `TextClassifier` of pairs with its own files and answers.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import keras

from keras_bert.batching.prepared_data import PreparedData
from keras_bert.data.inputs import as_rows
from keras_bert.decoding.labels import choose_polarities
from keras_bert.finetuning.report import FinetuneReport
from keras_bert.tasks.classification.aspect_files import read_aspects
from keras_bert.tasks.classification.task import TextClassifier
from keras_bert.text.subword_tokenizer import SubwordTokenizer

if TYPE_CHECKING:
    from typing_extensions import Self

POLARITIES = ("negative", "neutral", "positive")


class AspectClassifier(TextClassifier):
    """BERT for the sentiment of a sentence toward an aspect.

    Args:
        model: A model with `class_logits`, from `bert_model(…, "classification")`.
        tokenizer: Its tokenizer.
        labels: The names of the polarities.
        kwargs: As for `Task`: `sequence_length`, `long_texts`.

    Example:
        ```python
        classifier = AspectClassifier.from_pretrained("all-MiniLM-L6-v2")
        print(classifier.fit("Restaurants_Train_v2.xml", epochs=4, learning_rate=5e-5))
        classifier.predict("Great pizza, but we waited an hour.", aspects=["pizza", "service"])
        # [AspectPolarity('pizza', 'positive', 0.99), AspectPolarity('service', 'negative', 0.93)]
        classifier.save("aspects")
        ```
    """

    name = "aspect"

    def __init__(
        self,
        model: keras.Model,
        tokenizer: SubwordTokenizer,
        *,
        labels: Sequence[str],
        kind: str = "single_label",
        **kwargs: Any,
    ):
        if kind != "single_label":
            raise ValueError(
                f"kind={kind!r}: an aspect has one polarity; for other labels use TextClassifier on pairs."
            )
        super().__init__(model, tokenizer, labels=labels, kind=kind, **kwargs)

    @classmethod
    def from_pretrained(
        cls,
        directory_or_name: str | os.PathLike[str],
        *,
        labels: Sequence[str] | None = POLARITIES,
        seed: int = 0,
        **kwargs: Any,
    ) -> "Self":
        """Make a classifier with pretrained weights.

        Args:
            directory_or_name: A model directory, or the name of a model.
            labels: The names of the polarities. `None` uses the classifier and the classes of the checkpoint.
            seed: Random seed of the new head.
            kwargs: `sequence_length`, `long_texts`.
        """
        return super().from_pretrained(directory_or_name, labels=labels, seed=seed, **kwargs)

    def predict(  # type: ignore[override]  # a polarity has no threshold
        self, texts: Any, *, aspects: Sequence[str] | None = None, batch_size: int = 64
    ) -> Any:
        """Predict what texts say about aspects.

        Args:
            texts: Pairs `(sentence, aspect)`; or, with `aspects`, a sentence or a list of sentences.
            aspects: The aspects to predict for every sentence.
            batch_size: Pairs per batch.

        Returns:
            An `AspectPolarity` for each pair; with `aspects` one for each aspect, and for a list of sentences a list
            of such lists.
        """
        if aspects is None:
            pairs = _check_pairs(texts)
            logits = self.logits(pairs, batch_size=batch_size)
            return choose_polarities(logits, self.labels or (), [aspect for _, aspect in pairs])
        if isinstance(aspects, str):
            raise TypeError(f"aspects={aspects!r} is one string; expected a list: [{aspects!r}].")
        sentences, aspects = [texts] if isinstance(texts, str) else list(texts), list(aspects)
        flat = self.predict([(sentence, aspect) for sentence in sentences for aspect in aspects], batch_size=batch_size)
        answers = [flat[index * len(aspects) : (index + 1) * len(aspects)] for index in range(len(sentences))]
        return answers[0] if isinstance(texts, str) else answers

    def fit(
        self,
        x: Any,
        y: Any = None,
        *,
        validation_data: Any = None,
        columns: dict[str, Any] | None = None,
        **options: Any,
    ) -> FinetuneReport | keras.callbacks.History:
        """Fine-tune on sentences with aspects. Other arguments are those of `Task.fit`.

        Args:
            x: Pairs `(sentence, aspect)`; rows from `read_aspects`; or the path of SemEval's XML, or of a TSV, CSV or
                JSONL file.
            y: The polarities, if `x` is pairs.
            validation_data: The same, as `(x, y)` or as one value.
            columns: Arguments of `read_aspects`, e.g. `{"kind": "categories"}` or `{"pair": "target"}`.
            options: `recipe`, `metric`, `class_weight`, `directory`, `verbose`, and changes of the recipe.
        """
        return super().fit(x, y, validation_data=validation_data, columns=columns, **options)

    def prepare(self, x: Any, y: Any, *, class_weight: Any = None, **columns: Any) -> PreparedData:
        if isinstance(x, str | os.PathLike):
            x, columns = read_aspects(x, **columns), {}
        rows = as_rows(x, y, **columns)
        missing = next((example for example in rows if not (example.pair or "").strip()), None)
        if missing is not None:
            raise ValueError(
                f"Row {missing.row} ({missing.text[:40]!r}) has no aspect; expected (sentence, aspect) for every text."
            )
        return super().prepare(rows, None, class_weight=class_weight)


def _check_pairs(texts: Any) -> list[tuple[str, str]]:
    if isinstance(texts, str):
        raise TypeError(
            f"There is no aspect for {texts[:40]!r}; pass aspects=['food', …], or pairs (sentence, aspect)."
        )
    pairs: list[Any] = [tuple(pair) if isinstance(pair, tuple | list) else pair for pair in texts]
    for number, pair in enumerate(pairs, 1):
        if not isinstance(pair, tuple) or len(pair) != 2 or not all(isinstance(part, str) for part in pair):
            raise TypeError(f"Text {number} is {pair!r}; expected a pair (sentence, aspect), or pass aspects=[…].")
    return pairs
