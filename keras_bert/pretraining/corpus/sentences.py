"""Splits text into sentences, English and Chinese, also mixed.

Uses regular expressions only, so it needs no model and costs little compared with tokenizing. Where a boundary is
doubtful (`in the U.S. He …`) the sentences stay together, which does no harm to BERT's segments.
"""

import re

# Marks that may end a sentence, closing quotes and brackets, and space. The pattern begins with a single character
# class because that is searched much faster than alternatives; a class of ASCII characters is faster still.
_ASCII_CANDIDATE = re.compile(r"""([.!?]+)["')\]]*(\s*)""")
_CANDIDATE = re.compile(r"""([.!?…。！？｡]+)["'”’»)\]」』】）》]*(\s*)""")
_CHINESE_MARKS = frozenset("。！？｡")
_OPENING = "\"'“‘«([「『（《"
_TITLES = "Mr Mrs Ms Dr Prof St Sr Jr Gen Col Maj Capt Lt Sgt Cpl Adm Cmdr Rev Hon Gov Sen Rep Pres Messrs Mt Ft"
_SHORTENED = "vs etc cf ca approx est al eg ie viz Inc Ltd Co Corp Bros Dept Univ Assn Ave Blvd Rd Nr"
_MONTHS = "Jan Feb Mar Apr Jun Jul Aug Sept Sep Oct Nov Dec"
_NUMBERED = "no nos vol vols pp p ch sec fig figs art op eq nr"
_ABBREVIATIONS = frozenset(f"{_TITLES} {_SHORTENED} {_MONTHS}".lower().split())
_BEFORE_NUMBER = frozenset(_NUMBERED.split())
# Initials and acronyms (`J.`, `U.S.`, `e.g.`) and words, right before a full stop.
_LAST_WORD = re.compile(r"(?P<initials>(?<![^\W_])[^\W\d_](?:\.[^\W\d_])*)$|(?P<word>[^\W\d_]+)$")
_WINDOW = 16  # characters; longer words are not abbreviations


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences, without the space around them; empty ones are dropped.

    A line end is always a boundary, and so is `。`, `！` or `？`. `.`, `!` and `?` are boundaries if space follows and
    the next word does not begin in lower case, unless the full stop belongs to an abbreviation or to initials.

    Example:
        >>> split_sentences("Dr. Lee met J. R. Smith at 3.15 p.m. on Monday. “Well?” Nothing.")
        ['Dr. Lee met J. R. Smith at 3.15 p.m. on Monday.', '“Well?”', 'Nothing.']
        >>> split_sentences("他说：“好！”然后走了。很好")
        ['他说：“好！”', '然后走了。', '很好']
    """
    sentences = []
    for line in text.split("\n"):
        start = 0
        for match in (_ASCII_CANDIDATE if line.isascii() else _CANDIDATE).finditer(line):
            if _is_boundary(line, match):
                sentences.append(line[start : match.end()].strip())
                start = match.end()
        if sentence := line[start:].strip():
            sentences.append(sentence)
    return sentences


def _is_boundary(text: str, match: re.Match[str]) -> bool:
    marks, space = match.groups()
    end = match.end()
    if end == len(text) or not _CHINESE_MARKS.isdisjoint(marks):
        return True
    if not space:
        return marks[0] in "!?…" and ("\u4e00" <= text[end] <= "\u9fff" or text[end] in "“‘「『（《")
    while text[end] in _OPENING and end + 1 < len(text):
        end += 1
    follower = text[end]
    if not follower.isalnum() or follower.islower():
        return False
    return marks != "." or not _is_abbreviation(text, match.start(), follower)


def _is_abbreviation(text: str, stop: int, follower: str) -> bool:
    last = _LAST_WORD.search(text, max(0, stop - _WINDOW), stop)
    if last is None:
        return False
    if last["initials"]:
        # `the U.S. Army`, `J. Smith`; but a lone lower-case letter, `plan b. Then`, and `I. Then` end sentences.
        return "." in last["initials"] or (last["initials"].isupper() and last["initials"] != "I")
    word = last["word"].lower()
    return word in _ABBREVIATIONS or (word in _BEFORE_NUMBER and follower.isdigit())
