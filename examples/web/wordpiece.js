// BERT's tokenizer: text → ids, equal to the original's on every character.
//
// What happens to a character is read from unicode_tables.json, the tables of keras_bert, and not from the browser: engines
// follow Unicode from version to version, and a model has to see the tokens that it was trained on.
//
//     const tables = new UnicodeTables(await (await fetch("unicode_tables.json")).json());
//     const tokenizer = new WordPiece(["[UNK]", "un", "##able"], tables);
//     tokenizer.tokenize("Unable");  // [1, 2]

const DROP = 1, SPACE = 2, CJK = 4, PUNCTUATION = 8, MARK = 16;
const CODE_POINTS = 0x110000;
const LONGEST_WORD = 100; // characters; a longer word is one unknown token
const BLANK = 0x20;

/** What the original BERT takes each character for. */
export class UnicodeTables {
  /** @param {object} data The content of unicode_tables.json. */
  constructor(data) {
    this.flags = new Uint8Array(CODE_POINTS); // a sum of the constants above, for each code point
    const names = { drop: DROP, space: SPACE, cjk: CJK, punctuation: PUNCTUATION, mark: MARK };
    for (const [name, flag] of Object.entries(names)) {
      for (const [first, last] of readRanges(data[name])) {
        for (let code = first; code <= last; code++) this.flags[code] |= flag;
      }
    }
    this.rank = new Map(); // combining class, as its place among the classes; starters are not in here
    data.combining_class.forEach((group, index) => {
      for (const [first, last] of readRanges(group)) {
        for (let code = first; code <= last; code++) this.rank.set(code, index + 1);
      }
    });
    this.lower = readMapping(data.lower);
    this.decomposition = readMapping(data.decomposition);
  }

  /** The canonical decomposition of a code point. */
  decompose(code) {
    if (code >= 0xac00 && code < 0xd7a4) { // Hangul syllables: by arithmetic, the same in every version of Unicode
      return Array.from(String.fromCodePoint(code).normalize("NFD"), (char) => char.codePointAt(0));
    }
    return this.decomposition.get(code) ?? [code];
  }
}

/** BERT's WordPiece. */
export class WordPiece {
  /**
   * @param {string[]} vocabulary The tokens in the order of their ids, "[UNK]" among them.
   * @param {UnicodeTables} tables
   * @param {object} rules As in Hugging Face's tokenizer_config.json; where strip_accents is null, do_lower_case decides.
   */
  constructor(vocabulary, tables, { do_lower_case = true, strip_accents = null, tokenize_chinese_chars = true } = {}) {
    this.ids = new Map(vocabulary.map((token, id) => [token, id]));
    if (!this.ids.has("[UNK]")) throw new Error(`The ${vocabulary.length} tokens have no [UNK]; expected BERT's vocabulary.`);
    this.longest = vocabulary.reduce((most, token) => Math.max(most, token.length), 0);
    this.tables = tables;
    this.lowercase = do_lower_case;
    this.stripAccents = strip_accents ?? do_lower_case;
    this.splitCjk = tokenize_chinese_chars;
  }

  /** The ids of a text, without special tokens; "[SEP]" in a text is text. */
  tokenize(text) {
    return this.words(this.normalize(text)).flatMap((word) => this.pieces(word));
  }

  /** Code points after cleaning: no control characters, spaces around CJK, no accents, lowercase. */
  normalize(text) {
    const { flags, lower } = this.tables;
    let codes = [];
    for (const char of text) {
      const code = char.codePointAt(0);
      if (flags[code] & DROP || (code >= 0xd800 && code < 0xe000)) continue; // half a surrogate pair is no character
      const parts = this.stripAccents ? this.tables.decompose(code) : [code];
      if (flags[code] & SPACE) codes.push(BLANK);
      else if (flags[code] & CJK && this.splitCjk) codes.push(BLANK, ...parts, BLANK);
      else codes.push(...parts);
    }
    if (this.stripAccents) codes = orderMarks(codes, this.tables.rank).filter((code) => !(flags[code] & MARK));
    return this.lowercase ? codes.flatMap((code) => lower.get(code) ?? code) : codes;
  }

  /** Words, each an array of characters; a punctuation mark is a word. */
  words(codes) {
    const words = [];
    let word = [];
    const close = () => {
      if (word.length) words.push(word);
      word = [];
    };
    for (const code of codes) {
      const isPunctuation = this.tables.flags[code] & PUNCTUATION;
      if (code === BLANK || isPunctuation) close();
      if (code !== BLANK) word.push(String.fromCodePoint(code));
      if (isPunctuation) close();
    }
    close();
    return words;
  }

  /** The ids of a word: the longest piece that the vocabulary has, then the longest of the rest with ## before it. */
  pieces(word) {
    const unknown = [this.ids.get("[UNK]")];
    if (word.length > LONGEST_WORD) return unknown;
    const ids = [];
    for (let start = 0; start < word.length; ) {
      let end = Math.min(word.length, start + this.longest);
      const spell = () => (start ? "##" : "") + word.slice(start, end).join("");
      while (end > start && !this.ids.has(spell())) end--;
      if (end === start) return unknown;
      ids.push(this.ids.get(spell()));
      start = end;
    }
    return ids;
  }
}

/** Canonical ordering: neighbouring marks by their class. */
function orderMarks(codes, rank) {
  for (let start = 0; start < codes.length; start++) {
    let end = start;
    while (end < codes.length && rank.has(codes[end])) end++;
    if (end - start > 1) {
      const run = codes.slice(start, end).sort((a, b) => rank.get(a) - rank.get(b)); // stable
      codes.splice(start, run.length, ...run);
    }
    start = end;
  }
  return codes;
}

/** "41-5a 61" → [[0x41, 0x5a], [0x61, 0x61]] */
function readRanges(text) {
  return text.split(" ").map((item) => {
    const [first, last = first] = item.split("-");
    return [parseInt(first, 16), parseInt(last, 16)];
  });
}

/** "c0:41+300" → a map from 0xc0 to [0x41, 0x300] */
function readMapping(text) {
  const pairs = text.split(" ").map((item) => item.split(":"));
  return new Map(pairs.map(([code, parts]) => [parseInt(code, 16), parts.split("+").map((part) => parseInt(part, 16))]));
}
