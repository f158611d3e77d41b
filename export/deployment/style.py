"""The style sheet of a report page: light and dark, screen and print."""

STYLE = """
:root { --ink: #16202a; --soft: #5b6875; --line: #dfe5ea; --paper: #ffffff; --wash: #f5f7f9; --accent: #0f6fb4;
  --good: #1b7f4b; --bad: #b3372b; --quantize: #7a8794; --trim: #b8860b; --layers: #8e5bb5; --distill: #0f6fb4;
  --qat: #c2410c; --heat: 15, 111, 180; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ebf0; --soft: #9aa8b5; --line: #2d3741; --paper: #12181e;
  --wash: #1a222a; --accent: #5cb0ea; --good: #4cc38a; --bad: #f07f73; --quantize: #93a1ae; --trim: #e0b04a;
  --layers: #b990dc; --distill: #5cb0ea; --qat: #f0945a; --heat: 92, 176, 234; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
main { max-width: 1020px; margin: 0 auto; padding: 40px 24px 64px; }
h1 { font-size: 26px; line-height: 1.25; margin: 0 0 6px; letter-spacing: -0.01em; }
h2 { font-size: 18px; margin: 44px 0 10px; padding-top: 18px; border-top: 1px solid var(--line); }
p { margin: 6px 0 10px; max-width: 78ch; }
.soft, figcaption { color: var(--soft); font-size: 13.5px; }
.verdict { font-size: 16px; font-weight: 600; }
.verdict.good { color: var(--good); } .verdict.bad { color: var(--bad); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 22px 0 10px; }
.card { background: var(--wash); border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px; }
.card b { display: block; font-size: 25px; line-height: 1.2; letter-spacing: -0.02em; }
.card span { color: var(--soft); font-size: 13px; }
.notes { border-left: 3px solid var(--accent); background: var(--wash); padding: 10px 16px; }
.notes li { margin: 3px 0; } .notes ul { margin: 0; padding-left: 18px; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); gap: 16px; }
figure { margin: 0; } svg { width: 100%; height: auto; display: block; }
svg text { font: 11px system-ui, sans-serif; fill: var(--soft); } svg .name { font-weight: 600; fill: var(--ink); }
.grid { stroke: var(--line); stroke-width: 1; }
.teacher { stroke: var(--soft); stroke-width: 1; }
.budget { stroke: var(--bad); stroke-width: 1; stroke-dasharray: 5 4; }
svg .budget-name { fill: var(--bad); }
.front { fill: none; stroke: var(--accent); stroke-width: 1.5; opacity: 0.45; }
.dot { stroke: var(--paper); stroke-width: 1.5; } .ring { fill: none; stroke: var(--ink); stroke-width: 2; }
.line { fill: none; stroke-width: 2; }
.quantize { fill: var(--quantize); } .trim { fill: var(--trim); } .layers { fill: var(--layers); }
.distill { fill: var(--distill); } .qat { fill: var(--qat); }
.line.quantize { stroke: var(--quantize); fill: none; } .line.distill { stroke: var(--distill); fill: none; }
.legend { display: flex; flex-wrap: wrap; gap: 6px 18px; font-size: 13px; color: var(--soft); margin: 8px 0; }
.legend i { display: inline-block; width: 10px; height: 10px; border-radius: 50%; margin-right: 6px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13.5px; }
.rows { width: 100%; }
.rows th { text-align: left; color: var(--soft); font-weight: 600; padding: 6px 10px; }
.rows tr:first-child th { border-bottom: 2px solid var(--line); }
.rows td { border-bottom: 1px solid var(--line); padding: 6px 10px; vertical-align: top; }
.rows .number { text-align: right; white-space: nowrap; }
.rows tr.chosen td { background: var(--wash); font-weight: 600; }
.rows tr.off td { color: var(--soft); } .rows .failed { color: var(--bad); }
.rows i { display: inline-block; width: 9px; height: 9px; border-radius: 50%; margin-right: 7px; }
i.quantize { background: var(--quantize); } i.trim { background: var(--trim); } i.layers { background: var(--layers); }
i.distill { background: var(--distill); } i.qat { background: var(--qat); }
.front-mark { color: var(--accent); font-weight: 600; }
.tables { display: flex; flex-wrap: wrap; gap: 28px 40px; align-items: flex-start; }
.rows.short { width: auto; } caption { text-align: left; font-weight: 600; padding-bottom: 6px; }
.confusion th { font-weight: 500; color: var(--soft); padding: 2px 8px; text-align: right; white-space: nowrap; }
.confusion td { min-width: 44px; height: 34px; text-align: center; border: 1px solid var(--paper);
  background: rgba(var(--heat), calc(0.06 + 0.94 * var(--share))); }
.confusion td.dark { color: var(--paper); }
.confusion.many { font-size: 11px; } .confusion.many td { min-width: 24px; height: 22px; padding: 0 2px; }
.confusion.many tr:first-child th { vertical-align: bottom; padding: 0 0 4px; }
.confusion.many tr:first-child span { writing-mode: vertical-rl; transform: rotate(180deg); }
.ops { display: flex; flex-wrap: wrap; gap: 6px; font-size: 12.5px; }
.ops span { background: var(--wash); border: 1px solid var(--line); border-radius: 6px; padding: 2px 9px; }
pre { background: var(--wash); border: 1px solid var(--line); border-radius: 8px; padding: 12px 14px; overflow-x: auto;
  font: 13px/1.5 ui-monospace, "SFMono-Regular", Menlo, Consolas, "DejaVu Sans Mono", monospace; margin: 6px 0 16px; }
h3 { font-size: 15px; margin: 16px 0 4px; }
code { font: 13px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
footer { margin-top: 48px; color: var(--soft); font-size: 13px; border-top: 1px solid var(--line); padding-top: 14px; }
@media print { main { max-width: none; padding: 0; } h2 { break-after: avoid; } figure, table { break-inside: avoid; } }
"""
