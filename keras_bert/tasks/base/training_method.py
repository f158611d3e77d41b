"""A way to train that differs from a task's own: distillation, pruning and quantization-aware training are such values.

`Task.fit(method=…)` takes one and asks it at each step of the training.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import keras
import numpy as np

from keras_bert.batching.prepared_data import PreparedData
from keras_bert.finetuning.best_weights import Score

if TYPE_CHECKING:
    from keras_bert.tasks.base.task import Task

Losses = dict[str, keras.losses.Loss]


class TrainingMethod:
    """How a training differs from that of the task itself. This class changes nothing; subclasses override.

    Example:
        ```python
        class Slower(TrainingMethod):
            def losses(self, own):
                return {name: ScaledLoss(loss, 0.1) for name, loss in own.items()}

        classifier.fit(texts, labels, method=Slower())
        ```
    """

    def layer_names(self) -> tuple[str, ...]:
        """Layers that the method adds to the model in training."""
        return ()

    def weights_model(self, task: "Task") -> keras.Model:
        """The model that weights come from and go back to."""
        return task.model

    def change_model(self, model: keras.Model) -> keras.Model:
        """Change a fresh model of the task, which is measured on the way."""
        return model

    def change_training_model(self, model: keras.Model, encoder: keras.Model) -> keras.Model:
        """Change the model that trains; `encoder` is the part that it was built on."""
        return model

    def losses(self, own: Losses) -> Losses:
        """Change the losses of the model that trains."""
        return own

    def sample(self, train: PreparedData) -> PreparedData:
        """Some training data, to see whether a run has degenerated where there is no validation data."""
        return train.first_rows(256)

    def state(self, model: keras.Model) -> dict[str, np.ndarray]:
        """Give what the score needs of the model in training."""
        return {}

    def score(self, score: Score, state: dict[str, np.ndarray]) -> Score:
        """Change a score of the model in training."""
        return score


class Combined(TrainingMethod):
    """Several methods, one after the other: the first changes the model first.

    Args:
        methods: The methods; the first one whose weights live in a model of its own decides where they go.
    """

    def __init__(self, methods: Sequence[TrainingMethod]):
        self.methods = tuple(methods)

    def layer_names(self) -> tuple[str, ...]:
        return tuple(name for method in self.methods for name in method.layer_names())

    def weights_model(self, task: "Task") -> keras.Model:
        models = (method.weights_model(task) for method in self.methods)
        return next((model for model in models if model is not task.model), task.model)

    def change_model(self, model: keras.Model) -> keras.Model:
        for method in self.methods:
            model = method.change_model(model)
        return model

    def change_training_model(self, model: keras.Model, encoder: keras.Model) -> keras.Model:
        for method in self.methods:
            model = method.change_training_model(model, encoder)
        return model

    def losses(self, own: Losses) -> Losses:
        for method in self.methods:
            own = method.losses(own)
        return own

    def sample(self, train: PreparedData) -> PreparedData:
        return self.methods[-1].sample(train)

    def state(self, model: keras.Model) -> dict[str, np.ndarray]:
        return {name: value for method in self.methods for name, value in method.state(model).items()}

    def score(self, score: Score, state: dict[str, np.ndarray]) -> Score:
        for method in self.methods:
            score = method.score(score, state)
        return score
