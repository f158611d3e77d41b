"""Runs `write_examples` on many machines, as an Apache Beam pipeline.

    python -m keras_bert.pretraining.corpus.beam 'gs://bucket/corpus/*.txt.gz' gs://bucket/examples \\
        --vocabulary vocab.txt --runner DataflowRunner --project P --region R --temp_location gs://bucket/tmp

Takes the same files and settings and gives the same shards and manifest, byte for byte; `read_examples` reads them.
Needs the extra `beam`. Groups of files are read in parallel, and any worker turns a unit into a shard. A shard appears
by a rename, so a runner may repeat a step. Flags that are not known here go to the runner (Flink, Spark, Dataflow); the
default is the DirectRunner, on the local machine.
"""

import argparse
import os
from collections.abc import Iterable, Iterator
from typing import Any

try:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions
except ImportError as error:
    raise ImportError("Examples on a cluster need Apache Beam: pip install 'keras-bert-edge[beam]'") from error

from keras_bert.pretraining.corpus.documents import CorpusError, find_files
from keras_bert.pretraining.corpus.manifest import (
    FILE,
    Manifest,
    Settings,
    describe,
    find_differences,
    load_manifest,
    read_json,
    write_manifest,
)
from keras_bert.pretraining.corpus.pairs import KINDS
from keras_bert.pretraining.corpus.shards import join
from keras_bert.pretraining.corpus.units import Unit, group_files, read_units
from keras_bert.pretraining.corpus.writing import as_tokenizer, warn_of_losses
from keras_bert.pretraining.rows.layout import LAYOUTS


def write_examples_with_beam(
    files: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    output_directory: str | os.PathLike[str],
    tokenizer: Any,
    *,
    options: PipelineOptions | None = None,
    **settings: Any,
) -> Manifest:
    """Do what `write_examples` does, on a Beam runner.

    Args:
        files, output_directory: As for `write_examples`; also `gs://` and other schemes that TensorFlow can open. With
            several machines, all of them have to reach these paths.
        tokenizer: A `BertTokenizer` or a vocabulary.
        options: The runner's options; `None` runs on the local machine.
        **settings: `sequence_length`, `pairs`, `seed` and so on, as for `write_examples`.

    Example:
        ```python
        write_examples_with_beam("corpus/*.txt", "examples", "vocab.txt", sequence_length=128)
        ```
    """
    import tensorflow as tf

    settings = Settings(**settings)
    tokenizer, paths, directory = as_tokenizer(tokenizer), find_files(files), os.fspath(output_directory)
    description = describe(tokenizer, settings, paths)
    tf.io.gfile.makedirs(directory)
    there = read_json(join(directory, FILE))
    if there is not None and (differences := find_differences(there, description)):
        raise CorpusError(
            f"{directory} holds examples made in another way ({'; '.join(differences)}); pass another directory."
        )
    groups = group_files(paths, settings.shard_bytes)
    with beam.Pipeline(options=options or PipelineOptions([])) as pipeline:
        _ = (
            pipeline
            | "groups of files" >> beam.Create(range(len(groups)))
            | "units" >> beam.FlatMap(lambda group: read_units(groups, group, settings.shard_bytes))
            | "to all workers" >> beam.Reshuffle()
            | "shards" >> beam.ParDo(_MakeShard(tokenizer.get_config(), settings, directory))
            | "reports" >> beam.combiners.ToList()
            | "manifest" >> beam.Map(lambda reports: write_manifest(directory, description, reports) and None)
        )
    manifest = load_manifest(directory)
    warn_of_losses(manifest)
    return manifest


class _MakeShard(beam.DoFn):
    """Turns units into shards; each worker makes its own tokenizer."""

    def __init__(self, tokenizer_config: dict[str, Any], settings: Settings, directory: str) -> None:
        self.arguments = (tokenizer_config, settings, directory)

    def setup(self) -> None:
        from keras_bert.pretraining.corpus.shard_maker import ShardMaker
        from keras_bert.text.tokenizer import BertTokenizer

        config, settings, directory = self.arguments
        self.maker = ShardMaker.build(BertTokenizer.from_config(config), settings, directory)

    def process(self, unit: Unit) -> Iterator[dict[str, Any]]:
        yield self.maker.make(unit)


def main(arguments: list[str] | None = None) -> None:
    """Run the command at the top of this file."""
    parser = argparse.ArgumentParser(description="Turns text files into shards of BERT examples, on any Beam runner.")
    parser.add_argument("files", nargs="+")
    parser.add_argument("output_directory")
    parser.add_argument("--vocabulary", required=True)
    parser.add_argument("--keep_case", action="store_true", help="for a cased vocabulary")
    parser.add_argument("--pairs", choices=KINDS, default=Settings.pairs)
    for name in ("sequence_length", "duplicates", "seed", "shard_bytes"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Settings, name))
    parser.add_argument("--short_sequence_rate", type=float, default=Settings.short_sequence_rate)
    parser.add_argument("--text_field", default=Settings.text_field)
    parser.add_argument("--layout", choices=LAYOUTS, default=Settings.layout)
    known, rest = parser.parse_known_args(arguments)
    values = vars(known)
    from keras_bert.text.tokenizer import BertTokenizer

    tokenizer = BertTokenizer(values.pop("vocabulary"), lowercase=not values.pop("keep_case"))
    files, directory = values.pop("files"), values.pop("output_directory")
    print(write_examples_with_beam(files, directory, tokenizer, options=PipelineOptions(rest), **values))


if __name__ == "__main__":
    main()
