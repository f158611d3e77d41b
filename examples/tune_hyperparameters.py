"""Search for good fine-tuning settings with KerasTuner.

    pip install -e '.[export,tune]'
    python examples/tune_hyperparameters.py --trials 8          # about 20 minutes on 2 cores

Tries learning rates, layer-wise decay and dropout for MiniLM on the bundled commands to a phone assistant, each trial a
short fine-tuning that is judged on the validation set. At the end it prints the trials, the best first, like

    » accuracy 0.9306  learning_rate 0.00021  layer_decay 0.95  dropout 0

A stopped search goes on when it is started again: KerasTuner keeps its trials in the output directory.
"""

import argparse
from pathlib import Path

import keras_bert

keras_bert.quiet_tensorflow()

import keras
import keras_tuner

from keras_bert.data import intents


class FinetuneSearch(keras_tuner.RandomSearch):
    """A random search whose trials are fine-tunings by a recipe."""

    def run_trial(self, trial, model, train, validation, steps):
        settings = trial.hyperparameters
        changes = {
            "learning_rate": settings.Float("learning_rate", 2e-5, 5e-4, sampling="log"),
            "layer_decay": settings.Choice("layer_decay", [1.0, 0.95, 0.9]),
            "dropout": settings.Choice("dropout", [0.0, 0.1]),
        }
        keras.backend.clear_session()
        classifier = keras_bert.TextClassifier.from_pretrained(model, labels=intents(), sequence_length=28)
        report = classifier.fit(
            *train, validation_data=validation, epochs=1, steps=steps, patience=None, verbose=0, **changes
        )
        print(f"trial {trial.trial_id}: accuracy {report.best.score:.4f} in {report.best.seconds:.0f} s", flush=True)
        return {"accuracy": report.best.score}


def texts_and_intents(split, count=None):
    commands = keras_bert.load_assistant(split)[:count]
    return [command.text for command in commands], [command.intent for command in commands]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="a directory or name with pretrained weights")
    parser.add_argument("--output", type=Path, default=Path("tuning"), help="where KerasTuner keeps its trials")
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--steps", type=int, default=180, help="training steps of a trial")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--smoke", action="store_true", help="two short trials on a part of the data")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.trials, arguments.steps = 2, 2
    count = 32 if arguments.smoke else None
    keras_bert.keep_freed_memory()
    search = FinetuneSearch(
        objective=keras_tuner.Objective("accuracy", "max"),
        max_trials=arguments.trials,
        seed=arguments.seed,
        directory=arguments.output,
        project_name="assistant",
    )
    data = (texts_and_intents("train", count), texts_and_intents("validation", count))
    search.search(arguments.model, *data, arguments.steps)
    for trial in search.oracle.get_best_trials(arguments.trials):
        values = "  ".join(f"{name} {value:.2g}" for name, value in trial.hyperparameters.values.items())
        print(f"» accuracy {trial.score:.4f}  {values}")


if __name__ == "__main__":
    main()
