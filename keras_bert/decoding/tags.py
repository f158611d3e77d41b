"""Tags of words ⇄ entities: what `B-PER I-PER O` says, and which tag may follow which.

Takes tags as strings, gives spans and scores of transitions; NumPy alone, as everything here. A room of its own because
readers of data, the CRF, the metrics and the decoder must mean the same by a tag.

| scheme | an entity of one word | of several | an entity right behind one of its kind |
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
NEVER = -1e9  # the score of what may not be; finite, so that no sum of such scores is undefined

_TAG = re.compile(r"([BIESMLUW])[-_](.+)", re.DOTALL)
# BMES says M for I; BILOU says L for E and U for S, BMEWO W for S.
_SAME = {"M": "I", "L": "E", "U": "S", "W": "S"}


@cache
def split_tag(tag: str) -> tuple[str, str] | None:
    """The part of an entity that a tag is (`B`, `I`, `E`, `S` or `O`) and the entity's kind; `None` for what is no tag.

    Example:
        >>> split_tag("B-creative-work"), split_tag("M-ORG"), split_tag("O"), split_tag("PER")
        (('B', 'creative-work'), ('I', 'ORG'), ('O', ''), None)
    """
    if tag == OUTSIDE:
        return OUTSIDE, ""
    match = _TAG.fullmatch(tag)
    return (_SAME.get(match[1], match[1]), match[2]) if match else None


def split_known_tag(tag: str) -> tuple[str, str]:
    """As `split_tag`, for what must be a tag; an error where it is none."""
    parts = split_tag(tag)
    if parts is None:
        raise ValueError(f"{tag!r} is no tag; expected O, or B, I, E or S with the kind of the entity, such as B-PER.")
    return parts


def tag_spans(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """The entities that tags name: kind, first word, and the word behind the last.

    Every scheme is read by one rule, that of conlleval and seqeval, which also says what broken tags mean: an `I` or
    `E` that goes on with nothing begins an entity.

    Example:
        >>> tag_spans(["B-PER", "I-PER", "O", "I-LOC", "B-LOC"])
        [('PER', 0, 2), ('LOC', 3, 4), ('LOC', 4, 5)]
    """
    spans, begin, before = [], None, (OUTSIDE, "")
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
    """Whether a tag goes on with the entity of the tag before it; both as `split_tag` gives them."""
    return before[1] == now[1] and before[0] in "BI" and now[0] in "IE"


def span_tags(spans: Sequence[tuple[str, int, int]], length: int, scheme: str = "BIO") -> list[str]:
    """The tags that name these entities in a text of `length` words.

    Example:
        >>> span_tags([("PER", 0, 2), ("LOC", 3, 4)], 4, "BIOES")
        ['B-PER', 'E-PER', 'O', 'S-LOC']
    """
    tags, before = [OUTSIDE] * length, (None, 0)
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
    """Whether a tag may follow another; `None` is the beginning or the end of a text.

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
    """The score of each tag behind each other, `[C + 1, C + 1]`; the last row is the beginning, the last column the
    end.

    Args:
        tags: The tags of a model, in the order of its logits.
        scheme: By which they follow each other.
        transitions: What a CRF has learned, `[C + 1, C]`; `None` is 0 for all.
        constrained: Whether what the scheme forbids gets the score `NEVER`.

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
            raise ValueError(f"transitions have shape {np.shape(transitions)}; expected {(count + 1, count)}.")
        scores[:, :count] = transitions
    if constrained:
        parts = [*(split_tag(tag) for tag in tags), None]
        legal = [[is_legal(before, now, scheme) for now in parts] for before in parts]
        scores[~np.array(legal)] = NEVER
        scores[count, count] = 0.0  # a text without words
    return scores
