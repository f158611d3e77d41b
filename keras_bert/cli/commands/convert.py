"""`keras-bert convert`: write a checkpoint in another format."""

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_bert.cli.output import add_command

if TYPE_CHECKING:
    from keras_bert.model.config import BertConfig


def add(commands: Any) -> None:
    """Add the command and its arguments."""
    example = "google-bert/bert-base-uncased bert-google/ --format google"
    command = add_command(commands, "convert", run, example=example)
    command.add_argument("model", help="a model directory or a name")
    command.add_argument("output", type=Path, help="the directory to write")
    command.add_argument("--format", choices=("huggingface", "google", "keras_hub"), default="huggingface")
    command.add_argument(
        "--dtype", choices=("float32", "float16"), default="float32", help="float16: half the size (huggingface)"
    )
    command.add_argument("--encoder-only", action="store_true", help="leave out the heads")


def run(arguments: Namespace) -> dict[str, Any]:
    """Write a checkpoint in another format."""
    from keras_bert.checkpoint import load_encoder, load_labels, load_model, save_pretrained
    from keras_bert.model.encoder import encoder_config

    load = load_encoder if arguments.encoder_only else load_model
    model, tokenizer = load(arguments.model)
    labels = None if arguments.encoder_only else load_labels(arguments.model)
    options = {"format": arguments.format, "dtype": arguments.dtype}
    save_pretrained(model, arguments.output, tokenizer=tokenizer, labels=labels, **options)
    if arguments.format == "huggingface":
        _keep_sentence_modules(arguments.model, arguments.output, encoder_config(model))
    return {"output": str(arguments.output), "format": arguments.format, "parameters": model.count_params()}


def _keep_sentence_modules(model: str, output: Path, config: "BertConfig") -> None:
    """Write the files that say how a sentence encoder pools, where the model has them."""
    from keras_bert.checkpoint.hub import find_directory
    from keras_bert.checkpoint.sentence_transformers import read_sentence_modules, write_sentence_modules

    modules = read_sentence_modules(find_directory(model))
    if modules.pooling is not None:
        length = modules.sequence_length or config.max_sequence_length
        write_sentence_modules(
            output,
            pooling=modules.pooling,
            normalize=bool(modules.normalize),
            sequence_length=length,
            width=config.hidden_dim,
            prompts=modules.prompts,
            default_prompt_name=modules.default_prompt_name,
        )
