"""Convert tags between BIO, BIOES and IOB1, and find broken ones.

Data comes in several schemes, and a tagger has one. Tags are read as spans (`decoding/tags.py`) and written in the
other scheme.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from keras_bert.decoding.tags import (
    OUTSIDE,
    SCHEMES,
    continues,
    is_legal,
    span_tags,
    split_known_tag,
    split_tag,
    tag_spans,
)

__all__ = ["SCHEMES", "breaks_scheme", "convert_tags", "describe_broken", "entity_kinds", "find_scheme", "make_tags"]


def find_scheme(sentences: Iterable[Sequence[str]]) -> str:
    """Find the scheme of tags; if they break the rules of all, the closest one.

    Example:
        >>> find_scheme([["B-PER", "I-PER"]]), find_scheme([["I-PER", "B-PER"]]), find_scheme([["S-PER"]])
        ('BIO', 'IOB1', 'BIOES')
    """
    loose_begin = loose_inside = False
    for tags in sentences:
        parts = [(OUTSIDE, ""), *map(split_known_tag, tags)]
        if any(part in "ES" for part, _ in parts):
            return "BIOES"
        for before, now in pairwise(parts):
            loose_begin |= now[0] == "B" and before[1] != now[1]
            loose_inside |= now[0] == "I" and not continues(before, now)
    # In IOB1 a B occurs only directly after an entity of the same kind.
    return "IOB1" if loose_inside and not loose_begin else "BIO"


def breaks_scheme(tags: Sequence[str], scheme: str) -> bool:
    """Whether tags break the rules of a scheme.

    Example:
        >>> breaks_scheme(["O", "I-PER"], "BIO"), breaks_scheme(["O", "I-PER"], "IOB1")
        (True, False)
    """
    parts = [None, *map(split_tag, tags), None]
    return bool(tags) and not all(is_legal(before, now, scheme) for before, now in pairwise(parts))


def describe_broken(sentences: Sequence[Sequence[str]], rows: Sequence[int]) -> tuple[str, ...]:
    """Describe how many sentences break the rules of their scheme, and which; empty if none does.

    Example:
        >>> describe_broken([["B-PER"], ["O", "I-PER"]], [1, 3])[0]
        '1 of 2 sentences have tags that break BIO (row 3); they are read as seqeval reads them'
    """
    scheme = find_scheme(sentences)
    broken = [row for tags, row in zip(sentences, rows, strict=True) if breaks_scheme(tags, scheme)]
    if not broken:
        return ()
    named = ", ".join(map(str, broken[:10])) + (f" and {len(broken) - 10:,} more" if len(broken) > 10 else "")
    return (
        f"{len(broken):,} of {len(sentences):,} sentences have tags that break {scheme} (row {named}); they are read "
        "as seqeval reads them",
    )


def convert_tags(tags: Sequence[str], scheme: str = "BIO") -> list[str]:
    """Convert tags of any scheme into another; broken tags are fixed the way seqeval reads them.

    Example:
        >>> convert_tags(["B-PER", "M-PER", "E-PER", "S-LOC", "O", "I-ORG"])
        ['B-PER', 'I-PER', 'I-PER', 'B-LOC', 'O', 'B-ORG']
    """
    return span_tags(tag_spans(tags), len(tags), scheme)


def entity_kinds(tags: Iterable[str]) -> list[str]:
    """The kinds of entities in tags, in the order of their first tag.

    Example:
        >>> entity_kinds(["O", "B-PER", "I-PER", "B-LOC"])
        ['PER', 'LOC']
    """
    return list(dict.fromkeys(kind for _, kind in map(split_known_tag, tags) if kind))


def make_tags(labels: Sequence[str], scheme: str = "BIO") -> list[str]:
    """Make the tags of a model, `O` first.

    Args:
        labels: The kinds of entities (`["PER", "LOC"]`), or tags of them in any scheme.
        scheme: The scheme of the tags.

    Example:
        >>> make_tags(["PER"]), make_tags(["O", "B-PER", "I-PER"], "BIOES")
        (['O', 'B-PER', 'I-PER'], ['O', 'B-PER', 'I-PER', 'E-PER', 'S-PER'])
    """
    if scheme not in SCHEMES:
        raise ValueError(f"scheme={scheme!r}: expected one of {', '.join(map(repr, SCHEMES))}.")
    if isinstance(labels, str):
        raise TypeError(f"labels={labels!r}: expected a list with the name of each kind of entity.")
    names = [str(label) for label in labels]
    if names and all(split_tag(name) for name in names):
        names = entity_kinds(names)
    if not names:
        raise ValueError(f"labels={list(labels)}: expected at least one kind of entity, such as ['PER', 'LOC'].")
    if len(set(names)) != len(names) or OUTSIDE in names:
        wrong = sorted(name for name, count in Counter(names).items() if count > 1 or name == OUTSIDE)
        raise ValueError(f"labels has {wrong}; expected each kind of entity once, without 'O', or their tags.")
    parts = {"BIO": "BI", "IOB1": "BI", "BIOES": "BIES"}[scheme]
    return [OUTSIDE, *(f"{part}-{name}" for name in names for part in parts)]
