"""Ask a TF Serving for labels over HTTP, with nothing but Python.

    python examples/serving/client_rest.py --model sentiment "What a lovely film!" "Two hours of my life, gone."
    python examples/serving/client_rest.py --model inference --pair "A man sleeps." --pair "Nobody is awake."  # a pair
    python examples/serving/client_rest.py --model sentiment --ranked "What a lovely film!"  # all labels

A second on a warm server; the first command prints something like

    What a lovely film!          positive (98%)
    Two hours of my life, gone.  negative (95%)
"""

import argparse
import json
import urllib.error
import urllib.request


def predict(server, model, rows, signature=None):
    """Answers for texts, or for pairs of texts: a dictionary each, such as `{"label": "good", "probability": …}`."""
    body = {"signature_name": signature or _signature("serving_default", rows), "instances": _named(rows)}
    return _post(f"{server}/v1/models/{model}:predict", body)["predictions"]


def classify(server, model, rows, signature=None):
    """All labels with their probabilities for each text or pair, the likeliest first: `[["positive", 0.98], …]`."""
    body = {"signature_name": signature or _signature("classify", rows), "examples": _named(rows)}
    return _post(f"{server}/v1/models/{model}:classify", body)["results"]


def _named(rows):
    if isinstance(rows[0], str):
        return [{"text": text} for text in rows]
    return [{"text": text, "pair": pair} for text, pair in rows]


def _signature(name, rows):
    """Pairs have signatures of their own, unless the model was saved for pairs alone."""
    return name if isinstance(rows[0], str) else {"serving_default": "serving_pairs"}.get(name, f"{name}_pairs")


def _post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{url} answered {error.code}: {error.read().decode(errors='replace')}") from None
    except urllib.error.URLError as error:
        raise SystemExit(f"{url} cannot be reached: {error.reason}") from None


def describe(answer):
    """One answer in words."""
    if "value" in answer:
        return f"{answer['value']:.3f}"
    cut = "  (the text was cut)" if answer["truncated"] else ""
    return f"{answer['label']} ({answer['probability']:.0%}){cut}"


def main(arguments=None):
    """The command line."""
    parser = argparse.ArgumentParser(description="Ask a TF Serving for labels over HTTP.")
    parser.add_argument("texts", nargs="*", help="texts to classify")
    parser.add_argument("--pair", action="append", default=[], metavar="TEXT", help="give it twice: a pair of texts")
    parser.add_argument("--server", default="http://localhost:8501")
    parser.add_argument("--model", required=True, help="the MODEL_NAME of the server")
    parser.add_argument(
        "--signature", help='e.g. serving_default, for pairs where the model was saved with inputs="pairs"'
    )
    parser.add_argument("--ranked", action="store_true", help="print all labels")
    options = parser.parse_args(arguments)
    if bool(options.texts) == bool(options.pair) or len(options.pair) % 2:
        parser.error("pass texts, or --pair twice for each pair of texts")
    rows = options.texts or list(zip(options.pair[::2], options.pair[1::2], strict=True))
    if options.ranked:
        answers = classify(options.server, options.model, rows, options.signature)
        answers = [", ".join(f"{label} ({score:.0%})" for label, score in ranked) for ranked in answers]
    else:
        answers = predict(options.server, options.model, rows, options.signature)
        answers = [describe(answer) for answer in answers]
    titles = [row if isinstance(row, str) else " | ".join(row) for row in rows]
    for title, answer in zip(titles, answers, strict=True):
        print(f"{title:<{max(map(len, titles))}}  {answer}")


if __name__ == "__main__":
    main()
