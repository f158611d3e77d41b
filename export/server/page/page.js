// The page of a server: fields for the task's inputs, and its answers drawn. Texts are only ever set as text, never as HTML.
"use strict";

const at = (id) => document.getElementById(id);
const SAMPLES = {
  text: "What a lovely film!",
  pair: "Nobody liked it.",
  question: "Where does the train go?",
  context: "The train to Malmö leaves at nine from platform two.",
  choices: "It takes an umbrella.\nIt sings a song.",
};
const ROWS = { context: 5, choices: 4, text: 3 };

let about = null;

// === Drawing ===

function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

const percent = (share) => `${(100 * share).toFixed(share > 0.0995 || share === 0 ? 0 : 1)}%`;

function bars(rows) {
  return rows.slice(0, 20).map(([label, share]) => {
    const fill = make("div", "fill");
    fill.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
    const track = make("div", "track", fill);
    return make("div", "bar", make("span", "label", label), track, make("span", "share", percent(share)));
  });
}

// A colour for each label, the same every time.
const hue = (label) => [...label].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 360, 200);

// Places count characters as Python does, so that an emoji is one.
function marked(text, spans) {
  const characters = Array.from(text);
  const parts = [];
  let done = 0;
  for (const span of [...spans].sort((a, b) => a.start - b.start)) {
    if (span.start < done || span.end <= span.start) continue;
    parts.push(characters.slice(done, span.start).join(""));
    const mark = make("mark", "", characters.slice(span.start, span.end).join(""));
    mark.style.setProperty("--hue", hue(span.label));
    mark.append(make("small", "", `${span.label} ${percent(span.probability)}`));
    parts.push(mark);
    done = span.end;
  }
  return make("p", "text", ...parts, characters.slice(done).join(""));
}

const big = (words) => make("p", "big", words);
const note = (words) => make("p", "note", words);

function cosine(first, second) {
  let product = 0, one = 0, other = 0;
  for (let index = 0; index < first.length; index += 1) {
    product += first[index] * second[index];
    one += first[index] ** 2;
    other += second[index] ** 2;
  }
  return product / Math.sqrt(one * other);
}

const DRAWINGS = {
  tagging: ([found], [text]) => [marked(text, found), note(found.length ? `${found.length} found` : "Nothing found.")],
  intent_slots: ([command], [text]) => [
    ...bars([[command.intent, command.probability]]), marked(text, command.slots),
  ],
  question_answering: ([answer], [, context]) => [
    big(answer.text || "No answer in this text."),
    marked(context, answer.text ? [{ ...answer, label: "answer" }] : []),
  ],
  aspect: ([answer]) => bars([[`${answer.aspect}: ${answer.label}`, answer.probability]]),
  multiple_choice: ([ranked]) => bars(ranked.map((choice) => [choice.text, choice.probability])),
  seq2seq: ([written]) => [make("p", "text", written)],
  similarity: ([first, second]) => [
    big(`cosine ${cosine(first, second).toFixed(3)}`), note(`Each text is a vector of ${first.length} numbers.`),
  ],
};

function draw(answers, texts) {
  const answer = answers[0];
  if (about.task in DRAWINGS) return DRAWINGS[about.task](answers, texts);
  if (typeof answer === "number") return [big(answer.toFixed(3))];
  if (Array.isArray(answer) && answer.every((one) => one && "name" in one && "probability" in one)) {
    return answer.length ? bars(answer.map((one) => [one.name, one.probability])) : [note("No label.")];
  }
  return [make("pre", "", JSON.stringify(answer, null, 1))];
}

// === Asking ===

function fieldNames() {
  if (about.task === "similarity") return ["text", "pair"];
  if (about.task === "multiple_choice") return ["context", "choices"];
  return Object.values(about.forms)[0];
}

function inputs(texts) {
  if (about.task === "similarity") return texts;
  if (about.task === "multiple_choice") return [[texts[0], texts[1].split("\n").filter((line) => line.trim())]];
  return [texts.length === 1 ? texts[0] : Object.fromEntries(fieldNames().map((name, row) => [name, texts[row]]))];
}

function say(words, isBad = false) {
  at("state").textContent = words;
  at("state").className = isBad ? "bad" : "";
}

async function ask(event) {
  event.preventDefault();
  const texts = [...document.querySelectorAll("#fields textarea")].map((field) => field.value);
  const address = `v1/models/${encodeURIComponent(about.name)}:answer`;
  const body = JSON.stringify({ inputs: inputs(texts) });
  at("curl").textContent = `curl ${new URL(address, location.href).href} \\\n  -d '${body.replaceAll("'", "'\\''")}'`;
  at("ask").disabled = true;
  say("…");
  try {
    const start = performance.now();
    const response = await fetch(address, { method: "POST", headers: { "content-type": "application/json" }, body });
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.error || `The server answered ${response.status}.`);
    at("answer").replaceChildren(...draw(answer.answers, texts));
    say(`${(performance.now() - start).toFixed(0)} ms`);
  } catch (error) {
    at("answer").replaceChildren();
    say(error.message || "The server cannot be reached.", true);
  } finally {
    at("ask").disabled = false;
  }
}

// A link such as /#text=A%20film fills the fields and asks. What follows # is never sent to a server as an address.
function askGiven() {
  const given = new URLSearchParams(location.hash.slice(1));
  const fields = [...document.querySelectorAll("#fields textarea")].filter((field) => given.has(field.name));
  for (const field of fields) field.value = given.get(field.name);
  if (fields.length) at("form").requestSubmit();
}

async function begin() {
  try {
    about = await (await fetch("about.json")).json();
  } catch {
    return say("The server cannot be reached.", true);
  }
  document.title = about.name;
  at("name").textContent = about.name;
  const labels = about.labels ? ` · ${about.labels.length} labels` : "";
  at("facts").textContent = `${about.task.replaceAll("_", " ")} · version ${about.version} · up to ${about.tokens} tokens${labels}`;
  at("metadata").href = `v1/models/${encodeURIComponent(about.name)}/metadata`;
  const samples = { ...SAMPLES, ...(about.task === "relation" ? { text: "The <e1>child</e1> lay in the <e2>cradle</e2>." } : {}) };
  if (about.task === "aspect") Object.assign(samples, { text: "Great pizza, slow service.", pair: "pizza" });
  for (const name of fieldNames()) {
    const field = make("textarea");
    field.name = name;
    field.rows = ROWS[name] || 2;
    field.value = samples[name] || "";
    const title = name === "choices" ? "choices, one a line" : name;
    at("fields").append(make("label", "", make("span", "", title), field));
  }
  // Enter asks; with Shift it is a new line.
  at("fields").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && event.target.name !== "choices") {
      event.preventDefault();
      at("form").requestSubmit();
    }
  });
  at("form").addEventListener("submit", ask);
  return askGiven();
}

begin();
