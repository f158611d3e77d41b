"""Reads a SavedModel through TensorFlow's C API, the way a C++ server does: `helpers/saved_model_c_api.py JOB.json`.

No Python of TensorFlow is imported: ctypes drives the wheel's `libtensorflow_cc.so.2`, and TF_LoadLibrary brings the
ops of tensorflow-text. The job has the names of the graph's tensors, the directory and the texts; the outputs are
printed as JSON on the last line.
"""

import ctypes
import importlib.util
import json
import sys
from pathlib import Path

TF_FLOAT, TF_STRING, TF_BOOL = 1, 7, 10
STRING_BYTES = 24  # sizeof(TF_TString)


class Output(ctypes.Structure):
    """TF_Output: an operation, and which of its results."""

    _fields_ = [("operation", ctypes.c_void_p), ("index", ctypes.c_int)]


def package(name):
    return Path(importlib.util.find_spec(name).origin).parent


def open_library():
    """The C API, with the types of the functions that do not return an int."""
    api = ctypes.CDLL(str(package("tensorflow") / "libtensorflow_cc.so.2"), mode=ctypes.RTLD_GLOBAL)
    pointers = "NewStatus NewGraph NewSessionOptions LoadLibrary LoadSessionFromSavedModel GraphOperationByName"
    for name in [*pointers.split(), "AllocateTensor", "TensorData", "StringGetDataPointer"]:
        getattr(api, f"TF_{name}").restype = ctypes.c_void_p
    for name in ("StringGetSize", "TensorByteSize"):
        getattr(api, f"TF_{name}").restype = ctypes.c_size_t
    api.TF_Dim.restype = ctypes.c_int64
    api.TF_Message.restype = ctypes.c_char_p
    return api


class Session:
    """A loaded SavedModel."""

    def __init__(self, directory):
        self.api = open_library()
        self.status = ctypes.c_void_p(self.api.TF_NewStatus())
        for name in ("_fast_bert_normalizer.so", "_fast_wordpiece_tokenizer.so"):
            path = package("tensorflow_text") / "python" / "ops" / name
            self.check(self.api.TF_LoadLibrary(str(path).encode(), self.status))
        self.graph = ctypes.c_void_p(self.api.TF_NewGraph())
        options = ctypes.c_void_p(self.api.TF_NewSessionOptions())
        tags = (ctypes.c_char_p * 1)(b"serve")
        directory = str(directory).encode()
        load = self.api.TF_LoadSessionFromSavedModel
        self.session = ctypes.c_void_p(
            self.check(load(options, None, directory, tags, 1, self.graph, None, self.status))
        )

    def check(self, result):
        if self.api.TF_GetCode(self.status):
            raise RuntimeError(self.api.TF_Message(self.status).decode())
        return result

    def run(self, inputs, outputs):
        """Strings by tensor name → lists for the tensors asked for."""
        feeds = (Output * len(inputs))(*map(self.find, inputs))
        values = (ctypes.c_void_p * len(inputs))(*map(self.string_tensor, inputs.values()))
        fetches = (Output * len(outputs))(*map(self.find, outputs))
        results = (ctypes.c_void_p * len(outputs))()
        feed, fetch = (feeds, values, len(inputs)), (fetches, results, len(outputs))
        self.check(self.api.TF_SessionRun(self.session, None, *feed, *fetch, None, 0, None, self.status))
        return [self.read(ctypes.c_void_p(result)) for result in results]

    def find(self, tensor):
        name, _, index = tensor.partition(":")
        operation = self.api.TF_GraphOperationByName(self.graph, name.encode())
        assert operation, f"the graph has no {name}"
        return Output(operation, int(index))

    def string_tensor(self, texts):
        shape = (ctypes.c_int64 * 1)(len(texts))
        size = ctypes.c_size_t(STRING_BYTES * len(texts))
        tensor = self.api.TF_AllocateTensor(TF_STRING, shape, 1, size)
        data = self.api.TF_TensorData(ctypes.c_void_p(tensor))
        for row, text in enumerate(texts):
            place, content = ctypes.c_void_p(data + STRING_BYTES * row), text.encode()
            self.api.TF_StringInit(place)
            self.api.TF_StringCopy(place, content, ctypes.c_size_t(len(content)))
        return tensor

    def read(self, tensor):
        shape = [self.api.TF_Dim(tensor, axis) for axis in range(self.api.TF_NumDims(tensor))]
        data, kind = self.api.TF_TensorData(tensor), self.api.TF_TensorType(tensor)
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        if kind == TF_STRING:
            flat = [self.read_string(ctypes.c_void_p(data + STRING_BYTES * row)) for row in range(count)]
        else:
            element = {TF_FLOAT: ctypes.c_float, TF_BOOL: ctypes.c_bool}[kind]
            flat = list((element * count).from_address(data))
        return flat if len(shape) == 1 else [flat[row * shape[1] :][: shape[1]] for row in range(shape[0])]

    def read_string(self, place):
        size = self.api.TF_StringGetSize(place)
        return ctypes.string_at(self.api.TF_StringGetDataPointer(place), size).decode()


def main(job):
    session, answers = Session(job["directory"]), {}
    for name, inputs in job["requests"].items():
        tensors = job["tensors"][name]
        feeds = {tensors["inputs"][key]: value for key, value in inputs.items()}
        results = session.run(feeds, list(tensors["outputs"].values()))
        answers[name] = dict(zip(tensors["outputs"], results, strict=True))
    assert not {"tensorflow", "keras", "keras_bert", "numpy"} & set(sys.modules)
    print(json.dumps({"c_api": answers}))


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
