"""Tasks that a test registers are forgotten when it ends, so that other tests see the built-in ones alone."""

import contextlib
import sys
from collections.abc import Iterator

import pytest

from export.tasks.base import registry as export_registry
from keras_bert.tasks.base import registry


@contextlib.contextmanager
def own_registries(*modules: str) -> Iterator[None]:
    """Registries to add to; `modules` are those that register, and are imported anew."""
    for name in export_registry.exported_tasks():
        export_registry.find_export(name)  # a built-in task registers once, when its module is first imported
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_ENTRIES", dict(registry.registered_tasks()))
        patch.setattr(export_registry, "_REGISTERED", dict(export_registry._REGISTERED))
        for name in modules:
            sys.modules.pop(name, None)
        yield
    for name in modules:
        sys.modules.pop(name, None)
