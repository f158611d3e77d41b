// The page: opens model.tflite (or ?model=other.tflite, or a file that the user picks) and shows what it says of a text.

import { loadLiteRt } from "@litertjs/core";

import { TextClassifier } from "./classify.js";

const element = (id) => document.getElementById(id);
const runtime = loadLiteRt(new URL("node_modules/@litertjs/core/wasm/", location.href).href);
const tables = fetchFile("unicode_tables.json").then((response) => response.json());
let classifier = null;

async function fetchFile(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url} is not beside the page (HTTP ${response.status}); the README says how to put it there.`);
  return response;
}

/** Opens a model; `read` gives the bytes of the file. */
async function open(name, read) {
  setReady(false);
  element("status").textContent = `Loading ${name} …`;
  try {
    await runtime;
    const opened = await TextClassifier.load(new Uint8Array(await read()), await tables);
    classifier?.model.delete();
    classifier = opened;
    element("status").textContent = `${name}: ${classifier.labels.length} labels, up to ${classifier.longest} tokens`;
  } catch (error) {
    element("status").textContent = `${name} cannot be used. ${error.message}`;
  }
  setReady(classifier !== null);
}

function setReady(isReady) {
  for (const id of ["text", "classify"]) element(id).disabled = !isReady;
}

async function showAnswer(text) {
  const begin = performance.now();
  const { labels, tokens, cut } = await classifier.classify(text);
  const milliseconds = performance.now() - begin;
  element("labels").replaceChildren(...labels.map(drawLabel));
  const spelled = tokens.length ? `Tokens: ${tokens.join(" ")}${cut ? " … (the rest was cut)" : ""}` : "No tokens.";
  element("details").textContent = `${milliseconds.toFixed(1)} ms. ${spelled}`;
}

function drawLabel({ name, probability }) {
  const item = document.createElement("li");
  item.dataset.probability = probability;
  item.style.setProperty("--probability", probability);
  for (const [part, text] of [["name", name], ["number", `${(100 * probability).toFixed(1)} %`]]) {
    const span = document.createElement("span");
    span.className = part;
    span.textContent = text; // a label comes from the file, so it is never read as HTML
    item.append(span);
  }
  return item;
}

element("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  setReady(false); // one text at a time
  try {
    await showAnswer(element("text").value);
  } catch (error) {
    element("status").textContent = `The model did not run: ${error.message}`;
  }
  setReady(true);
});

element("file").addEventListener("change", (event) => {
  const [file] = event.target.files;
  if (file) open(file.name, () => file.arrayBuffer());
});

const url = new URLSearchParams(location.search).get("model") ?? "model.tflite";
open(url, async () => (await fetchFile(url)).arrayBuffer());
