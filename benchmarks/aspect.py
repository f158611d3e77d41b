"""Aspects beside transformers: SemEval-2014 task 4, accuracy and pairs per second, same weights and examples.

    python benchmarks/aspect.py --data DIR --seeds 0 1                                 # terms of restaurants
    python benchmarks/aspect.py --data DIR --set Laptops --seeds 0 1
    python benchmarks/aspect.py --data DIR --kind categories --contenders ours         # without PyTorch

DIR holds `Restaurants_Train_v2.xml`, `Restaurants_Test_Gold.xml` and the same of `Laptops`. Three polarities; aspects
whose polarity is `conflict` are left out of both splits, as is usual. The contenders: `ours` (`AspectClassifier`,
packed rows) and `torch` (transformers' BertForSequenceClassification on the same pairs, with the same schedule; see
`peer_training.py`). The scores are those of the test set after the last step; nothing is chosen by them. The settings
are the same for every seed and were not tried out on the test set.
"""

from peer_training import compare, make_parser, train_ours, train_torch


def prepare(arguments):
    """The classifier, its training data, and the test rows."""
    import keras_bert
    from keras_bert.tasks.classification.aspect import AspectClassifier
    from keras_bert.tasks.classification.aspect_files import read_aspects

    keras_bert.keep_freed_memory()
    files = (f"{arguments.set}_Train_v2.xml", f"{arguments.set}_Test_Gold.xml")
    train, test = (read_aspects(arguments.data / name, kind=arguments.kind) for name in files)
    options = {"sequence_length": arguments.length, "seed": arguments.seed, "pooling": arguments.pooling}
    classifier = AspectClassifier.from_pretrained(arguments.model, **options)
    return classifier, classifier.prepare(train[: arguments.examples], None), test


def scores(classifier, test):
    """Accuracy and macro F1."""
    report = classifier.evaluate(test)
    return {"accuracy": report.accuracy, "macro_f1": report.macro.f1}


def ours(arguments):
    classifier, data, test = prepare(arguments)
    seconds = train_ours(classifier, data, arguments)
    return data.num_examples, seconds, scores(classifier, test)


def torch(arguments):
    classifier, data, test = prepare(arguments)
    seconds = train_torch(classifier, data, arguments, "BertForSequenceClassification")
    return data.num_examples, seconds, scores(classifier, test)


CONTENDERS = {"ours": ours, "torch": torch}


def main():
    parser = make_parser(__doc__, CONTENDERS, epochs=4, batch=16, rate=5e-5, length=128)
    parser.add_argument("--set", choices=("Restaurants", "Laptops"), default="Restaurants")
    parser.add_argument("--kind", choices=("terms", "categories"), default="terms")
    parser.add_argument("--pooling", choices=("cls", "mean"), default="cls", help="default: %(default)s, as the peer's")
    compare(parser, CONTENDERS, scores={"accuracy": "accuracy", "macro_f1": "macro F1"})


if __name__ == "__main__":
    main()
