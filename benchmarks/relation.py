"""Relations beside transformers: SemEval-2010 task 8, macro F1 and sentences per second, same weights and examples.

    python benchmarks/relation.py --data DIR --seeds 0 1
    python benchmarks/relation.py --data DIR --contenders ours           # without PyTorch

DIR holds `SemEval2010_task8_training/TRAIN_FILE.TXT` and `SemEval2010_task8_testing_keys/TEST_FILE_FULL.TXT`. The
contenders: `ours` (`RelationClassifier`: [CLS] and the states of both markers, packed rows) and `torch` (transformers'
BertForSequenceClassification on the same ids, markers included, with the same schedule; see `peer_training.py`). The
scores are those of the test set after the last step, macro F1 as the task's official scorer counts it; nothing is
chosen by them. The settings are the same for every seed and were not tried out on the test set.
"""

from peer_training import compare, make_parser, train_ours, train_torch

TRAIN = "SemEval2010_task8_training/TRAIN_FILE.TXT"
TEST = "SemEval2010_task8_testing_keys/TEST_FILE_FULL.TXT"


def prepare(arguments):
    """The classifier, its training data, and the test rows."""
    import keras_bert
    from keras_bert.tasks.relation.files import read_relations
    from keras_bert.tasks.relation.task import RelationClassifier

    keras_bert.keep_freed_memory()
    train, test = (read_relations(arguments.data / name) for name in (TRAIN, TEST))
    options = {"labels": train.label_names, "sequence_length": arguments.length, "seed": arguments.seed}
    classifier = RelationClassifier.from_pretrained(arguments.model, **options)
    return classifier, classifier.prepare(train[: arguments.examples], None), test


def scores(classifier, test):
    """Macro F1 without Other, and accuracy."""
    report = classifier.evaluate(test)
    return {"macro_f1": report.macro_f1, "accuracy": report.accuracy}


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
    parser = make_parser(__doc__, CONTENDERS, epochs=5, batch=16, rate=1e-4, length=128)
    compare(parser, CONTENDERS, scores={"macro_f1": "macro F1", "accuracy": "accuracy"})


if __name__ == "__main__":
    main()
