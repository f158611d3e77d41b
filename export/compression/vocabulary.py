"""Remove tokens that a task's texts do not need, because the token table is most of a small BERT.

`trim_vocabulary` removes tokens that do not occur. WordPiece always takes the longest token that fits, and Unigram the
tokens with the highest sum of scores, so a text whose tokens are all kept is tokenized as before and gets the same
answer. The effect on other texts is counted and printed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from keras_bert.model.weights import copy_weights
from keras_bert.tasks.base.task import Task
from keras_bert.text.subword_tokenizer import SubwordTokenizer
from keras_bert.text.tokenized_texts import tokenize_texts
from keras_bert.text.tokenizer import BertTokenizer
from keras_bert.text.unigram import UnigramTokenizer
from keras_bert.text.unigram_model import NORMAL, SPACE
from keras_bert.text.vocabulary import SPECIAL_TOKENS, single_characters


@dataclass(frozen=True)
class TrimReport:
    """What was removed, and the effect on held-out texts. Prints as three lines.

    Args:
        before, after: Tokens of the vocabulary.
        parameters_before, parameters_after: Parameters of the model.
        checked: The number of held-out texts.
        same: How many of them are tokenized as before.
        pieces_before, pieces_after: The number of their tokens.
        unknown: How many more of these are the unknown token than before.
    """

    before: int
    after: int
    parameters_before: int
    parameters_after: int
    checked: int = 0
    same: int = 0
    pieces_before: int = 0
    pieces_after: int = 0
    unknown: int = 0

    def __str__(self) -> str:
        saved = 1 - self.parameters_after / self.parameters_before
        lines = [
            f"{self.after:,} of {self.before:,} tokens kept; {self.parameters_after:,} parameters instead of "
            f"{self.parameters_before:,} ({saved:.0%} less)"
        ]
        if self.checked:
            longer = self.pieces_after / max(1, self.pieces_before) - 1
            lines.append(f"of {self.checked:,} other texts {self.same / self.checked:.1%} are cut as before")
            lines.append(f"they have {longer:+.1%} pieces, {self.unknown:,} of them newly unknown")
        return "\n".join(lines)


def trim_vocabulary(
    task: Task,
    texts: Sequence[str | Sequence[str]],
    *,
    held_out: Sequence[str | Sequence[str]] = (),
    min_count: int = 1,
    keep: Sequence[str] = (),
    keep_characters: bool = True,
    alphabet: str = "",
) -> tuple[Task, TrimReport]:
    """Give a task a smaller vocabulary, chosen by texts.

    Args:
        task: Any task; it stays as it is.
        texts: Strings or pairs of strings, such as the training data; as similar as possible to later inputs.
        held_out: Other texts, to measure the effect on.
        min_count: How often a token must occur to be kept.
        keep: Tokens to keep in any case.
        keep_characters: Keep single characters of the alphabets that occur, so that unseen words are spelled in
            characters instead of becoming unknown.
        alphabet: Characters, such as those of the users' languages: every token that is spelled in them alone is kept,
            so that any text of these characters is cut as before.

    Returns:
        The smaller task and a report to print.

    Example:
        ```python
        smaller, report = trim_vocabulary(classifier, train.texts, held_out=dev.texts)
        print(report)
        ```
    """
    texts = _flat(texts)
    if not texts:
        raise ValueError("There are no texts; expected texts to choose the vocabulary by.")
    tokenizer = task.tokenizer
    counts = np.bincount(
        tokenize_texts(tokenizer, _as_read(task, texts)).first_ids, minlength=tokenizer.vocabulary_size
    )
    unknown = [token for token in keep if token not in set(tokenizer.vocabulary)]
    if unknown:
        raise ValueError(f"Got keep={unknown[:10]}, which are not in the vocabulary; pass tokens that are.")
    wanted = {*_special(tokenizer), *keep, *getattr(task, "markers", ())}
    wanted |= single_characters(tokenizer.vocabulary, counts) if keep_characters else set()
    wanted |= spelled_in(tokenizer.vocabulary, alphabet) if alphabet else set()
    kept = np.array(
        [
            index
            for index, token in enumerate(tokenizer.vocabulary)
            if counts[index] >= max(1, min_count) or token in wanted
        ]
    )
    smaller = task.on_encoder(task.config.replace(vocabulary_size=len(kept)), tokenizer=_take(tokenizer, kept))
    copy_weights(task.model, smaller.model, table_rows=kept)
    smaller.fresh_heads = task.fresh_heads
    report = TrimReport(tokenizer.vocabulary_size, len(kept), task.model.count_params(), smaller.model.count_params())
    return smaller, _with_cost(report, tokenizer, smaller.tokenizer, kept, _flat(held_out))


def spelled_in(vocabulary: Sequence[str], alphabet: str) -> set[str]:
    """Return the tokens that have no other characters than those of an alphabet.

    Example:
        >>> sorted(spelled_in(["▁ab", "##b", "bc"], "ab"))
        ['##b', '▁ab']
    """
    allowed = set(alphabet)
    return {token for token in vocabulary if allowed.issuperset(token.removeprefix("##").replace(SPACE, ""))}


def _special(tokenizer: SubwordTokenizer) -> list[str]:
    """The tokens that a tokenizer needs whatever the texts are."""
    if not isinstance(tokenizer, UnigramTokenizer):
        return list(SPECIAL_TOKENS)
    model, is_piece = tokenizer.model, tokenizer.model.kinds == NORMAL
    found = [token for token, piece in zip(model.tokens, is_piece.tolist(), strict=True) if not piece]
    # The score of unknown characters is counted from the lowest score, and has to stay as it is.
    lowest = np.where(is_piece, model.scores, np.inf).argmin()
    return [*found, model.tokens[int(lowest)]]


def _take(tokenizer: SubwordTokenizer, kept: np.ndarray) -> SubwordTokenizer:
    """The tokenizer with some of its tokens. The scores of a Unigram model stay, so that texts are cut as before."""
    if isinstance(tokenizer, UnigramTokenizer):
        return UnigramTokenizer(tokenizer.model.take(kept))
    tokens = [tokenizer.vocabulary[index] for index in kept]
    return BertTokenizer.from_config({**tokenizer.get_config(), "vocabulary": tokens})


def _flat(texts: Sequence[str | Sequence[str]]) -> list[str]:
    return [part for text in texts for part in ((text,) if isinstance(text, str) else text)]


def _as_read(task: Task, texts: list[str]) -> list[str]:
    """The texts, and again with each of the prompts that a task puts before them."""
    prompts = getattr(task, "prompts", None)
    found = [] if prompts is None else [prompt for prompt in prompts.texts.values() if prompt]
    return [*texts, *(prompt + text for prompt in found for text in texts)]


def _with_cost(
    report: TrimReport, before: SubwordTokenizer, after: SubwordTokenizer, kept: np.ndarray, texts: list[str]
) -> TrimReport:
    if not texts:
        return report
    old, new = tokenize_texts(before, texts), tokenize_texts(after, texts)
    renumbered = kept[new.first_ids]  # as old ids, to compare
    pairs = [
        (old.first_ids[slice(*old.first_splits[row : row + 2])], renumbered[slice(*new.first_splits[row : row + 2])])
        for row in range(len(texts))
    ]
    unknown = int(np.sum(renumbered == before.unk_id) - np.sum(old.first_ids == before.unk_id))
    return TrimReport(
        report.before,
        report.after,
        report.parameters_before,
        report.parameters_after,
        checked=len(texts),
        same=sum(np.array_equal(*pair) for pair in pairs),
        pieces_before=len(old.first_ids),
        pieces_after=len(new.first_ids),
        unknown=max(0, unknown),
    )
