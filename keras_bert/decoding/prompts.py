"""Puts a prompt before each text, as models such as e5 were trained: `query: ` and `passage: `.

Takes texts and the name of a prompt; gives texts. A device reads in the same way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# The names that sentence-transformers looks for, the first one first.
_QUERY, _DOCUMENT = ("query",), ("document", "passage", "corpus")


@dataclass(frozen=True)
class Prompts:
    """Prompts by name.

    Args:
        texts: The prompts.
        default: The name of the prompt for texts where no other is named; `None` is no prompt.

    Example:
        >>> Prompts({"query": "query: ", "passage": "passage: "}, default="query").add(["a cat"])
        ['query: a cat']
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    default: str | None = None

    def __post_init__(self) -> None:
        pairs: list[tuple[Any, Any]] = list(self.texts.items()) if isinstance(self.texts, Mapping) else [(None, None)]
        if not all(isinstance(name, str) and isinstance(text, str) for name, text in pairs):
            raise ValueError(f"The prompts are {str(self.texts)[:60]}; expected a text for each name.")
        if self.default is not None and self.default not in self.texts:
            raise ValueError(f"The default prompt is {self.default!r}; {self._known()}.")

    def __bool__(self) -> bool:
        return any(self.texts.values())

    @property
    def query(self) -> str | None:
        """The name of the prompt for what is looked for; that of the default if there is none."""
        return next((name for name in _QUERY if name in self.texts), self.default)

    @property
    def document(self) -> str | None:
        """The name of the prompt for what is found; that of the default if there is none."""
        return next((name for name in _DOCUMENT if name in self.texts), self.default)

    def find(self, name: str | None = None) -> str:
        """Return a prompt; that of the default for `None`, and no prompt for the empty name.

        Example:
            >>> Prompts({"query": "query: "}).find("query")
            'query: '
        """
        name = self.default if name is None else name
        if name and name not in self.texts:
            raise ValueError(f"Got prompt_name={name!r}; {self._known()}.")
        return self.texts[name] if name else ""

    def add(self, texts: Sequence[str], name: str | None = None) -> list[str]:
        """Put a prompt before each text.

        Example:
            >>> Prompts({"query": "query: "}).add(["a cat"])
            ['a cat']
        """
        prompt = self.find(name)
        return [prompt + text for text in texts] if prompt else list(texts)

    def _known(self) -> str:
        if not self.texts:
            return "this model has no prompts: pass prompts={name: text}, or write them into the texts"
        return f"expected one of {', '.join(map(repr, self.texts))}"
