"""Intents and slots: one model that understands commands, from the bundled assistant data or an ATIS/SNIPS folder.

    python examples/intent_slots.py                                              # bundled data, 2 cores: two minutes
    python examples/intent_slots.py --data snips/train --test snips/test --epochs 5

Trains, prints the report on the test data, understands two commands, and saves the model. They are answered as in

    » wake me at half past six on Sunday
      set_alarm (99%): half past six (time, 96%), Sunday (date, 100%)
"""

import argparse
from pathlib import Path

import keras_bert

keras_bert.quiet_tensorflow()

from keras_bert import read_commands
from keras_bert.tasks import as_commands

COMMANDS = ("wake me at half past six on Sunday", "text Zoë that the train to Malmö is late 🙂")


def read(arguments):
    """Training and test rows."""
    if arguments.data is not None:
        return [read_commands(path) for path in (arguments.data, arguments.test or arguments.data)]
    parts = [keras_bert.load_assistant(split) for split in ("train", "test")]
    return [as_commands(part[:24] if arguments.smoke else part) for part in parts]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a folder with seq.in, seq.out and label, or a JSONL file")
    parser.add_argument("--test", help="another one to measure on")
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="a directory or name with pretrained weights")
    parser.add_argument("--output", type=Path, default=Path("assistant"), help="where the model goes")
    parser.add_argument("--text", nargs="+", default=COMMANDS, help="commands to understand")
    parser.add_argument("--epochs", type=float, default=10)
    parser.add_argument("--learning-rate", type=float, help="default: 1e-4, for the few bundled commands 5e-4")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--smoke", action="store_true", help="a step or two on a few rows, to see that it runs")
    arguments = parser.parse_args()
    keras_bert.keep_freed_memory()
    train, test = read(arguments)
    print(train.report)
    names = {"intents": train.intents, "slots": train.entity_kinds}
    model = keras_bert.IntentSlots.from_pretrained(arguments.model, **names, sequence_length=64)
    # The test data is for the report alone: nothing is chosen by it.
    rate = arguments.learning_rate or (5e-4 if arguments.data is None else 1e-4)
    changes = {"epochs": 1 if arguments.smoke else arguments.epochs, "learning_rate": rate}
    print(model.fit(train, seeds=(arguments.seed,), restarts=0, **changes))
    print(model.evaluate(test))
    model.save(arguments.output)
    for text, command in zip(arguments.text, model.predict(arguments.text), strict=True):
        print(f"» {text}\n  {command}")


if __name__ == "__main__":
    main()
