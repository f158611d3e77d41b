"""Named entities: train a tagger on CoNLL or JSONL files, or on the slots of the bundled assistant data.

    python examples/named_entities.py                                                  # bundled data, 2 cores: minutes
    python examples/named_entities.py --data wnut17train.conll --test emerging.test.annotated
    python examples/named_entities.py --data train.char.bmes --test test.char.bmes --model a-chinese-bert/ --head crf

Trains, prints the report on the test data (a tenth of the training data where none is given), finds the entities of two
texts, and saves the model. The texts are answered as in

    » wake me at half past six on Sunday
      half past six (time, 97%), Sunday (date, 98%)
"""

import argparse
from pathlib import Path

import keras_bert

keras_bert.quiet_tensorflow()

import numpy as np

from keras_bert import EntityTagger, read_tagged
from keras_bert.tasks import as_tagged_rows

QUESTIONS = ("wake me at half past six on Sunday", "text Zoë that the train to Malmö is late 🙂")


def read(arguments):
    """Training and test rows."""
    if arguments.data is None:
        parts = [keras_bert.load_assistant(split) for split in ("train", "test")]
        parts = [part[:24] for part in parts] if arguments.smoke else parts
        return [as_tagged_rows([row.text for row in part], [row.slots for row in part]) for part in parts]
    rows = read_tagged(arguments.data)
    print(rows.report)
    if arguments.test is not None:
        return rows, read_tagged(arguments.test)
    order = np.random.default_rng(arguments.seed).permutation(len(rows))
    tenth = max(1, len(rows) // 10)
    return [as_tagged_rows([rows[index] for index in part]) for part in (order[tenth:], order[:tenth])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a CoNLL or JSONL file with words and tags")
    parser.add_argument("--test", help="another one to measure on")
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="a directory or name with pretrained weights")
    parser.add_argument("--head", choices=("softmax", "crf"), default="softmax")
    parser.add_argument("--output", type=Path, default=Path("entities"), help="where the model goes")
    parser.add_argument("--text", nargs="+", default=QUESTIONS, help="texts to find entities in")
    parser.add_argument("--epochs", type=float, default=5)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--smoke", action="store_true", help="a step or two on a few rows, to see that it runs")
    arguments = parser.parse_args()
    keras_bert.keep_freed_memory()
    train, test = read(arguments)
    kinds = sorted({*train.entity_kinds, *test.entity_kinds})
    tagger = EntityTagger.from_pretrained(arguments.model, labels=kinds, head=arguments.head, sequence_length=128)
    # The test data is for the report alone: nothing is chosen by it.
    changes = {"epochs": 1 if arguments.smoke else arguments.epochs, "learning_rate": arguments.learning_rate}
    print(tagger.fit(train, seeds=(arguments.seed,), restarts=0, **changes))
    print(tagger.evaluate(test))
    tagger.save(arguments.output)
    for text, entities in zip(arguments.text, tagger.predict(arguments.text), strict=True):
        print(f"» {text}\n  {', '.join(map(str, entities)) or 'no entity'}")


if __name__ == "__main__":
    main()
