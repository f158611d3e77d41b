"""Aspect-based sentiment: what a sentence says of the food, what of the service.

    python examples/aspect_sentiment.py --smoke                               # sentences made up below, under a minute
    python examples/aspect_sentiment.py --data Restaurants_Train_v2.xml --test Restaurants_Test_Gold.xml   # minutes
    python examples/aspect_sentiment.py --data Restaurants_Train_v2.xml --kind categories

Trains on SemEval-2014's XML, or on a TSV or JSONL file with the columns text, aspect and label; prints the report on
the test data (a tenth of the training data where none is given), saves the model, and answers a sentence for each
aspect. The end of `--smoke`, whose eight sentences teach it little:

    » The pizza was wonderful, but we had to wait an hour for a table.
      pizza: negative (47%), wait: negative (50%)
"""

import argparse
from pathlib import Path

import keras_bert

keras_bert.quiet_tensorflow()

from keras_bert import AspectClassifier, read_aspects
from keras_bert.data import as_rows, stratified_split

SENTENCE, ASPECTS = "The pizza was wonderful, but we had to wait an hour for a table.", ("pizza", "wait")
MADE_UP = (
    ("The soup was delicious and the waiter was rude.", "soup", "positive"),
    ("The soup was delicious and the waiter was rude.", "waiter", "negative"),
    ("Terrible noise, but a lovely view over the lake.", "noise", "negative"),
    ("Terrible noise, but a lovely view over the lake.", "view", "positive"),
    ("We ordered the fish and it came cold.", "fish", "negative"),
    ("The menu has ten dishes.", "menu", "neutral"),
    ("They take cards at the bar.", "bar", "neutral"),
    ("Best coffee in town!", "coffee", "positive"),
)


def read(arguments):
    """Training and test rows."""
    if arguments.data is None:
        rows = as_rows([(text, aspect) for text, aspect, _ in MADE_UP], [label for *_, label in MADE_UP])
        return rows, rows
    rows = read_aspects(arguments.data, kind=arguments.kind)
    print(rows.report)
    if arguments.test is not None:
        return rows, read_aspects(arguments.test, kind=arguments.kind)
    return stratified_split(rows, 0.1, seed=arguments.seed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="SemEval's XML, or TSV or JSONL with text, aspect and label")
    parser.add_argument("--test", help="another one to measure on")
    parser.add_argument("--kind", choices=("terms", "categories"), default="terms", help="which aspects of the XML")
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="a directory or name with pretrained weights")
    parser.add_argument("--output", type=Path, default=Path("aspects"), help="where the model goes")
    parser.add_argument("--text", default=SENTENCE, help="a sentence to answer")
    parser.add_argument("--aspects", nargs="+", default=ASPECTS, help="the aspects to ask for")
    parser.add_argument("--epochs", type=float, default=4)
    parser.add_argument("--learning-rate", type=float, default=5e-5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--smoke", action="store_true", help="a few steps, to see that it runs")
    arguments = parser.parse_args()
    if arguments.data is None and not arguments.smoke:
        parser.error("pass --data with sentences and aspects, or --smoke to see that it runs on eight of them")
    keras_bert.keep_freed_memory()
    train, test = read(arguments)
    labels = sorted({row.label for row in (*train, *test)})
    classifier = AspectClassifier.from_pretrained(arguments.model, labels=labels, sequence_length=128)
    # The test data is for the report alone: nothing is chosen by it.
    changes = {"steps": 40, "batch_size": 8} if arguments.smoke else {"epochs": arguments.epochs}
    changes |= {"learning_rate": arguments.learning_rate, "seeds": (arguments.seed,), "restarts": 0}
    print(classifier.fit(train, **changes))
    print(classifier.evaluate(test))
    classifier.save(arguments.output)
    answers = classifier.predict(arguments.text, aspects=arguments.aspects)
    print(f"» {arguments.text}\n  {', '.join(map(str, answers))}")


if __name__ == "__main__":
    main()
