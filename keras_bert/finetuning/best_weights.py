"""Keeps the best weights of a run, with early stopping that also works after a restart.

Unlike Keras' `EarlyStopping`, `KeepBest` takes any function as its measure (F1, Matthews, Spearman), and can keep the
best weights on disk.
"""

import contextlib
import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from keras_bert.model.weights import to_numpy
from keras_bert.system.atomic_files import sync, write_whole


@dataclass(frozen=True)
class Score:
    """A measurement of a model.

    Args:
        value: The score; higher is better.
        degenerate: Whether the model gives every text the same answer.
        details: More numbers for the history. If two scores are equal, the one with the lower `val_loss` is better.
    """

    value: float
    degenerate: bool = False
    details: dict[str, float] = field(default_factory=dict)


class KeepBest(keras.callbacks.Callback):
    """Measures the model after every epoch, keeps the best weights, and stops when the score no longer improves.

    A higher score is an improvement, and so is an equal score with a lower `val_loss`: a score that counts whole
    answers may stay the same for epochs while the model learns. A model that gives every text the same answer has not
    begun to learn, so its measurements do not count towards `patience`.

    Args:
        measure: A function that takes the model and returns a `Score`; `None` keeps the last weights.
        metric: The name of the score in the logs, after `val_`.
        patience: How many measurements without improvement to wait before stopping; `None` never stops.

    Example:
        ```python
        keeper = KeepBest(lambda model: Score(accuracy(model)), metric="accuracy", patience=2)
        model.fit(data, epochs=10, callbacks=[keeper])
        keeper.finish(model)
        ```
    """

    def __init__(
        self,
        measure: Callable[[keras.Model], Score] | None,
        *,
        metric: str = "score",
        patience: int | None = None,
    ):
        super().__init__()
        self.measure, self.metric, self.patience = measure, metric, patience
        self.history: list[dict[str, Any]] = []
        self.best: Score | None = None
        self._best_weights: list[np.ndarray] | None = None
        self.best_epoch = 0
        self._waited: list[int] = []  # for each entry of the history: measurements since the last improvement
        self._directory: Path | None = None

    def keep_in(self, directory: str | os.PathLike[str], epoch: int = 0) -> None:
        """Also keep the best weights and the history on disk, and read those of a run that was killed after `epoch`."""
        self._directory = Path(directory)
        path = self._directory / "best.json"
        if not path.exists():
            return
        kept = json.loads(path.read_text(encoding="utf-8"))
        # Measurements after the last saved state will be repeated, with the same results.
        self.history = [row for row in kept["history"] if row["epoch"] <= epoch]
        self._waited = kept["waited"][: len(self.history)]
        self.best, self.best_epoch = Score(**kept["best"]), kept["best_epoch"]
        arrays = load_file(self._directory / kept["file"])
        self._best_weights = [arrays[str(index)] for index in range(len(arrays))]

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        logs = {} if logs is None else logs
        row = {"epoch": epoch + 1, **{name: float(value) for name, value in logs.items()}}
        if self.measure is not None:
            score = self.measure(self.model)
            measured = {f"val_{self.metric}": score.value, **score.details}
            row |= measured
            logs.update(measured)  # for the callbacks after this one
            self._judge(score, epoch + 1)
        self.history.append(row)
        if self._directory is not None and self.best is not None:
            self._write(self._directory, self.best)
        if self.out_of_patience:
            self.model.stop_training = True

    @property
    def out_of_patience(self) -> bool:
        """Whether training has to stop because the score no longer improves; also after a restart."""
        return self.patience is not None and bool(self._waited) and self._waited[-1] >= self.patience

    def _judge(self, score: Score, epoch: int) -> None:
        # After a restart the best epoch may be measured again, which is an improvement again.
        if self.best is None or epoch == self.best_epoch or _rank(score) > _rank(self.best):
            self.best, self.best_epoch = score, epoch
            self._best_weights = [to_numpy(variable) for variable in self.model.trainable_variables]
            self._waited.append(0)
        else:
            self._waited.append((self._waited or [0])[-1] + (not score.degenerate))

    def finish(self, model: keras.Model) -> Score:
        """Load the best weights into the model and return their score; NaN if nothing was measured."""
        self.restore_best(model)
        return self.best or Score(float("nan"))

    def restore_best(self, model: keras.Model) -> None:
        """Load the best weights into the model, if there are any."""
        for variable, value in zip(model.trainable_variables, self._best_weights or [], strict=False):
            variable.assign(value)

    def _write(self, directory: Path, best: Score) -> None:
        """Write the weights under a new name, then the file that names them: a kill leaves the old or the new ones."""
        name = f"best-{self.best_epoch}.safetensors"
        partial = directory / f".{name}.partial"
        kept: dict[str, Any] = {"best": best.__dict__, "best_epoch": self.best_epoch, "file": name}
        kept |= {"history": self.history, "waited": self._waited}
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if not (directory / name).exists():
                save_file({str(index): value for index, value in enumerate(self._best_weights or [])}, partial)
                sync(partial)
                os.replace(partial, directory / name)
            write_whole(directory / "best.json", json.dumps(kept) + "\n")
        except (OSError, SafetensorError) as error:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise OSError(
                f"The best weights could not be written to {directory} ({error}). Free some space, or choose another "
                "directory; started again, the run goes on from its last state."
            ) from error
        for old in directory.glob("best-*.safetensors"):
            if old.name != name:
                old.unlink()


def _rank(score: Score) -> tuple[float, bool, float]:
    """Return a key that is larger for a better score; NaN is the lowest."""
    loss = score.details.get("val_loss", math.inf)
    value, loss = (-math.inf if math.isnan(number) else number for number in (score.value, -loss))
    return value, not score.degenerate, loss
