"""A model that counts what it reads: the real tokens of an epoch, padding left out.

Takes what `TrainingModel` takes, and measures one number more, `tokens`. A room of its own because the count has to be
made where the batches are used: input pipelines read ahead, and packed rows hold as many tokens as happened to fit.
"""

import keras
from keras import ops

from keras_bert.training.training_model import TrainingModel


@keras.saving.register_keras_serializable("keras_bert")
class TokenCountingModel(TrainingModel):
    """A `TrainingModel` whose logs have `tokens`: how many the epoch has read so far.

    Example:
        ```python
        model = pretraining_model(config, model_class=TokenCountingModel)
        ```
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.token_count = keras.metrics.Sum(name="tokens")

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """As `keras.Model.compute_metrics`, and counts."""
        self.token_count.update_state(ops.cast(x["padding_mask"] > 0, "float32"))
        return super().compute_metrics(x, y, y_pred, sample_weight)
