"""Docstrings → docstrings whose `Example:` the reference shows as code.

An extension of griffe, which reads the code for the site without running it and knows `Examples:` alone. A room of its
own because the docstrings are for people who read code, and keep the word that fits: most have one example.
"""

import re

import griffe

_HEADING = re.compile(r"^(\s*)Example:$", re.MULTILINE)


class ExampleSections(griffe.Extension):
    """Reads `Example:` as `Examples:`."""

    def on_object(self, *, obj: griffe.Object, **kwargs) -> None:
        """Called for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = _HEADING.sub(r"\1Examples:", obj.docstring.value)
