"""Questions beside transformers: SQuAD 1.1, F1, exact match and questions per second, same weights and examples.

    python benchmarks/question_answering_peers.py --data DIR --seeds 0 1
    python benchmarks/question_answering_peers.py --data DIR --contenders ours           # without PyTorch

DIR holds `train-v1.1.json` and `dev-v1.1.json`; some questions of each, drawn once for all seeds. The contenders:
`ours` (`QuestionAnswerer`, packed rows) and `torch` (transformers' BertForQuestionAnswering on the same windows, with
the same schedule; see `peer_training.py`). The scores are those after the last step; nothing is chosen by them. A
short training for a comparison: `question_answering.py` says what a long one reaches.
"""

from peer_training import compare, make_parser, train_ours, train_torch


def prepare(arguments):
    """The answerer, its training data, and the dev questions."""
    from question_answering import draw

    import keras_bert
    from keras_bert.tasks.question_answering.files import read_squad
    from keras_bert.tasks.question_answering.task import QuestionAnswerer

    keras_bert.keep_freed_memory()
    train = draw(read_squad(arguments.data / "train-v1.1.json"), arguments.examples, 0)
    dev = draw(read_squad(arguments.data / "dev-v1.1.json"), arguments.dev_examples, 0)
    options = {"sequence_length": arguments.length, "seed": arguments.seed}
    answerer = QuestionAnswerer.from_pretrained(arguments.model, **options)
    return answerer, len(train), answerer.prepare(train, None), dev


def scores(answerer, dev):
    report = answerer.evaluate(dev)
    return {"f1": report.f1, "exact_match": report.exact_match}


def ours(arguments):
    answerer, count, data, dev = prepare(arguments)
    seconds = train_ours(answerer, data, arguments)
    return count, seconds, scores(answerer, dev)


def torch(arguments):
    answerer, count, data, dev = prepare(arguments)
    seconds = train_torch(answerer, data, arguments, answering_bert)
    return count, seconds, scores(answerer, dev)


def answering_bert(directory):
    """transformers' model for answers, and how it is run: the loss is its own, windows without an answer left out."""
    import torch
    from transformers import BertForQuestionAnswering

    model = BertForQuestionAnswering.from_pretrained(directory)

    def run(inputs, labels):
        answer = model(**inputs)
        both = {"span_logits": torch.stack([answer.start_logits, answer.end_logits], dim=-1)}
        if labels is None:
            return None, both
        first, last = labels["span_logits"][:, 0], labels["span_logits"][:, 1]
        parts = ((answer.start_logits, first), (answer.end_logits, last))
        return sum(torch.nn.functional.cross_entropy(*part) for part in parts) / 2, both

    return model, run


CONTENDERS = {"ours": ours, "torch": torch}


def main():
    parser = make_parser(__doc__, CONTENDERS, epochs=2, batch=16, rate=1e-4, length=384, examples=1500)
    parser.add_argument("--dev-examples", type=int, default=1000)
    compare(parser, CONTENDERS, scores={"f1": "F1", "exact_match": "exact match"})


if __name__ == "__main__":
    main()
