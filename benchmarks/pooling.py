"""What a classifier's head reads, the first token or the mean of all: accuracy on the bundled assistant commands.

    python benchmarks/pooling.py                        # MiniLM, one seed: 8 minutes on one core
    python benchmarks/pooling.py --seeds 0 1 2 --model a-bert/

Trains on the training part and measures on the test part, which nothing is chosen by: the weights after the last step
count. `frozen` trains the head on an encoder that stays as it is; it shows what the vector itself says.
"""

import argparse
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from record import add_output, write_run

import keras_bert
from keras_bert.data.assistant import intents

RECIPES = {"standard": {"epochs": 6, "batch_size": 16}, "frozen": {"epochs": 20, "batch_size": 16}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="all-MiniLM-L6-v2")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    add_output(parser, "pooling")
    arguments = parser.parse_args()
    keras_bert.keep_freed_memory()
    train, test = (
        ([row.text for row in part], [row.intent for row in part])
        for part in (keras_bert.load_assistant("train"), keras_bert.load_assistant("test"))
    )
    print(f"{len(train[0]):,} commands to train on, {len(test[0]):,} to test, {len(intents())} intents\n")
    print("| recipe | pooling | accuracy |\n|---|---|---|")
    rows = {recipe: {"recipe": recipe} for recipe in RECIPES}
    for recipe, changes in RECIPES.items():
        for pooling in ("cls", "mean"):
            found = []
            for seed in arguments.seeds:
                options = {"labels": intents(), "sequence_length": 28, "pooling": pooling, "seed": seed}
                classifier = keras_bert.TextClassifier.from_pretrained(arguments.model, **options)
                classifier.fit(*train, recipe=recipe, seeds=(seed,), verbose=0, **changes)
                found.append(100 * classifier.evaluate(*test).accuracy)
            spread = f" ± {np.std(found):.1f}" if len(found) > 1 else ""
            print(f"| {recipe} | {pooling} | {np.mean(found):.1f}{spread} |", flush=True)
            rows[recipe][{"cls": "the first token, %", "mean": "the mean, %"}[pooling]] = found
    settings = {"training commands": len(train[0]), "test commands": len(test[0])}
    facts = {"seeds": arguments.seeds, "settings": settings}
    write_run(arguments.output, list(rows.values()), packages=("tensorflow", "keras"), **facts)


if __name__ == "__main__":
    main()
