"""Converts between tags (`B-PER I-PER O`) and entities, and says which tag may follow which.

Data readers, the CRF, the metrics and the decoder all use it.

| scheme | an entity of one word | of several | an entity right after one of its kind |
|---|---|---|---|
| `BIO` (IOB2) | `B` | `B I I` | `B` |
| `BIOES` (BMES, BILOU) | `S` | `B I E` | `B` or `S` |
| `IOB1` | `I` | `I I I` | `B I I` |
"""

import re
from collections.abc import Sequence
from functools import cache

import numpy as np

SCHEMES = ("BIO", "BIOES", "IOB1")
OUTSIDE = "O"
NEVER = -1e9  # the score of what is not allowed; finite, so that sums of such scores are defined

_TAG = re.compile(r"([BIESMLUW])[-_](.+)", re.DOTALL)
# BMES has M for I; BILOU has L for E and U for S; BMEWO has W for S.
_SAME = {"M": "I", "L": "E", "U": "S", "W": "S"}


@cache
def split_tag(tag: str) -> tuple[str, str] | None:
    """Return the part of an entity (`B`, `I`, `E`, `S` or `O`) and its kind; `None` if the string is not a tag.

    Example:
        >>> split_tag("B-creative-work"), split_tag("M-ORG"), split_tag("O"), split_tag("PER")
        (('B', 'creative-work'), ('I', 'ORG'), ('O', ''), None)
    """
    if tag == OUTSIDE:
        return OUTSIDE, ""
    match = _TAG.fullmatch(tag)
    return (_SAME.get(match[1], match[1]), match[2]) if match else None


def split_known_tag(tag: str) -> tuple[str, str]:
    """Return the same as `split_tag`, but raise an error if the string is not a tag."""
    parts = split_tag(tag)
    if parts is None:
        raise ValueError(
            f"{tag!r} is not a tag; expected O, or B, I, E or S with the kind of the entity, such as B-PER."
        )
    return parts


def tag_spans(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return the entities of tags: the kind, the first word, and the word after the last.

    All schemes are read by the rule of conlleval and seqeval, which also covers invalid tags: an `I` or `E` that
    continues no entity begins one.

    Example:
        >>> tag_spans(["B-PER", "I-PER", "O", "I-LOC", "B-LOC"])
        [('PER', 0, 2), ('LOC', 3, 4), ('LOC', 4, 5)]
    """
    spans: list[tuple[str, int, int]] = []
    begin, before = None, (OUTSIDE, "")
    for place, tag in enumerate([*tags, OUTSIDE]):
        part, kind = split_known_tag(tag)
        goes_on = continues(before, (part, kind))
        if begin is not None and not goes_on:
            spans.append((before[1], begin, place))
            begin = None
        if part != OUTSIDE and not goes_on:
            begin = place
        before = (part, kind)
    return spans


def continues(before: tuple[str, str], now: tuple[str, str]) -> bool:
    """Return whether a tag continues the entity of the tag before it; both as `split_tag` gives them."""
    return before[1] == now[1] and before[0] in "BI" and now[0] in "IE"


def span_tags(spans: Sequence[tuple[str, int, int]], length: int, scheme: str = "BIO") -> list[str]:
    """Return the tags of these entities in a text of `length` words.

    Example:
        >>> span_tags([("PER", 0, 2), ("LOC", 3, 4)], 4, "BIOES")
        ['B-PER', 'E-PER', 'O', 'S-LOC']
    """
    tags = [OUTSIDE] * length
    before: tuple[str | None, int] = (None, 0)
    for kind, begin, end in spans:
        parts = ["I"] * (end - begin)
        if scheme == "BIO" or (scheme == "IOB1" and before == (kind, begin)):
            parts[0] = "B"
        elif scheme == "BIOES":
            parts = ["S"] if len(parts) == 1 else ["B", *parts[1:-1], "E"]
        tags[begin:end] = [f"{part}-{kind}" for part in parts]
        before = (kind, end)
    return tags


def is_legal(before: tuple[str, str] | None, now: tuple[str, str] | None, scheme: str) -> bool:
    """Return whether a tag may follow another; `None` is the beginning or the end of a text.

    Example:
        >>> is_legal(("O", ""), ("I", "PER"), "BIO"), is_legal(("B", "PER"), None, "BIOES")
        (False, False)
    """
    begins, ends = before is None, now is None
    before, now = before or (OUTSIDE, ""), now or (OUTSIDE, "")
    if scheme == "BIO":
        return now[0] != "I" or (not begins and continues(before, now))
    if scheme == "BIOES":
        if before[0] in "BI":
            return continues(before, now)
        return now[0] in "OBS"
    return ends or now[0] != "B" or (before[1] == now[1] and not begins)


def transition_scores(
    tags: Sequence[str], *, scheme: str = "BIO", transitions: np.ndarray | None = None, constrained: bool = True
) -> np.ndarray:
    """Return the score of each tag after each other tag, `[C + 1, C + 1]`.

    The last row is the beginning of a text, the last column its end.

    Args:
        tags: The tags of a model, in the order of its logits.
        scheme: The tagging scheme.
        transitions: The scores that a CRF has learned, `[C + 1, C]`; `None` is 0 for all.
        constrained: Whether transitions that the scheme forbids get the score `NEVER`.

    Example:
        >>> transition_scores(["O", "B-PER", "I-PER"]).tolist()[-1]
        [0.0, 0.0, -1000000000.0, 0.0]
    """
    if scheme not in SCHEMES:
        raise ValueError(f"scheme={scheme!r}: expected one of {', '.join(map(repr, SCHEMES))}.")
    count = len(tags)
    scores = np.zeros((count + 1, count + 1))
    if transitions is not None:
        if np.shape(transitions) != (count + 1, count):
            raise ValueError(
                f"The transitions have shape {np.shape(transitions)}; expected {(count + 1, count)}, for {count} tags."
            )
        scores[:, :count] = transitions
    if constrained:
        parts = [*(split_tag(tag) for tag in tags), None]
        legal = [[is_legal(before, now, scheme) for now in parts] for before in parts]
        scores[~np.array(legal)] = NEVER
        scores[count, count] = 0.0  # a text without words
    return scores
