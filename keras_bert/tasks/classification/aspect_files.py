"""Read sentences with aspects and polarities from SemEval's XML, TSV and JSONL.

`read_aspects` gives `TextRows` with the aspect as second text; a sentence has a row for each of its aspects. XML with a
DOCTYPE is rejected: it could declare entities that expand without limit or read other files.
"""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NoReturn
from xml.etree import ElementTree
from xml.parsers import expat

from keras_bert.data.examples import Dropped, Example, TextRows, collect_rows, found_in
from keras_bert.data.labelled_texts import read_rows
from keras_bert.data.tables import file_list

KINDS = ("terms", "categories")
CONFLICT = "conflict"  # a sentence that is positive and negative about one aspect

# The elements and their attributes: in 2014 a list of terms and one of categories, later opinions with both.
_ELEMENTS = {"terms": ("aspectTerm", "term"), "categories": ("aspectCategory", "category")}
_OPINION = {"terms": "target", "categories": "category"}


@dataclass(frozen=True)
class AspectExample(Example):
    """An example whose `pair` is an aspect. If the aspect is part of the text, it is `text[start:end]`."""

    start: int | None = None
    end: int | None = None


def read_aspects(
    path_or_paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    kind: str = "terms",
    conflict: str = "drop",
    text: str | int = "text",
    pair: str | int = "aspect",
    label: str | int | None = "label",
    strict: bool = False,
) -> TextRows:
    """Read sentences with aspects and polarities, and report every row that cannot be used.

    Args:
        path_or_paths: One file or several: the `.xml` of SemEval-2014, 2015 or 2016; or `.tsv`, `.csv`, `.jsonl`,
            `.json` with a row for each aspect.
        kind: For XML: `"terms"` (words of the sentence) or `"categories"` (food, service …). Opinions of 2015 and 2016
            without a term are dropped and reported for `"terms"`; so are opinions that a sentence has twice.
        conflict: Whether to `"drop"` rows with the polarity `conflict`, which are usually left out, or to
            `"keep"` them.
        text, pair, label: For other files: the columns of the sentence, the aspect and the polarity, by name or by
            number from 0. `label=None` reads aspects without polarities, also from XML.
        strict: Whether to raise an error at the first bad row instead of reporting it.

    Example:
        >>> rows = read_aspects("Restaurants_Train_v2.xml")  # doctest: +SKIP
        >>> print(rows.report)  # doctest: +SKIP
        3,693 rows read, 3,602 kept, 91 dropped
          conflict: 91 (line …)
    """
    for name, value, known in (("kind", kind, KINDS), ("conflict", conflict, ("drop", "keep"))):
        if value not in known:
            raise ValueError(f"{name}={value!r}: expected one of {', '.join(map(repr, known))}.")
    files = file_list(path_or_paths)

    def aspects(path: str) -> Iterator[Example | Dropped]:
        if path.lower().endswith(".xml"):
            yield from found_in(path, _from_xml(path, kind, has_labels=label is not None))
        else:
            read = read_rows(path, text=text, pair=pair, label=label, strict=strict)
            yield from (*read.report.dropped, *read)

    def wanted(path: str) -> Iterator[Example | Dropped]:
        for one in aspects(path):
            if isinstance(one, Dropped):
                if strict:
                    raise one.error()
                yield one
            else:
                is_left_out = conflict == "drop" and one.label == CONFLICT
                yield Dropped(CONFLICT, path, one.row) if is_left_out else one

    # Not strict=strict: a row with a conflict is dropped on request, so it is not a bad row.
    return collect_rows(TextRows, (one for path in files for one in wanted(path)), files)


def _from_xml(path: str, kind: str, *, has_labels: bool) -> Iterator[tuple[int, AspectExample | str]]:
    """The aspects of all sentences: an example, or the reason why there is none, and its line."""
    root, lines = parse_xml(path)
    element, name = _ELEMENTS[kind]
    for sentence in root.iter("sentence"):
        text = sentence.findtext("text") or ""
        for aspect in sentence.iter(element):
            yield lines[aspect], _example(text, aspect, name, lines[aspect], has_labels)
        seen = set()  # a term occurs once for each of its categories, a category once for each of its terms
        for opinion in sentence.iter("Opinion"):
            found = _example(text, opinion, _OPINION[kind], lines[opinion], has_labels)
            if isinstance(found, AspectExample):
                said = (found.pair, found.label, found.start)
                found = "the same once more" if said in seen else found
                seen.add(said)
            yield lines[opinion], found
    for review in root.iter("Review"):
        for opinion in review.findall("Opinions/Opinion"):
            yield lines[opinion], "opinion of a whole review"


def _example(text: str, element: ElementTree.Element, name: str, line: int, has_labels: bool) -> AspectExample | str:
    aspect, label = (element.get(name) or "").strip(), (element.get("polarity") or "").strip()
    if not text.strip():
        return "empty text"
    if not aspect:
        return "empty aspect"
    if name == "target" and aspect == "NULL":
        return "opinion without a term (target NULL)"
    if has_labels and not label:
        return "missing label"
    known = label if has_labels else None
    if name == "category":
        return AspectExample(text, aspect, known, line)
    places = [element.get(key, "") for key in ("from", "to")]
    if not all(re.fullmatch("[0-9]+", place) for place in places):
        return "offset is no number"
    start, end = map(int, places)
    if text[start:end] != element.get(name):
        return "aspect is not at its offset"
    return AspectExample(text, aspect, known, line, start, end)


def parse_xml(path: str | os.PathLike[str]) -> tuple[ElementTree.Element, dict[ElementTree.Element, int]]:
    """Parse an XML document without a DOCTYPE into its root and the line of each element.

    Example:
        >>> root, lines = parse_xml("Restaurants_Test_Gold.xml")  # doctest: +SKIP
        >>> root.tag, lines[root]  # doctest: +SKIP
        ('sentences', 2)
    """
    parser, builder = expat.ParserCreate(), ElementTree.TreeBuilder()
    lines: dict[ElementTree.Element, int] = {}

    def start(tag: str, attributes: dict[str, str]) -> None:
        lines[builder.start(tag, attributes)] = parser.CurrentLineNumber

    def refuse(*_: object) -> NoReturn:
        raise ValueError(
            f"{path}, line {parser.CurrentLineNumber}: the document has a DOCTYPE, which can make XML expand or read "
            "other files; remove it if you trust the file."
        )

    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = start, builder.end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    try:
        with open(path, "rb") as file:
            parser.ParseFile(file)
        return builder.close(), lines
    except (expat.ExpatError, LookupError) as error:  # the latter: an encoding that nobody knows
        raise ValueError(f"{path} is not a complete XML document: {error}.") from None
