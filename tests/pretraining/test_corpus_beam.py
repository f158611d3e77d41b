"""The Beam pipeline gives the same bytes as the process pool."""

import pytest

pytest.importorskip("apache_beam", reason="needs the extra `beam`")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_beam_gives_the_same_bytes(tmp_path):
    from keras_bert.pretraining.corpus.beam import main
    from keras_bert.pretraining.corpus.writing import read_examples, write_examples

    words = [f"w{chr(97 + number)}" for number in range(26)]
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *words]) + "\n")
    for name in "ab":
        documents = [f"{a} {b}. {name} {a}.\n{b} {b}." for a in words for b in words]
        (tmp_path / f"{name}.txt").write_text("\n\n".join(documents).title())
    settings = {"sequence_length": 32, "shard_bytes": 1 << 12}
    pattern = str(tmp_path / "[ab].txt")
    write_examples(pattern, tmp_path / "pool", tmp_path / "vocab.txt", workers=1, progress=False, **settings)
    flags = [f"--{name}={value}" for name, value in settings.items()]
    main(
        [pattern, str(tmp_path / "beam"), "--vocabulary", str(tmp_path / "vocab.txt"), *flags, "--runner=DirectRunner"]
    )
    ours, theirs = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("pool", "beam"))
    assert len(ours) > 5 and ours == theirs
    assert sum(1 for _ in read_examples(tmp_path / "beam")) > 1000
