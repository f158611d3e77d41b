"""What a pretrained model has learned: on held-out text, and for a task it was not trained for.

    keras-bert pretrain DIR/enwiki.txt.gz run/ --size tiny --sequence-length 64 --steps 24000 --batch-size 32 \
        --learning-rate 2e-3 --warmup 0.05 --dropout 0 --save-every 1000 --validation DIR/enwiki_heldout.txt.gz
    python benchmarks/pretraining_gain.py --data DIR --model run/model     # about 10 minutes on 2 cores

The first takes about an hour on 2 cores. The second measures masked-LM accuracy and perplexity and next-sentence
accuracy on `enwiki_heldout.txt.gz`, fine-tunes on 2,000 examples of SST-2 from these weights and from random ones (same
recipe and seeds, at several learning rates, for what suits the one may not suit the other), and opens the directory in
transformers, where that is installed, to compare the outputs.
"""

import argparse
import dataclasses
import os
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

import keras_bert
from keras_bert.checkpoint import load_model, load_tokenizer, save_pretrained
from keras_bert.model.encoder import bert_encoder, encoder_config
from keras_bert.model.weights import copy_weights
from keras_bert.pretraining.batches import validation_batches
from keras_bert.pretraining.corpus.writing import write_examples
from keras_bert.pretraining.model import losses_and_metrics, pretraining_model
from keras_bert.pretraining.run import PretrainingPlan


def held_out(model, tokenizer, text, sequence_length):
    """The numbers of both heads on text that the model has not seen."""
    config = encoder_config(model)
    plan = PretrainingPlan(steps=1, save_every=1, batch_size=32, max_predictions=20, validation_steps=None, seed=1)
    measured = pretraining_model(config, max_predictions=plan.max_predictions)
    copy_weights(model, measured)
    measured.compile(**losses_and_metrics(measured))
    with tempfile.TemporaryDirectory() as directory:
        write_examples([text], directory, tokenizer, sequence_length=sequence_length, progress=False)
        batches = validation_batches(directory, config, tokenizer, plan)
        numbers = measured.evaluate(batches, verbose=0, return_dict=True)
    return {
        name.replace("_logits", ""): value for name, value in numbers.items() if "accuracy" in name or "perp" in name
    }


def downstream(directory, glue, *, examples, seeds, rate):
    """Accuracies on SST-2's dev set after fine-tuning on a few examples, a number for each seed."""
    train, dev = (keras_bert.read_glue("SST-2", glue, split) for split in ("train", "dev"))
    chosen = np.random.default_rng(0).permutation(len(train))[:examples]
    classifier = keras_bert.TextClassifier.from_pretrained(directory, labels=["0", "1"], sequence_length=128)
    few = [train[int(index)] for index in chosen]
    recipe = dataclasses.replace(
        keras_bert.RECIPES["standard"], learning_rate=rate, epochs=6, patience=None, seeds=seeds
    )
    report = classifier.fit(few, validation_data=dev, recipe=recipe, verbose=0)
    return [run.score for run in report.runs]


def compare_with_transformers(directory, model, tokenizer):
    """The largest difference of both heads' outputs on real sentences; `None` where transformers is missing."""
    try:
        import torch
        from transformers import BertForPreTraining
    except ImportError:
        return None
    texts = ["The river flows through the old town.", "It was built in 1887 and rebuilt after the war."]
    batch = keras_bert.pack(tokenizer, texts, texts[::-1])
    names = {"token_ids": "input_ids", "segment_ids": "token_type_ids", "padding_mask": "attention_mask"}
    inputs = {theirs: torch.tensor(batch[ours].numpy()).long() for ours, theirs in names.items()}
    with torch.no_grad():
        reference = BertForPreTraining.from_pretrained(directory).eval()(**inputs)
    ours, visible = model(batch), batch["padding_mask"].numpy().astype(bool)
    mlm = np.abs(ours["mlm_logits"].numpy() - reference.prediction_logits.numpy())[visible].max()
    nsp = np.abs(ours["nsp_logits"].numpy() - reference.seq_relationship_logits.numpy()).max()
    return float(max(mlm, nsp))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="holds enwiki_heldout.txt.gz and glue/SST-2/")
    parser.add_argument("--model", type=Path, required=True, help="a directory that keras-bert pretrain wrote")
    parser.add_argument("--examples", type=int, default=2000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rates", type=float, nargs="+", default=[1e-4, 3e-4, 1e-3])
    parser.add_argument("--sequence-length", type=int, default=64)
    arguments = parser.parse_args()
    keras_bert.keep_freed_memory()

    (model, _), tokenizer = load_model(arguments.model), load_tokenizer(arguments.model)
    for name, value in held_out(
        model, tokenizer, arguments.data / "enwiki_heldout.txt.gz", arguments.sequence_length
    ).items():
        print(f"held-out {name:<18} {value:.4f}")
    print(f"largest difference to transformers: {compare_with_transformers(arguments.model, model, tokenizer)}")

    with tempfile.TemporaryDirectory() as directory:
        fresh = Path(directory) / "random"
        save_pretrained(bert_encoder(encoder_config(model), seed=0), fresh, tokenizer=tokenizer)
        options = {"examples": arguments.examples, "seeds": tuple(arguments.seeds)}
        for rate in arguments.rates:
            for name, source in (("pretrained", arguments.model), ("random", fresh)):
                scores = downstream(source, arguments.data / "glue", rate=rate, **options)
                listed = ", ".join(f"{score:.4f}" for score in scores)
                mean = f"{np.mean(scores):.4f} ± {np.std(scores):.4f}"
                print(f"SST-2, {arguments.examples:,} examples, rate {rate:.0e}, {name:<11} {mean}  ({listed})")
                keras.backend.clear_session()


if __name__ == "__main__":
    main()
