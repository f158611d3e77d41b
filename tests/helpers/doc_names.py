"""Python blocks of the guides → what in them does not exist: names, methods, arguments. Nothing is executed.

Walks a page's blocks in order with one table of names, as a reader would type them, and compares every use of
`keras_bert` and `export` with the real modules, classes and signatures. What it cannot follow it leaves alone.
"""

import ast
import builtins
import dataclasses
import inspect
import re
import types
import typing
from importlib import import_module

from keras_bert.checkpoint import load_encoder, load_model
from keras_bert.finetuning.recipes import Recipe
from keras_bert.model.config import BertConfig
from keras_bert.text.tokenizer import BertTokenizer

OURS = ("keras_bert", "export")
_MAKERS = ("from_pretrained", "load", "preset", "from_dict", "from_json", "from_model", "for_tokenizer")


class Unknown:
    """A value that is not followed."""


@dataclasses.dataclass(frozen=True)
class Instance:
    """A value of one of our classes."""

    kind: type


UNKNOWN = Unknown()
RETURNS = {load_encoder: (UNKNOWN, Instance(BertTokenizer)), load_model: (UNKNOWN, Instance(BertTokenizer))}


class PageNames(ast.NodeVisitor):
    """The names of one page; `check(code, line)` adds to `problems`."""

    def __init__(self):
        self.known, self.problems, self._line = {}, [], 0

    def check(self, code: str, line: int) -> None:
        """Read one block, which begins at a line of the page."""
        self._line = line
        for statement in ast.parse(code).body:
            stored = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and _is_stored(node)}
            stored |= {node.arg for node in ast.walk(statement) if isinstance(node, ast.arg)}
            stored |= {node.name for node in ast.walk(statement) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
            before = dict(self.known)
            self.known.update({name: before.get(name, UNKNOWN) for name in stored})
            self.visit(statement)

    def _fault(self, node, words):
        self.problems.append(f"line {self._line + node.lineno}: {words}")

    # === Statements ===

    def visit_Import(self, node):
        for alias in node.names:
            ours = alias.name.split(".")[0] in OURS
            self.known[alias.asname or alias.name.split(".")[0]] = import_module(alias.name) if ours else UNKNOWN

    def visit_ImportFrom(self, node):
        for alias in node.names:
            value = UNKNOWN
            if node.module.split(".")[0] in OURS:
                value = self._attribute(node, import_module(node.module), alias.name)
            self.known[alias.asname or alias.name] = value

    def visit_Assign(self, node):
        value = self._value(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.known[target.id] = value
            elif isinstance(target, ast.Tuple):
                parts = value if isinstance(value, tuple) else [UNKNOWN] * len(target.elts)
                for name, part in zip(target.elts, parts, strict=False):
                    if isinstance(name, ast.Name):
                        self.known[name.id] = part
            else:
                self.visit(target)

    # === Expressions ===

    def visit_Name(self, node):
        self._value(node)

    def visit_Attribute(self, node):
        self._value(node)

    def visit_Subscript(self, node):
        self._value(node)

    def visit_Call(self, node):
        self._value(node)

    def _value(self, node):
        if isinstance(node, ast.Name):
            if node.id not in self.known and not hasattr(builtins, node.id):
                self._fault(node, f"{node.id} is not defined before it is used")
            return self.known.get(node.id, UNKNOWN)
        if isinstance(node, ast.Attribute):
            return self._attribute(node, self._value(node.value), node.attr)
        if isinstance(node, ast.Subscript):
            return self._item(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        self.generic_visit(node)
        return UNKNOWN

    def _attribute(self, node, owner, name):
        if isinstance(owner, Instance):
            names = _attributes(owner.kind)
            if name not in names:
                self._fault(node, f"{owner.kind.__name__} has no {name}")
            method = getattr(owner.kind, name, None)
            return method if inspect.isroutine(method) else UNKNOWN
        if not (isinstance(owner, types.ModuleType | type) and _is_ours(owner)):
            return UNKNOWN
        if name.startswith("_"):
            self._fault(node, f"{name} is private")
        if isinstance(owner, types.ModuleType) and not hasattr(owner, name):
            try:
                return import_module(f"{owner.__name__}.{name}")
            except ImportError:
                pass
        if not hasattr(owner, name):
            self._fault(node, f"{owner.__name__} has no {name}")
            return UNKNOWN
        value = getattr(owner, name)
        if isinstance(value, types.MethodType) and isinstance(owner, type):
            return _Maker(value, owner)
        return value

    def _item(self, node):
        owner = self._value(node.value)
        self.visit(node.slice)
        if not isinstance(owner, dict) or not isinstance(node.slice, ast.Constant):
            return UNKNOWN
        if node.slice.value not in owner:
            self._fault(node, f"there is no {node.slice.value!r}; there are {', '.join(map(repr, owner))}")
            return UNKNOWN
        return Instance(type(owner[node.slice.value]))

    def _call(self, node):
        called = self._value(node.func)
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
            self._value(argument)
        if isinstance(called, _Maker):
            self._arguments(node, called.method, called.owner)
            return Instance(called.owner) if called.makes_owner else UNKNOWN
        if isinstance(called, type) and _is_ours(called):
            self._arguments(node, called, called)
            return Instance(called)
        if inspect.isroutine(called) and _is_ours(called):
            self._arguments(node, called, None)
            return RETURNS.get(called) or _returned(called)
        return UNKNOWN

    def _arguments(self, node, called, owner):
        signature = inspect.signature(called)
        is_method = inspect.isfunction(called) and next(iter(signature.parameters), "") == "self"
        given = [UNKNOWN] * (len(node.args) + is_method)
        keywords = {keyword.arg: UNKNOWN for keyword in node.keywords if keyword.arg}
        starred = len(keywords) < len(node.keywords) or any(isinstance(item, ast.Starred) for item in node.args)
        try:
            (signature.bind_partial if starred else signature.bind)(*(() if starred else given), **keywords)
        except TypeError as error:
            self._fault(node, f"{getattr(called, '__qualname__', called)}: {error}")
            return
        swallowed = set(keywords) - set(signature.parameters)
        unknown = swallowed - _documented(called, owner) if swallowed else ()
        for name in unknown:
            self._fault(node, f"{called.__qualname__} says nothing of the argument {name}")


@dataclasses.dataclass(frozen=True)
class _Maker:
    """A class method, and the class that it was found on."""

    method: types.MethodType
    owner: type

    @property
    def makes_owner(self):
        return self.method.__name__ in _MAKERS


def _is_stored(node):
    return isinstance(node.ctx, ast.Store)


def _is_ours(value):
    name = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
    return (name or "").split(".")[0] in OURS


def _attributes(kind):
    """What values of a class have: its own names, its fields, and what its methods set on `self`."""
    names = (
        set(dir(kind)) | {field.name for field in dataclasses.fields(kind)}
        if dataclasses.is_dataclass(kind)
        else set(dir(kind))
    )
    for base in filter(_is_ours, kind.__mro__):
        names |= set(re.findall(r"self\.(\w+)", inspect.getsource(base)))
    return {name for name in names if not name.startswith("_")}


def _documented(called, owner):
    """Names that the text and the bases of a function give for what it takes as `**kwargs`."""
    name = "__init__" if isinstance(called, type) else called.__name__
    holders = owner.__mro__ if owner is not None else _classes_of(called)
    family = [base.__dict__[name] for base in holders if _is_ours(base) and name in base.__dict__]
    texts = [inspect.getdoc(called) or "", *(inspect.getdoc(base) or "" for base in holders if _is_ours(base))]
    allowed = {field.name for field in dataclasses.fields(owner)} if dataclasses.is_dataclass(owner) else set()
    for member in family:
        member = getattr(member, "__func__", member)
        allowed |= set(inspect.signature(member).parameters)
        texts.append(inspect.getdoc(member) or "")
    text = "\n".join(texts)
    allowed |= set(re.findall(r"\w+", " ".join(re.findall(r"`[^`]*`", text))))
    if "recipe" in text:
        allowed |= {field.name for field in dataclasses.fields(Recipe)}
    if "BertConfig" in text:
        allowed |= {field.name for field in dataclasses.fields(BertConfig)}
    return allowed


def _classes_of(function):
    """The class that a method was written in, with its bases."""
    path = function.__qualname__.split(".")
    found = getattr(import_module(function.__module__), path[0]) if len(path) == 2 else None
    return found.__mro__ if isinstance(found, type) else ()


def _returned(function):
    """What a function's annotation says that it gives, where that is one of our classes or a tuple with them."""
    try:
        hint = typing.get_type_hints(function).get("return")
    except (NameError, TypeError):
        return UNKNOWN
    if typing.get_origin(hint) is tuple:
        return tuple(_as_value(part) for part in typing.get_args(hint))
    return _as_value(hint)


def _as_value(hint):
    concrete = isinstance(hint, type) and _is_ours(hint) and hint.__name__ not in ("Task", "Runtime")
    return Instance(hint) if concrete else UNKNOWN
