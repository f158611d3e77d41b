"""`keras-bert info`: show the contents of a checkpoint."""

from argparse import Namespace
from typing import Any

from keras_bert.cli.output import add_command


def add(commands: Any) -> None:
    """Add the command and its arguments."""
    command = add_command(commands, "info", run, example="all-MiniLM-L6-v2")
    command.add_argument("model", help="a model directory or a name")


def run(arguments: Namespace) -> dict[str, Any]:
    """Show the sizes, outputs and labels of a checkpoint."""
    from keras_bert.checkpoint import load_labels, load_model
    from keras_bert.model.encoder import encoder_config
    from keras_bert.text.tokenizer import BertTokenizer

    model, tokenizer = load_model(arguments.model)
    result = {
        "parameters": model.count_params(),
        "outputs": sorted(model.output),
        **encoder_config(model).to_dict(),
    }
    if isinstance(tokenizer, BertTokenizer):
        result["lowercase"] = tokenizer.lowercase
    labels = load_labels(arguments.model)
    return {**result, "labels": labels} if labels else result
