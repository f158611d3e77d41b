// The Unigram tokenizer of XLM-R and multilingual MiniLM: text → ids, equal to SentencePiece's.
//
// It reads the model that export.convert puts into a .tflite file, with its table of what characters become, and not the
// browser's Unicode.
//
//     const tokenizer = new Unigram(bytes);
//     tokenizer.tokenize("unable");  // [4, 5]

const NORMAL = 1, UNKNOWN = 2, BYTE = 6; // kinds of pieces
const SPACE = "\u2581"; // what stands for a space in a piece
const UNKNOWN_PENALTY = 10; // below the lowest score

/** SentencePiece's Unigram model. */
export class Unigram {
  /** @param {Uint8Array} bytes The file sentencepiece.model behind a model; ids are those of the file. */
  constructor(bytes) {
    const { pieces, trainer, normalizer } = parseModel(bytes);
    if ((trainer.get(3) ?? 1) !== 1) throw new Error("The model of SentencePiece is not of the kind Unigram.");
    this.vocabulary = pieces.map(({ token }) => token);
    this.ids = new Map(this.vocabulary.map((token, id) => [token, id]));
    this.unknown = pieces.findIndex(({ kind }) => kind === UNKNOWN);
    if (this.unknown < 0) throw new Error("The model of SentencePiece has no unknown token.");
    this.scores = Float32Array.from(pieces, ({ score }) => score);
    this.bytes = pieces.some(({ kind }) => kind === BYTE) ? new Map() : null;
    this.prefixes = new Map(); // every beginning of a piece, with the id of the piece that ends there, or -1
    let lowest = 0;
    pieces.forEach(({ token, score, kind }, id) => {
      if (kind === BYTE) this.bytes.set(parseInt(token.slice(3, 5), 16), id);
      if (kind !== NORMAL) return;
      lowest = Math.min(lowest, score);
      for (let end = 1; end < token.length; end++) {
        if (!this.prefixes.has(token.slice(0, end))) this.prefixes.set(token.slice(0, end), -1);
      }
      this.prefixes.set(token, id);
    });
    this.unknownScore = Math.fround(lowest - UNKNOWN_PENALTY);
    this.map = new CharacterMap(normalizer.get(2) ?? new Uint8Array(0));
    this.addPrefix = (normalizer.get(3) ?? 1) !== 0;
    this.stripSpaces = (normalizer.get(4) ?? 1) !== 0;
  }

  /** The ids of a text, without special tokens; "</s>" in a text is text. */
  tokenize(text) {
    const ids = [];
    let wasUnknown = false;
    for (const [id, piece] of this.cut(this.normalize(text))) {
      const isUnknown = id === this.unknown;
      if (isUnknown && this.bytes) new TextEncoder().encode(piece).forEach((byte) => ids.push(this.bytes.get(byte)));
      else if (!(isUnknown && wasUnknown)) ids.push(id); // unknown characters side by side are one token
      wasUnknown = isUnknown;
    }
    return ids;
  }

  /** The text after replacing characters, with SPACE for spaces. */
  normalize(text) {
    const chars = Array.from(text).filter((char) => !/^[\ud800-\udfff]$/.test(char)); // half a pair is no character
    let normalized = "", afterSpace = this.stripSpaces;
    for (let place = 0; place < chars.length; ) {
      let [replaced, size] = this.map.replace(chars, place);
      if (afterSpace) replaced = replaced.replace(/^ +/, "");
      if (replaced) afterSpace = this.stripSpaces && replaced.endsWith(" ");
      normalized += replaced.replaceAll(" ", SPACE);
      place += size;
    }
    if (!normalized && (this.stripSpaces || !chars.length)) return "";
    if (this.addPrefix) normalized = SPACE + normalized;
    return this.stripSpaces ? normalized.replace(/\u2581+$/, "") : normalized;
  }

