// A text classifier in the browser: the same answers as export.runtime's, from the same file.
//
//     await loadLiteRt("node_modules/@litertjs/core/wasm/");
//     const classifier = await TextClassifier.load(bytes, unicodeTables);
//     (await classifier.classify("What a lovely film!")).labels[0];  // { name: "positive", probability: 0.98 }

import { Tensor, loadAndCompile } from "@litertjs/core";

import { readMetadata } from "./metadata.js";
import { Unigram } from "./unigram.js";
import { UnicodeTables, WordPiece } from "./wordpiece.js";

const TINY = 2 ** -126; // the least float32 of full precision, so that no logarithm is infinite
const NEAREST_TO_ONE = 2 ** -24; // how near float32 comes to 1 from below

export class TextClassifier {
  /**
   * @param {Uint8Array} bytes A .tflite file that export.convert wrote from a TextClassifier, with fixed lengths.
   * @param {object} unicodeTables The content of unicode_tables.json.
   */
  static async load(bytes, unicodeTables) {
    const metadata = readMetadata(bytes);
    const { task, kind, signatures } = metadata.about;
    if (task !== "classification" || kind === "regression" || !metadata.labels) {
      throw new Error(`The model is for the task ${task}, kind ${kind}; this page runs classifiers with labels.`);
    }
    if (Object.values(signatures).includes(null)) {
      throw new Error("The model has a dynamic length, which LiteRT.js does not run; convert it with lengths=128.");
    }
    const model = await loadAndCompile(bytes, { accelerator: "wasm" });
    return new TextClassifier(model, metadata, unicodeTables);
  }

  constructor(model, { vocabulary, unigram, labels, about }, unicodeTables) {
    this.model = model;
    this.labels = labels;
    this.about = about;
    this.lengths = Object.entries(about.signatures).sort((a, b) => a[1] - b[1]); // shortest first
    this.longest = Math.min(this.lengths.at(-1)[1], about.settings.sequence_length ?? 512); // as the task was told
    this.tokenizer = unigram ? new Unigram(unigram) : new WordPiece(vocabulary, new UnicodeTables(unicodeTables), about.tokenizer);
    this.vocabulary = unigram ? this.tokenizer.vocabulary : vocabulary;
    const special = unigram ? ["<pad>", "<s>", "</s>"] : ["[PAD]", "[CLS]", "[SEP]"];
    [this.padId, this.clsId, this.sepId] = special.map((token) => this.tokenizer.ids.get(token));
  }

  /** All labels with their probabilities, the likeliest first; the tokens that the model saw; and whether some were cut. */
  async classify(text) {
    const ids = this.tokenizer.tokenize(text);
    const rows = this.rows(ids);
    const probabilities = [];
    for (const row of rows) probabilities.push(await this.run(row));
    const joined = rows.length === 1 ? probabilities[0] : joinWindows(probabilities, this.about.kind);
    const labels = this.labels.map((name, index) => ({ name, probability: joined[index] }));
    labels.sort((a, b) => b.probability - a.probability);
    const cut = rows.length === 1 && rows[0].length < ids.length;
    return { labels, tokens: ids.slice(0, cut ? rows[0].length : undefined).map((id) => this.vocabulary[id]), cut };
  }

  /** What fits the longest signature; or overlapping windows, where the model was told to read long texts whole. */
  rows(ids) {
    const room = this.longest - 2;
    if (this.about.settings.long_texts !== "windows") return [ids.slice(0, room)];
    const stride = Math.min(room, Math.max(1, Math.floor(this.longest / 2)));
    const begins = [0];
    while (begins.at(-1) + room < ids.length) begins.push(begins.at(-1) + stride);
    return begins.map((begin) => ids.slice(begin, begin + room));
  }

  /** The probabilities of one row, through the shortest signature that it fits. */
  async run(ids) {
    const row = [this.clsId, ...ids, this.sepId];
    const [key, length] = this.lengths.find(([, most]) => row.length <= most);
    const fill = (value, make) => {
      const data = new Int32Array(length).fill(value);
      row.forEach((id, place) => (data[place] = make(id)));
      return new Tensor(data, [1, length]);
    };
    const inputs = { token_ids: fill(this.padId, (id) => id), segment_ids: fill(0, () => 0), padding_mask: fill(0, () => 1) };
    const outputs = await this.model.run(key, inputs); // by name: a file's inputs are in no fixed order
    const probabilities = Array.from(await outputs.probabilities.data());
    for (const tensor of [...Object.values(inputs), ...Object.values(outputs)]) tensor.delete(); // WebAssembly's memory
    return probabilities;
  }
}

/** The windows of a text share its answer by the mean of their logits. */
function joinWindows(rows, kind) {
  const isMulti = kind === "multi_label";
  const logit = (p) => Math.log(Math.max(p, TINY)) - (isMulti ? Math.log(Math.max(1 - p, NEAREST_TO_ONE)) : 0);
  const means = rows[0].map((_, label) => rows.reduce((sum, row) => sum + logit(row[label]), 0) / rows.length);
  if (isMulti) return means.map((mean) => 1 / (1 + Math.exp(-mean)));
  const most = Math.max(...means); // softmax; it loses the constant that it lost in each window
  const powers = means.map((mean) => Math.exp(mean - most));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}
