// Uses the page as a person does, in headless Chromium: reads a request as JSON from stdin, prints what was seen as JSON.
//
//     node drive_page.mjs <<< '{"chromium": "/usr/bin/chromium", "url": "http://localhost:8000/", "texts": ["Good."]}'
//
// With "files", they are picked one after the other as another model before the texts are typed.

import { readFileSync } from "node:fs";

import { chromium } from "playwright-core";

const request = JSON.parse(readFileSync(0, "utf-8"));
const quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];
const browser = await chromium.launch({
  executablePath: request.chromium,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", ...quiet],
});
try {
  const page = await browser.newPage();
  const seen = { statuses: [], answers: [], errors: [], outside: [] };
  page.on("pageerror", (error) => seen.errors.push(String(error)));
  page.on("request", (sent) => {
    const url = new URL(sent.url());
    if (url.origin !== new URL(request.url).origin && url.protocol.startsWith("http")) seen.outside.push(url.href);
  });
  const settle = async () => {
    await page.waitForFunction(() => !/^$|…$/.test(document.getElementById("status").textContent));
    seen.statuses.push(await page.textContent("#status"));
  };
  await page.goto(request.url);
  await settle();
  for (const file of request.files ?? []) {
    await page.evaluate(() => (document.getElementById("status").textContent = "…"));
    await page.setInputFiles("#file", file);
    await settle();
  }
  for (const text of request.texts) {
    await page.evaluate(() => (document.getElementById("details").textContent = ""));
    await page.fill("#text", text);
    await page.click("#classify");
    await page.waitForFunction(() => !document.getElementById("classify").disabled);
    const labels = await page.$$eval("#labels li", (items) =>
      items.map((item) => [item.querySelector(".name").textContent, Number(item.dataset.probability)]));
    seen.answers.push({ labels, details: await page.textContent("#details") });
  }
  seen.statuses.push(await page.textContent("#status"));
  if (request.screenshot) await page.screenshot({ path: request.screenshot });
  console.log(JSON.stringify(seen));
} finally {
  await browser.close();
}
