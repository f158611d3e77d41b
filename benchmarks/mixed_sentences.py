"""Makes new sentences from phrases, for a teacher to label.

The training texts of SST-2 are phrases, but its dev texts are sentences. Two benchmarks use the new sentences for
distillation. Nothing is learned here and no label is read.
"""

import numpy as np

JOINTS = (" , ", " and ", " but ", " -- ", " ; ")


def mix_sentences(phrases: list[str], count: int, seed: int) -> list[str]:
    """New sentences from phrases: parts of long ones replaced by others of about their length, and phrases joined."""
    random = np.random.default_rng(seed)
    words = [tuple(phrase.split()) for phrase in dict.fromkeys(phrases)]
    by_length: dict[int, list] = {}
    for phrase in words:
        by_length.setdefault(len(phrase), []).append(phrase)
    known, longest = set(words), max(by_length)
    long = [phrase for phrase in words if len(phrase) >= 8] or words
    found: dict[str, None] = {}
    while len(found) < count:
        if random.random() < 0.2:
            parts = [" ".join(words[random.integers(len(words))]) for _ in range(2)]
            found[parts[0] + JOINTS[random.integers(len(JOINTS))] + parts[1]] = None
            continue
        sentence = long[random.integers(len(long))]
        for _ in range(random.integers(1, 4)):
            sentence = _swap(sentence, known, by_length, longest, random)
        found[" ".join(sentence)] = None
    return list(found)


def _swap(sentence, known, by_length, longest, random):
    """The sentence with one of the phrases in it replaced."""
    spans = [
        (start, end)
        for start in range(len(sentence))
        for end in range(start + 1, min(start + 9, len(sentence) + 1))
        if sentence[start:end] in known and end - start < len(sentence)
    ]
    if not spans:
        return sentence
    start, end = spans[random.integers(len(spans))]
    length = min(longest, max(1, end - start + int(random.integers(-1, 2))))
    others = by_length.get(length) or by_length[end - start]
    return (*sentence[:start], *others[random.integers(len(others))], *sentence[end:])
