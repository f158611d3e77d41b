// What a .tflite file says of itself: vocabulary, labels and settings, in an uncompressed zip archive behind the model.
//
//     const { vocabulary, labels, about } = readMetadata(bytes);
//     about.signatures;  // { length_128: 128 }

const NOT_OURS = "expected a file that export.convert wrote from a task.";
const UNIGRAM = "sentencepiece.model"; // the only file that is no text
const MOST_FILES = 16;
const MOST_BYTES = 32 << 20; // of one file; a real vocabulary has 0.2 to 5 MB

/**
 * @param {Uint8Array} bytes The whole .tflite file.
 * @returns {{vocabulary: string[] | null, unigram: Uint8Array | null, labels: string[] | null, about: object}}
 *   A model has a vocabulary for WordPiece, or the file of a Unigram tokenizer. `about` is keras_bert_task.json: name, task,
 *   kind, tokenizer, signatures, outputs, settings.
 */
export function readMetadata(bytes) {
  const files = readFiles(bytes);
  const words = files.has(UNIGRAM) ? UNIGRAM : "vocab.txt";
  for (const name of ["keras_bert_task.json", words]) {
    if (!files.has(name)) throw new Error(`The model has no ${name}; ${NOT_OURS}`);
  }
  const about = JSON.parse(files.get("keras_bert_task.json"));
  if (about.format !== 1) throw new Error(`keras_bert_task.json has format ${about.format}; this page reads 1.`);
  const labels = files.has("labels.txt") ? readLines(files.get("labels.txt")) : null;
  if (words === UNIGRAM) return { vocabulary: null, unigram: files.get(UNIGRAM), labels, about };
  return { vocabulary: readLines(files.get(words)), unigram: null, labels, about };
}

function readLines(text) {
  return text.replace(/\n$/, "").split("\n");
}

/** The files behind a model, by name, as text; the Unigram model as bytes. */
export function readFiles(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = bytes.length - 22; // where the archive's last record begins, if no comment follows it
  if (end < 8 || view.getUint32(4, true) !== 0x334c4654) throw new Error("This is not a TFLite file, which has TFL3 at byte 4.");
  if (view.getUint32(end, true) !== 0x06054b50) {
    throw new Error(`There are no files behind the model: it was cut short, or written without metadata; ${NOT_OURS}`);
  }
  const count = view.getUint16(end + 10, true);
  if (count > MOST_FILES) throw new Error(`The archive claims ${count} files; ${NOT_OURS}`);
  const files = new Map();
  try {
    let at = view.getUint32(end + 16, true);
    for (let index = 0; index < count; index++) at = readEntry(bytes, view, at, files);
  } catch (error) {
    throw new Error(`The files behind the model are damaged: ${error.message}`);
  }
  return files;
}

/** Reads the file that a record of the archive's directory speaks of; gives the place of the next record. */
function readEntry(bytes, view, at, files) {
  if (view.getUint32(at, true) !== 0x02014b50) throw new Error("a record of the directory is missing");
  const [flags, method] = [view.getUint16(at + 8, true), view.getUint16(at + 10, true)];
  const [stored, size] = [view.getUint32(at + 20, true), view.getUint32(at + 24, true)];
  const nameLength = view.getUint16(at + 28, true);
  const name = decode(bytes, at + 46, nameLength);
  if (method !== 0 || flags & 1 || stored !== size || size > MOST_BYTES) throw new Error(`${name} is compressed or too large`);
  const local = view.getUint32(at + 42, true);
  const begin = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
  if (name === UNIGRAM && begin + size > bytes.length) throw new Error("a file reaches past the end");
  files.set(name, name === UNIGRAM ? bytes.subarray(begin, begin + size) : decode(bytes, begin, size));
  return at + 46 + nameLength + view.getUint16(at + 30, true) + view.getUint16(at + 32, true);
}

function decode(bytes, begin, size) {
  if (begin + size > bytes.length) throw new Error("a file reaches past the end");
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes.subarray(begin, begin + size));
}
