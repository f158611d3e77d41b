"""Small servers on loopback that speak TF Serving's two protocols, so that the example clients can be run.

Requests are checked as TF Serving checks them (`classifier.cc`, `json_tensor.cc`): a Classify request needs a signature
with that method, the one input `inputs` and the outputs `classes` and `scores`.
"""

import contextlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import classification_pb2, predict_pb2


class ServedModel:
    """A SavedModel that answers requests, by the rules of TF Serving."""

    def __init__(self, name, directory):
        self.name = name
        self.loaded = tf.saved_model.load(str(directory))  # let go of it, and its variables are gone
        self.definitions = signature_definitions(directory)

    def predict(self, model_name, signature, inputs):
        self._check(model_name, signature)
        definition = self.definitions[signature]
        assert set(inputs) == set(definition.inputs), f"{signature} takes {sorted(definition.inputs)}"
        return {key: value.numpy() for key, value in self.loaded.signatures[signature](**inputs).items()}

    def classify(self, model_name, signature, examples):
        self._check(model_name, signature)
        definition = self.definitions[signature]
        assert definition.method_name == "tensorflow/serving/classify", definition.method_name
        assert list(definition.inputs) == ["inputs"] and set(definition.outputs) == {"classes", "scores"}
        answers = self.loaded.signatures[signature](inputs=tf.constant(examples))
        pairs = zip(answers["classes"].numpy(), answers["scores"].numpy(), strict=True)
        return [[(label.decode(), float(score)) for label, score in zip(*row, strict=True)] for row in pairs]

    def _check(self, model_name, signature):
        assert model_name == self.name, f"Servable not found for request: Latest({model_name})"
        assert signature in self.definitions, f"Serving signature key {signature!r} not found."


def signature_definitions(directory):
    """The SignatureDefs of a SavedModel, by key."""
    return saved_graph(directory).signature_def


def saved_graph(directory):
    """The MetaGraphDef of a SavedModel."""
    content = (directory / "saved_model.pb").read_bytes()
    return saved_model_pb2.SavedModel.FromString(content).meta_graphs[0]


# === gRPC ===


@contextlib.contextmanager
def grpc_server(model):
    """Answers Predict and Classify; gives the address."""

    def predict(request, context):
        with _reported(context):
            inputs = {key: tf.constant(tf.make_ndarray(value)) for key, value in request.inputs.items()}
            answers = model.predict(request.model_spec.name, request.model_spec.signature_name, inputs)
            return predict_pb2.PredictResponse(
                outputs={key: tf.make_tensor_proto(value) for key, value in answers.items()}
            )

    def classify(request, context):
        with _reported(context):
            examples = [example.SerializeToString() for example in request.input.example_list.examples]
            answers = model.classify(request.model_spec.name, request.model_spec.signature_name, examples)
            response = classification_pb2.ClassificationResponse()
            for row in answers:
                classes = response.result.classifications.add().classes
                for label, score in row:
                    classes.add(label=label, score=score)
            return response

    methods = {
        "Predict": (predict, predict_pb2.PredictRequest, predict_pb2.PredictResponse),
        "Classify": (classify, classification_pb2.ClassificationRequest, classification_pb2.ClassificationResponse),
    }
    handlers = {
        key: grpc.unary_unary_rpc_method_handler(function, request.FromString, response.SerializeToString)
        for key, (function, request, response) in methods.items()
    }
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler("tensorflow.serving.PredictionService", handlers)]
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


@contextlib.contextmanager
def _reported(context):
    try:
        yield
    except (AssertionError, tf.errors.OpError) as error:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))


# === REST ===


@contextlib.contextmanager
def rest_server(model):
    """Answers `:predict` (rows) and `:classify`; gives the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            name, _, method = self.path.removeprefix("/v1/models/").partition(":")
            signature = body.get("signature_name", "serving_default")
            try:
                code, answer = 200, {"predict": predict_rows, "classify": classify_rows}[method](name, signature, body)
            except (AssertionError, tf.errors.OpError) as error:
                code, answer = 400, {"error": str(error)}
            content = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    def predict_rows(name, signature, body):
        rows = body["instances"]
        if not isinstance(rows[0], dict):  # allowed where there is one input
            (key,) = model.definitions[signature].inputs
            rows = [{key: row} for row in rows]
        inputs = {key: tf.constant([row[key] for row in rows]) for key in rows[0]}
        answers = model.predict(name, signature, inputs)
        return {"predictions": [{key: _json(value[row]) for key, value in answers.items()} for row in range(len(rows))]}

    def classify_rows(name, signature, body):
        return {"results": model.classify(name, signature, [_example(row) for row in body["examples"]])}

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _json(value):
    return value.decode() if isinstance(value, bytes) else value.tolist()


def _example(row):
    example = tf.train.Example()
    for key, value in row.items():
        example.features.feature[key].bytes_list.value.append(value.encode())
    return example.SerializeToString()
