"""One call from a fine-tuned model to the smallest file that keeps its accuracy, with a report of how it was chosen.

    python examples/deploy.py --model sentiment/ --train train.tsv --validation dev.tsv --time-limit 1800
    python examples/deploy.py --smoke            # MiniLM and 48 of the bundled commands, a minute

Takes a directory that `keras-bert finetune` wrote and labelled files; writes out/model.tflite, out/saved_model,
out/report.html and the rest, and prints the table of all candidates. What is tried are values: here a student of one's
own is added to the usual ones. The same without Python: `keras-bert deploy sentiment/ out/ --train … --validation …`.
"""

import argparse
from pathlib import Path

import keras_bert

keras_bert.quiet_tensorflow()

import export


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a directory with a fine-tuned task; with --smoke a pretrained one")
    parser.add_argument("--train", help="labelled texts to train students on")
    parser.add_argument("--validation", help="labelled texts that the promise is measured on")
    parser.add_argument("--budget", type=float, default=0.01, help="how much accuracy may be lost")
    parser.add_argument("--time-limit", type=float, help="seconds")
    parser.add_argument("--output", type=Path, default=Path("out"))
    parser.add_argument("--smoke", action="store_true", help="one epoch on bundled data, to see that it runs")
    arguments = parser.parse_args()
    if arguments.smoke:
        task, train, validation = smoke_task(arguments.model)
    else:
        task = keras_bert.load_task(arguments.model)
        train, validation = (keras_bert.read_rows(path) for path in (arguments.train, arguments.validation))

    sizes = (("embedding_dim", 64), ("hidden_dim", 128), ("intermediate_dim", 256), ("num_heads", 4), ("num_layers", 2))
    training = keras_bert.Recipe(name="mine", learning_rate=1e-3, epochs=1 if arguments.smoke else 20, patience=None)
    mine = export.ModelPlan(name="mine 2×128", stage="distill", trim=1, sizes=sizes, training=training)
    if arguments.smoke:
        usual = [export.Candidate(recipe="dynamic_int8")]
    else:
        usual = export.list_candidates(task, examples=len(train), recipes=["dynamic_int8", "weight_int4"])
    result = export.deploy(
        task,
        arguments.output,
        train,
        validation,
        0.99 if arguments.smoke else arguments.budget,
        candidates=[*usual, export.Candidate(model=mine, recipe="dynamic_int8")],
        time_limit=arguments.time_limit,
    )
    print(result)
    answer = export.load(arguments.output)
    text = "wake me at seven"
    print(f"» {text}\n  {answer(text)[0]}")


def smoke_task(model):
    """A classifier that was hardly trained, and data for it."""
    rows = [(command.text, command.intent) for command in keras_bert.load_assistant("train")[:48]]
    labels = sorted({intent for _, intent in rows})
    task = keras_bert.TextClassifier.from_pretrained(model or "all-MiniLM-L6-v2", labels=labels, sequence_length=32)
    texts, intents = map(list, zip(*rows, strict=True))
    task.fit(texts, intents, epochs=1, verbose=0)
    return task, (texts, intents), (texts[:24], intents[:24])


if __name__ == "__main__":
    main()
