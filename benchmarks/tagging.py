"""Entities beside transformers: entity F1 and sentences per second, same weights, data, batch size and epochs.

    python benchmarks/tagging.py wnut17 --data DIR --seeds 0 1                   # English, noisy; MiniLM
    python benchmarks/tagging.py ner_zh_resume --data DIR --model a-chinese-bert/ --seeds 0 1
    python benchmarks/tagging.py wnut17 --data DIR --contenders ours crf         # without PyTorch

DIR holds `wnut17/` and `ner_zh_resume/`. The contenders: `ours` (softmax, packed rows), `crf` (a CRF on buckets of
similar length), both as `EntityTagger.fit` trains them, and `torch` (transformers' BertForTokenClassification on the
same buckets and labels, with the same schedule; see `peer_training.py`). F1 is that of the test split after the last
step, once for the best tags (`free`) and once for the best legal sequence of tags (`legal`); nothing is chosen by it.
"""

from peer_training import compare, make_parser, train_ours, train_torch

FILES = {
    "wnut17": ("wnut17/wnut17train.conll", "wnut17/emerging.test.annotated"),
    "ner_zh_resume": ("ner_zh_resume/train.char.bmes", "ner_zh_resume/test.char.bmes"),
}


def prepare(arguments, head="softmax"):
    """The tagger, its training data, and the test rows."""
    import keras_bert
    from keras_bert.tasks.tagging.files import read_tagged
    from keras_bert.tasks.tagging.task import EntityTagger

    keras_bert.keep_freed_memory()
    train, test = (read_tagged(arguments.data / name) for name in FILES[arguments.set])
    kinds = sorted({*train.entity_kinds, *test.entity_kinds})
    options = {"head": head, "sequence_length": arguments.length, "seed": arguments.seed}
    tagger = EntityTagger.from_pretrained(arguments.model, labels=kinds, **options)
    return tagger, tagger.prepare(train[: arguments.examples], None), test


def scores(tagger, test):
    """Entity F1 of the best tags and of the best legal sequence."""
    found = {}
    for name, tagger.constrained in (("free", False), ("legal", True)):
        found[name] = tagger.evaluate(test).f1
    return found


def ours(arguments, head="softmax"):
    tagger, data, test = prepare(arguments, head)
    seconds = train_ours(tagger, data, arguments)
    return data.num_examples, seconds, scores(tagger, test)


def crf(arguments):
    return ours(arguments, "crf")


def torch(arguments):
    tagger, data, test = prepare(arguments)
    seconds = train_torch(tagger, data, arguments, "BertForTokenClassification")
    return data.num_examples, seconds, scores(tagger, test)


CONTENDERS = {"ours": ours, "crf": crf, "torch": torch}
COLUMNS = {"free": "F1, best tags", "legal": "F1, best legal sequence"}


def main():
    parser = make_parser(__doc__, CONTENDERS, epochs=5, batch=16, rate=1e-4, length=256)
    parser.add_argument("set", choices=FILES)
    compare(parser, CONTENDERS, scores=COLUMNS, part=lambda arguments: arguments.set)


if __name__ == "__main__":
    main()
