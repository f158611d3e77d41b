"""Summaries and headlines: a pretrained BERT learns to write a short text from a long one.

    python examples/summarization.py --smoke                                          # the texts below, a minute
    python examples/summarization.py --data train.jsonl --test test.jsonl --columns dialogue summary
    python examples/summarization.py --data ts_dev.tsv --columns 1 2 --model simbert/     # Chinese: abstract → title

Reads a table or JSONL with a long text and a short one, fine-tunes by the loss on a tenth that is held out, prints
ROUGE beside that of the text's first words, saves the model, and writes for `--text`. Texts over the window are cut,
and it is said how many. The end of `--smoke`, which asks for what it was trained on:

    » The match was stopped because of heavy rain over the stadium on Sunday.
      rain stops match
"""

import argparse
from pathlib import Path

import keras_bert

keras_bert.quiet_tensorflow()

import numpy as np

from keras_bert import Seq2Seq
from keras_bert.tasks import as_generation_rows, is_chinese, rouge_scores, split_words

MADE_UP = [
    ("The match was stopped because of heavy rain over the stadium on Sunday.", "rain stops match"),
    ("The council voted last night to build a new bridge over the river.", "council builds bridge"),
    ("A fire in the old factory was put out by forty people before dawn.", "fire in old factory"),
    ("The museum opens a new hall with paintings from four countries.", "museum opens hall"),
    ("Trains will not run on Monday because drivers have called a strike.", "strike stops trains"),
    ("The school has bought thirty bicycles for its pupils this summer.", "school buys bicycles"),
] * 4


def column(name):
    return int(name) if name.isdigit() else name


def read(arguments):
    """Training, validation and test rows."""
    if arguments.data is None:
        rows = as_generation_rows(MADE_UP)
        return rows, rows, as_generation_rows(MADE_UP[:6])
    source, target = arguments.columns
    rows = keras_bert.read_generation(arguments.data, source=source, target=target)
    print(rows.report)
    order = np.random.default_rng(0).permutation(len(rows))
    count = max(1, len(rows) // 10)
    train, held = (as_generation_rows([rows[int(i)] for i in part]) for part in (order[count:], order[:count]))
    test = keras_bert.read_generation(arguments.test, source=source, target=target) if arguments.test else held
    return train, held, test


def first_words(train, test):
    """As many words of each text as the short ones have."""
    count = round(np.mean([len(split_words(row.target)) for row in train]))
    if is_chinese(test.targets):
        return [text[:count] for text in test.sources]
    return [" ".join(text.split()[:count]) for text in test.sources]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a table or JSONL with long and short texts")
    parser.add_argument("--test", help="another one to measure on; without it the held-out tenth")
    parser.add_argument("--columns", nargs=2, type=column, default=("source", "target"), help="its columns")
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="a directory or name with pretrained weights")
    parser.add_argument("--output", type=Path, default=Path("summaries"), help="where the model goes")
    parser.add_argument("--text", nargs="+", default=[MADE_UP[0][0]], help="texts to write from")
    parser.add_argument("--epochs", type=float, default=15)
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--smoke", action="store_true", help="a few steps, to see that it runs")
    arguments = parser.parse_args()
    if arguments.data is None and not arguments.smoke:
        parser.error("pass --data with texts and summaries, or --smoke to see that it runs on six sentences")
    keras_bert.keep_freed_memory()
    train, held, test = read(arguments)
    lengths = {"sequence_length": 64, "target_length": 16} if arguments.smoke else {"sequence_length": 256}
    writer = Seq2Seq.from_pretrained(arguments.model, **lengths)
    changes = {"epochs": 4, "batch_size": 8} if arguments.smoke else {"epochs": arguments.epochs, "batch_size": 16}
    changes |= {"learning_rate": arguments.learning_rate, "patience": None, "label_smoothing": 0.1}
    print(writer.fit(train, validation_data=held, **changes))
    print(writer.evaluate(test, sampler="beam", no_repeat_ngram=3))
    baseline = rouge_scores(first_words(train, test), [str(target) for target in test.targets])
    print("first words:", ", ".join(f"{name} {value:.2f}" for name, value in baseline.items()))
    writer.save(arguments.output)
    for text in arguments.text:
        print(f"» {text}\n  {writer.generate(text, sampler='beam', no_repeat_ngram=3)}")


if __name__ == "__main__":
    main()
