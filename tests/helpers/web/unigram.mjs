// Runs the page's Unigram tokenizer in plain Node.js: models in base64 and texts on stdin, the ids of each on stdout.

import { readFileSync } from "node:fs";

import { Unigram } from "./unigram.js";

const { models, texts } = JSON.parse(readFileSync(0, "utf-8"));
const tokenizers = models.map((model) => new Unigram(new Uint8Array(Buffer.from(model, "base64"))));
console.log(JSON.stringify(tokenizers.map((tokenizer) => texts.map((text) => tokenizer.tokenize(text)))));
