"""The command `keras-bert`: what people do with checkpoints and vocabularies, without writing Python.

Takes words, prints answers (`--json` for scripts). Heavy imports wait until a command runs, so that `--help` is quick.
Exit codes: 0 done, 1 it could not be done (the reason is printed, `--debug` shows the traceback), 2 wrong usage.
"""

import argparse
import json
import os
import sys
from pathlib import Path

DESCRIPTION = "BERT for TensorFlow and Keras 3: from raw text to a phone."

EXAMPLES = """examples:
  keras-bert info all-MiniLM-L6-v2
  keras-bert tokenize all-MiniLM-L6-v2 "Hello, world!"
  keras-bert convert google-bert/bert-base-uncased bert-google/ --format google
  keras-bert vocabulary corpus/*.txt.gz --size 8000 --output vocab.txt
  keras-bert pretrain corpus/*.txt.gz my-bert/ --size mini --steps 10000
"""


def main(argv: list[str] | None = None) -> int:
    """Run the command line; gives the exit code."""
    arguments = _parser().parse_args(argv)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        result = arguments.run(arguments)
    except KeyboardInterrupt:
        print("keras-bert: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if arguments.debug:
            raise
        print(f"keras-bert: {error}", file=sys.stderr)
        return 1
    print(json.dumps(result, ensure_ascii=False) if arguments.json else _as_table(result))
    return 0


# === Commands: each takes the parsed arguments and gives a dictionary to print ===


def info(arguments) -> dict:
    """What a checkpoint holds."""
    from keras_bert.checkpoint import load_labels, load_model
    from keras_bert.encoder import encoder_config

    model, tokenizer = load_model(arguments.model)
    result = {
        "parameters": model.count_params(),
        "outputs": sorted(model.output),
        **encoder_config(model).to_dict(),
    }
    if tokenizer is not None:
        result["lowercase"] = tokenizer.lowercase
    labels = load_labels(arguments.model)
    return {**result, "labels": labels} if labels else result


def tokenize(arguments) -> dict:
    """The pieces, ids and character offsets of a text."""
    tokenizer = _load_tokenizer(arguments.model)
    ids, starts, ends = (part.numpy().tolist() for part in tokenizer.tokenize_with_offsets(arguments.text))
    offsets = [[start, end] for start, end in zip(starts, ends, strict=True)]
    return {"tokens": [tokenizer.id_to_token(index) for index in ids], "ids": ids, "offsets": offsets}


def convert(arguments) -> dict:
    """A checkpoint in another format."""
    from keras_bert.checkpoint import load_encoder, load_labels, load_model, save_pretrained

    load = load_encoder if arguments.encoder_only else load_model
    model, tokenizer = load(arguments.model)
    labels = None if arguments.encoder_only else load_labels(arguments.model)
    save_pretrained(model, arguments.output, tokenizer=tokenizer, format=arguments.format, labels=labels)
    return {"output": str(arguments.output), "format": arguments.format, "parameters": model.count_params()}


def vocabulary(arguments) -> dict:
    """A vocabulary learned from text files."""
    from keras_bert.vocabulary import learn_vocabulary, write_vocabulary

    tokens = learn_vocabulary(
        arguments.files, arguments.size, lowercase=not arguments.cased, progress=not arguments.json
    )
    write_vocabulary(tokens, arguments.output)
    return {"output": str(arguments.output), "tokens": len(tokens)}


def pretrain(arguments) -> dict:
    """A BERT of one's own, from text files; started again, it goes on where it was."""
    from keras_bert.config import BertConfig
    from keras_bert.pretraining.corpus import write_examples
    from keras_bert.tokenizer import BertTokenizer
    from keras_bert.training.memory import keep_freed_memory
    from keras_bert.training.pretrain import PretrainingPlan
    from keras_bert.training.pretrain import pretrain as run
    from keras_bert.vocabulary import learn_vocabulary, write_vocabulary

    quiet, output, vocabulary = arguments.json, arguments.output, arguments.vocabulary
    plan = PretrainingPlan(
        steps=arguments.steps,
        batch_size=arguments.batch_size,
        learning_rate=arguments.learning_rate,
        save_every=arguments.save_every,
        mask_unit=arguments.mask,
        seed=arguments.seed,
    )
    keep_freed_memory()
    if vocabulary is None:
        vocabulary = output / "vocab.txt"
        if not vocabulary.exists():
            size = arguments.vocabulary_size
            write_vocabulary(learn_vocabulary(arguments.files, size, progress=not quiet), vocabulary)
    tokenizer = BertTokenizer(vocabulary)
    length = arguments.sequence_length
    write_examples(arguments.files, output / "examples", tokenizer, sequence_length=length, progress=not quiet)
    config = BertConfig.preset(arguments.size, vocabulary_size=tokenizer.vocabulary_size)
    history = run(output / "examples", output, config, tokenizer, plan, verbose=0 if quiet else "auto")
    return {"model": str(output / "model"), **{name: round(values[-1], 4) for name, values in history.items()}}


# === Words in, words out ===


def _parser():
    formatter = argparse.RawDescriptionHelpFormatter
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="print one line of JSON, for scripts")
    common.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser = argparse.ArgumentParser("keras-bert", description=DESCRIPTION, epilog=EXAMPLES, formatter_class=formatter)
    parser.add_argument("--version", action="version", version=f"keras-bert-edge {_version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def add(function, example):
        command = commands.add_parser(
            function.__name__,
            help=function.__doc__[0].lower() + function.__doc__[1:].rstrip("."),
            description=function.__doc__,
            epilog=f"example:\n  keras-bert {function.__name__} {example}",
            formatter_class=formatter,
            parents=[common],
        )
        command.set_defaults(run=function)
        return command

    command = add(info, "all-MiniLM-L6-v2")
    command.add_argument("model", help="a model directory or a name")
    command = add(tokenize, 'all-MiniLM-L6-v2 "Hello, world!"')
    command.add_argument("model", help="a model directory, a name, or a vocab.txt")
    command.add_argument("text")
    command = add(convert, "google-bert/bert-base-uncased bert-google/ --format google")
    command.add_argument("model", help="a model directory or a name")
    command.add_argument("output", type=Path, help="the directory to write")
    command.add_argument("--format", choices=("huggingface", "google", "keras_hub"), default="huggingface")
    command.add_argument("--encoder-only", action="store_true", help="leave out the heads")
    command = add(vocabulary, "corpus/*.txt.gz --size 8000 --output vocab.txt")
    command.add_argument("files", nargs="+", help="text files, plain or .gz; globs work")
    command.add_argument("--size", type=int, default=30522, help="tokens to learn (default: %(default)s)")
    command.add_argument("--output", type=Path, default=Path("vocab.txt"), help="default: %(default)s")
    command.add_argument("--cased", action="store_true", help="keep upper case and accents")
    command = add(pretrain, "corpus/*.txt.gz my-bert/ --size mini --steps 10000")
    command.add_argument("files", nargs="+", help="text files, a blank line between documents; .gz, .jsonl; globs work")
    command.add_argument("output", type=Path, help="the directory to write: model/, state/, examples/, history.jsonl")
    command.add_argument(
        "--size", default="mini", help="tiny, mini, small, medium, base or large (default: %(default)s)"
    )
    command.add_argument("--steps", type=int, default=10_000, help="default: %(default)s")
    command.add_argument("--batch-size", type=int, default=32, help="rows of a step (default: %(default)s)")
    command.add_argument("--learning-rate", type=float, default=5e-4, help="default: %(default)s")
    command.add_argument("--sequence-length", type=int, default=128, help="default: %(default)s")
    command.add_argument(
        "--save-every", type=int, default=500, help="steps between saved states (default: %(default)s)"
    )
    command.add_argument("--vocabulary", type=Path, help="a vocab.txt; without it one is learned from the files")
    command.add_argument("--vocabulary-size", type=int, default=8000, help="default: %(default)s")
    command.add_argument("--mask", choices=("token", "word", "span"), default="token", help="default: %(default)s")
    command.add_argument("--seed", type=int, default=0)
    return parser


def _version():
    import keras_bert

    return keras_bert.__version__


def _load_tokenizer(model):
    from keras_bert.checkpoint import load_tokenizer
    from keras_bert.tokenizer import BertTokenizer

    return BertTokenizer(model) if Path(model).is_file() else load_tokenizer(model)


def _as_table(result):
    width = max(map(len, result)) + 2
    return "\n".join(f"{name:<{width}}{_as_text(value)}" for name, value in result.items())


def _as_text(value):
    if isinstance(value, (list, tuple)):
        return " ".join("–".join(map(str, item)) if isinstance(item, list) else str(item) for item in value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


if __name__ == "__main__":
    sys.exit(main())
