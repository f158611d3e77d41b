"""`keras-bert serve`: answer over HTTP with a `.tflite` file, without TensorFlow."""

import argparse
from typing import Any

from keras_bert.cli.output import add_command


def add(commands: Any) -> None:
    """Add the command and its arguments."""
    command = add_command(commands, "serve", run, example="out/model.tflite --port 8501")
    command.add_argument(
        "model", metavar="MODEL_OR_TFLITE", help="a .tflite file, a directory of versions, or what finetune wrote"
    )
    command.add_argument("--name", help="the model's name in requests (default: that of its directory)")
    command.add_argument("--host", default="127.0.0.1", help="0.0.0.0 listens to other machines (default: %(default)s)")
    command.add_argument("--port", type=int, default=8501, help="0 takes a free one (default: %(default)s)")
    command.add_argument(
        "--threads", type=int, help="texts that are read at the same time (default: one for each core)"
    )
    command.add_argument("--recipe", default="dynamic_int8", help="how a model is converted (default: %(default)s)")
    command.add_argument(
        "--cache", metavar="DIR", help="where converted models are kept (default: ~/.cache/keras-bert)"
    )
    command.add_argument(
        "--refresh", type=float, default=1.0, help="seconds between looks for a new version; 0: never (default: 1)"
    )
    command.add_argument("--no-request-log", action="store_true", help="log no requests")
    limits = command.add_argument_group("limits")
    limits.add_argument("--max-texts", type=int, default=512, help="texts of a request (default: %(default)s)")
    limits.add_argument("--max-characters", type=int, default=20_000, help="of a text (default: %(default)s)")
    limits.add_argument("--max-body", type=int, default=2 << 20, help="bytes of a request (default: %(default)s)")
    limits.add_argument(
        "--max-queue", type=int, default=4096, help="texts that wait; more get 503 (default: %(default)s)"
    )
    limits.add_argument("--timeout", type=float, default=30.0, help="seconds for an answer (default: %(default)s)")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Answer over HTTP with an exported file: TF Serving's REST API, OpenAI's embeddings, metrics and a page."""
    from export.server.limits import Limits
    from export.server.running import serve
    from export.server.source import open_source

    limits = Limits(
        max_texts=arguments.max_texts,
        max_characters=arguments.max_characters,
        max_body=arguments.max_body,
        max_queue=arguments.max_queue,
        timeout=arguments.timeout,
    )
    source = open_source(
        arguments.model,
        name=arguments.name,
        recipe=arguments.recipe,
        cache=arguments.cache,
        imports=arguments.imports or (),
    )
    serve(
        source,
        host=arguments.host,
        port=arguments.port,
        num_threads=arguments.threads,
        limits=limits,
        refresh=arguments.refresh,
        log_requests=not arguments.no_request_log,
    )
    return {}
