"""The best weights of a run, measured on the way: early stopping that also survives a kill.

`KeepBest` takes a function that measures, and gives the run its best weights back at the end. A room of its own because
Keras's own callback knows only the metrics that `fit` computes, and tasks are measured by others (F1, Matthews,
Spearman), and because it forgets the best weights when the process dies.
"""

import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import keras
import numpy as np
from safetensors.numpy import load_file, save_file

from keras_bert.model.weights import to_numpy
from keras_bert.system.atomic_files import write_whole


@dataclass(frozen=True)
class Score:
    """A measurement.

    Args:
        value: The number that decides; more is better.
        degenerate: Whether the model gives every text the same answer.
        details: Other numbers for the history. Of equal scores the one with the lower `val_loss` among them is better.
    """

    value: float
    degenerate: bool = False
    details: dict = field(default_factory=dict)


class KeepBest(keras.callbacks.Callback):
    """Measures at the end of every epoch, stops when nothing is gained any more, keeps the best weights.

    A gain is a higher score, or the same score with a lower `val_loss`: a score that counts whole answers stands still
    for epochs while a model learns. While a model gives one answer to every text it has not begun to learn, and no
    measurement of it counts as one without a gain.

    Args:
        measure: Takes the model, gives a `Score`; `None` keeps the last weights.
        metric: What the score is called in the logs, after `val_`.
        patience: Measurements without a gain before it stops; `None` never stops.

    Example:
        ```python
        keeper = KeepBest(lambda model: Score(accuracy(model)), metric="accuracy", patience=2)
        model.fit(data, epochs=10, callbacks=[keeper])
        keeper.finish(model)
        ```
    """

    def __init__(self, measure: Callable[[keras.Model], Score] | None, *, metric="score", patience=None):
        super().__init__()
        self.measure, self.metric, self.patience = measure, metric, patience
        self.history: list[dict] = []
        self.best: Score | None = None
        self._best_weights: list[np.ndarray] | None = None
        self.best_epoch = 0
        self._waited: list[int] = []  # beside the history: measurements since the last gain
        self._directory: Path | None = None

    def keep_in(self, directory: str | os.PathLike, epoch: int = 0) -> None:
        """Keep the best weights and the history on disk too, and read what a run that was killed after `epoch` left."""
        self._directory = Path(directory)
        path = self._directory / "best.json"
        if not path.exists():
            return
        kept = json.loads(path.read_text(encoding="utf-8"))
        # What was measured after the last saved state will be measured again, with the same numbers.
        self.history = [row for row in kept["history"] if row["epoch"] <= epoch]
        self._waited = kept["waited"][: len(self.history)]
        self.best, self.best_epoch = Score(**kept["best"]), kept["best_epoch"]
        arrays = load_file(self._directory / kept["file"])
        self._best_weights = [arrays[str(index)] for index in range(len(arrays))]

    def on_epoch_end(self, epoch, logs=None):
        row = {"epoch": epoch + 1, **{name: float(value) for name, value in (logs or {}).items()}}
        if self.measure is not None:
            score = self.measure(self.model)
            measured = {f"val_{self.metric}": score.value, **score.details}
            row |= measured
            logs.update(measured)  # for the callbacks behind this one
            self._judge(score, epoch + 1)
        self.history.append(row)
        if self._directory is not None and self.best is not None:
            self._write()
        if self.out_of_patience:
            self.model.stop_training = True

    @property
    def out_of_patience(self) -> bool:
        """Whether nothing was gained for so long that training has to stop; a run that was killed then knows it too."""
        return self.patience is not None and bool(self._waited) and self._waited[-1] >= self.patience

    def _judge(self, score, epoch):
        # What was the best when a run was killed may be measured a second time, and is a gain then too.
        if self.best is None or epoch == self.best_epoch or _rank(score) > _rank(self.best):
            self.best, self.best_epoch = score, epoch
            self._best_weights = [to_numpy(variable) for variable in self.model.trainable_variables]
            self._waited.append(0)
        else:
            self._waited.append((self._waited or [0])[-1] + (not score.degenerate))

    def finish(self, model: keras.Model) -> Score:
        """Give the model its best weights, and their score; NaN where nothing was measured."""
        self.restore_best(model)
        return self.best or Score(float("nan"))

    def restore_best(self, model: keras.Model) -> None:
        """Give the model its best weights; without any it stays as it is."""
        for variable, value in zip(model.trainable_variables, self._best_weights or [], strict=False):
            variable.assign(value)

    def _write(self):
        """First the weights under a new name, then the one file that points to them: a kill leaves one or the other."""
        self._directory.mkdir(parents=True, exist_ok=True)
        name = f"best-{self.best_epoch}.safetensors"
        if not (self._directory / name).exists():
            arrays = {str(index): value for index, value in enumerate(self._best_weights)}
            save_file(arrays, self._directory / f".{name}.partial")
            os.replace(self._directory / f".{name}.partial", self._directory / name)
        kept = {"best": self.best.__dict__, "best_epoch": self.best_epoch, "file": name}
        kept |= {"history": self.history, "waited": self._waited}
        write_whole(self._directory / "best.json", json.dumps(kept) + "\n")
        for old in self._directory.glob("best-*.safetensors"):
            if old.name != name:
                old.unlink()


def _rank(score):
    """What is better is larger; NaN is the least of all."""
    loss = score.details.get("val_loss", math.inf)
    value, loss = (-math.inf if math.isnan(number) else number for number in (score.value, -loss))
    return value, not score.degenerate, loss
