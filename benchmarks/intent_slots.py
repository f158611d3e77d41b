"""Intents and slots beside PyTorch: intent accuracy, slot F1, whole sentences, and sentences per second, on SNIPS.

    python benchmarks/intent_slots.py --data DIR --seeds 0 1
    python benchmarks/intent_slots.py --data DIR --contenders ours              # without PyTorch

DIR holds `snips/` with `train` and `test`. The contenders: `ours` (`IntentSlots`, packed rows) and `torch`
(transformers' BertModel with dropout and a linear layer for each of the two heads, as JointBERT has them, on the same
buckets and labels, with the same schedule; see `peer_training.py`). The scores are those of the test split after the
last step; nothing is chosen by them, and the settings were not tried out on it.
"""

from peer_training import compare, make_parser, train_ours, train_torch


def prepare(arguments):
    """The model, its training data, and the test rows."""
    import keras_bert
    from keras_bert.tasks.intent_slots.files import read_commands
    from keras_bert.tasks.intent_slots.task import IntentSlots

    keras_bert.keep_freed_memory()
    train, test = (read_commands(arguments.data / "snips" / split) for split in ("train", "test"))
    names = {"intents": train.intents, "slots": train.entity_kinds}
    options = {"sequence_length": arguments.length, "seed": arguments.seed, "pooling": "cls"}  # as the peer has it
    model = IntentSlots.from_pretrained(arguments.model, **names, **options)
    return model, model.prepare(train[: arguments.examples], None), test


def scores(model, test):
    """The three numbers on the test split."""
    report = model.evaluate(test)
    return {name: getattr(report, name) for name in ("intent_accuracy", "slot_f1", "sentence_accuracy")}


def ours(arguments):
    model, data, test = prepare(arguments)
    seconds = train_ours(model, data, arguments)
    return data.num_examples, seconds, scores(model, test)


def torch(arguments):
    model, data, test = prepare(arguments)
    counts = {"class_logits": len(model.labels), "token_logits": 1 + 2 * len(model.slot_kinds)}
    seconds = train_torch(model, data, arguments, lambda directory: joint_bert(directory, counts))
    return data.num_examples, seconds, scores(model, test)


def joint_bert(directory, counts):
    """BertModel with two heads, and how it is run."""
    import torch
    from transformers import BertModel

    bert = BertModel.from_pretrained(directory)
    heads = torch.nn.ModuleDict(
        {name: torch.nn.Linear(bert.config.hidden_size, count) for name, count in counts.items()}
    )
    dropout = torch.nn.Dropout(0.1)
    for head in heads.values():
        torch.nn.init.normal_(head.weight, std=0.02)
        torch.nn.init.zeros_(head.bias)
    model = torch.nn.ModuleDict({"bert": bert, "heads": heads, "dropout": dropout})

    def run(inputs, labels):
        states = bert(**inputs)
        vectors = {"class_logits": states.pooler_output, "token_logits": states.last_hidden_state}
        logits = {name: heads[name](dropout(vector)) for name, vector in vectors.items()}
        if labels is None:
            return None, logits
        loss = sum(
            torch.nn.functional.cross_entropy(logits[name].flatten(0, -2), labels[name].flatten()) for name in logits
        )
        return loss, logits

    return model, run


CONTENDERS = {"ours": ours, "torch": torch}


def main():
    parser = make_parser(__doc__, CONTENDERS, epochs=5, batch=32, rate=1e-4, length=64)
    names = {"intent_accuracy": "intent accuracy", "slot_f1": "slot F1", "sentence_accuracy": "whole sentences"}
    compare(parser, CONTENDERS, scores=names)


if __name__ == "__main__":
    main()
