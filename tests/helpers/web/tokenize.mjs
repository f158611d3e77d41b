// Runs the page's tokenizer in plain Node.js: `node tokenize.mjs unicode_tables.json`, a request like wordpiece.json on stdin,
// the ids of each mode and text on stdout.

import { readFileSync } from "node:fs";

import { UnicodeTables, WordPiece } from "./wordpiece.js";

const tables = new UnicodeTables(JSON.parse(readFileSync(process.argv[2], "utf-8")));
const { vocabulary, modes, texts } = JSON.parse(readFileSync(0, "utf-8"));
const tokenizers = modes.map(({ rules }) => new WordPiece(vocabulary, tables, rules));
console.log(JSON.stringify(tokenizers.map((tokenizer) => texts.map((text) => tokenizer.tokenize(text)))));
