"""Ask a TF Serving for labels over gRPC: less to parse than JSON, so faster for many texts.

    pip install tensorflow-serving-api
    python examples/serving/client_grpc.py --model sentiment "What a lovely film!" "Two hours of my life, gone."
    python examples/serving/client_grpc.py --model inference --pair "A man sleeps." --pair "Nobody is awake."  # a pair
    python examples/serving/client_grpc.py --model sentiment --ranked "What a lovely film!"  # all labels

A few seconds, most of them for importing TensorFlow's protocol buffers; the first command prints something like

    What a lovely film!          positive (98%)
    Two hours of my life, gone.  negative (95%)
"""

import argparse

import grpc
import tensorflow as tf
from tensorflow_serving.apis import classification_pb2, predict_pb2, prediction_service_pb2_grpc


def predict(stub, model, rows, signature=None, timeout=60.0):
    """Answers for texts, or for pairs of texts, by name: arrays with a row for each, such as `probabilities [B, C]`."""
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    request.model_spec.signature_name = signature or _signature("serving_default", rows)
    for name, column in _columns(rows).items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(column, dtype=tf.string))
    # Only what is read has to travel: request.output_filter.append("label") would leave out the rest.
    response = stub.Predict(request, timeout=timeout)
    return {name: tf.make_ndarray(value) for name, value in response.outputs.items()}


def classify(stub, model, rows, signature=None, timeout=60.0):
    """All labels with their probabilities for each text or pair, the likeliest first."""
    request = classification_pb2.ClassificationRequest()
    request.model_spec.name = model
    request.model_spec.signature_name = signature or _signature("classify", rows)
    columns = _columns(rows)
    for row in zip(*columns.values(), strict=True):
        example = request.input.example_list.examples.add()
        for name, text in zip(columns, row, strict=True):
            example.features.feature[name].bytes_list.value.append(text.encode())
    response = stub.Classify(request, timeout=timeout)
    return [[(c.label, c.score) for c in answer.classes] for answer in response.result.classifications]


def _columns(rows):
    if isinstance(rows[0], str):
        return {"text": list(rows)}
    return {"text": [text for text, _ in rows], "pair": [pair for _, pair in rows]}


def _signature(name, rows):
    """Pairs have signatures of their own, unless the model was saved for pairs alone."""
    return name if isinstance(rows[0], str) else {"serving_default": "serving_pairs"}.get(name, f"{name}_pairs")


def describe(answers, row):
    """One answer in words."""
    if "value" in answers:
        return f"{answers['value'][row]:.3f}"
    cut = "  (the text was cut)" if answers["truncated"][row] else ""
    return f"{answers['label'][row].decode()} ({answers['probability'][row]:.0%}){cut}"


def main(arguments=None):
    """The command line."""
    parser = argparse.ArgumentParser(description="Ask a TF Serving for labels over gRPC.")
    parser.add_argument("texts", nargs="*", help="texts to classify")
    parser.add_argument("--pair", action="append", default=[], metavar="TEXT", help="give it twice: a pair of texts")
    parser.add_argument("--server", default="localhost:8500")
    parser.add_argument("--model", required=True, help="the MODEL_NAME of the server")
    parser.add_argument(
        "--signature", help='e.g. serving_default, for pairs where the model was saved with inputs="pairs"'
    )
    parser.add_argument("--ranked", action="store_true", help="print all labels")
    options = parser.parse_args(arguments)
    if bool(options.texts) == bool(options.pair) or len(options.pair) % 2:
        parser.error("pass texts, or --pair twice for each pair of texts")
    rows = options.texts or list(zip(options.pair[::2], options.pair[1::2], strict=True))
    try:
        with grpc.insecure_channel(options.server) as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            if options.ranked:
                answers = classify(stub, options.model, rows, options.signature)
                answers = [", ".join(f"{label} ({score:.0%})" for label, score in ranked) for ranked in answers]
            else:
                outputs = predict(stub, options.model, rows, options.signature)
                answers = [describe(outputs, row) for row in range(len(rows))]
    except grpc.RpcError as error:
        raise SystemExit(f"{options.server} answered {error.code().name}: {error.details()}") from None
    titles = [row if isinstance(row, str) else " | ".join(row) for row in rows]
    for title, answer in zip(titles, answers, strict=True):
        print(f"{title:<{max(map(len, titles))}}  {answer}")


if __name__ == "__main__":
    main()