  /** The pieces on the best path, as pairs of id and text. Each sum is rounded to float32, as SentencePiece does. */
  cut(text) {
    const best = new Float32Array(text.length + 1);
    const cameFrom = new Int32Array(text.length + 1).fill(-1), pieces = new Int32Array(text.length + 1);
    const improve = (start, end, score, id) => {
      if (cameFrom[end] >= 0 && score <= best[end]) return;
      [best[end], cameFrom[end], pieces[end]] = [score, start, id];
    };
    for (let start = 0; start < text.length; ) {
      const next = start + (text.codePointAt(start) > 0xffff ? 2 : 1);
      let isKnown = false;
      for (let end = start + 1; end <= text.length; end++) {
        const id = this.prefixes.get(text.slice(start, end));
        if (id === undefined) break;
        if (id < 0) continue;
        improve(start, end, best[start] + this.scores[id], id);
        if (end === next) isKnown = true;
      }
      if (!isKnown) improve(start, next, Math.fround(best[start] + this.unknownScore), this.unknown);
      start = next;
    }
    const path = [];
    for (let end = text.length; end > 0; end = cameFrom[end]) path.push([pieces[end], text.slice(cameFrom[end], end)]);
    return path.reverse();
  }
}

/** What characters become: a trie of byte strings, of which the longest that fits is replaced (a double array). */
class CharacterMap {
  constructor(bytes) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const size = bytes.length ? view.getUint32(0, true) : 0;
    if (size % 4 || size > Math.max(0, bytes.length - 4)) throw new Error("The character map of the model is damaged.");
    this.units = Uint32Array.from({ length: size / 4 }, (_, index) => view.getUint32(4 + 4 * index, true));
    this.texts = bytes.subarray(4 + size);
  }

  /** What the longest known string at a place becomes, and how many characters it has. */
  replace(chars, place) {
    let found = [chars[place], 1];
    if (!this.units.length) return found;
    let node = offset(this.units[0]);
    for (let end = place; end < chars.length; end++) {
      let unit = 0;
      for (const byte of new TextEncoder().encode(chars[end])) {
        node ^= byte;
        if (node >= this.units.length || (this.units[node] & 0x800000ff) >>> 0 !== byte) return found;
        unit = this.units[node];
        node ^= offset(unit);
      }
      if ((unit >>> 8) & 1) {
        const begin = this.units[node] & 0x7fffffff;
        found = [new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.texts.subarray(begin, this.texts.indexOf(0, begin))), end - place + 1];
      }
    }
    return found;
  }
}

function offset(unit) {
  return (unit >>> 10) << ((unit & 0x200) >>> 6);
}

// === SentencePiece's file: Protocol Buffers ===

function parseModel(bytes) {
  const pieces = [];
  let trainer = new Map(), normalizer = new Map();
  for (const [number, value] of fields(bytes)) {
    if (number === 1) {
      const piece = new Map(fields(value));
      const token = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(piece.get(1));
      pieces.push({ token, score: piece.get(2) ?? 0, kind: piece.get(3) ?? NORMAL });
    } else if (number === 2) trainer = new Map(fields(value));
    else if (number === 3) normalizer = new Map(fields(value));
  }
  return { pieces, trainer, normalizer };
}

/** Number and value of each field of a message. */
function* fields(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const varint = () => {
    let value = 0, factor = 1, byte;
    do {
      byte = view.getUint8(at++);
      value += (byte & 0x7f) * factor;
      factor *= 128;
    } while (byte & 0x80);
    return value;
  };
  while (at < bytes.length) {
    const key = varint(), kind = key % 8;
    let value;
    if (kind === 2) {
      const size = varint();
      if (size > bytes.length - at) throw new Error("The model of SentencePiece is cut off.");
      value = bytes.subarray(at, (at += size));
    } else if (kind === 5) value = view.getFloat32((at += 4) - 4, true);
    else if (kind === 1) value = view.getFloat64((at += 8) - 8, true);
    else if (kind === 0) value = varint();
    else throw new Error("The model of SentencePiece is damaged.");
    yield [Math.floor(key / 8), value];
  }
}
