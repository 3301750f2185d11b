"use strict";
// Filters of the list of runs, and any two runs side by side. Texts of runs are only ever set as text.

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

function number(value) {
  if (value === 0 || !Number.isFinite(value)) return String(value);
  const size = Math.abs(value);
  if (size < 1e-4 || size >= 1e9) return value.toPrecision(3);
  const digits = Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(size))));
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

function quantity(value, unit) {
  if (unit === "1") return number(value);
  return unit === "1/s" ? `${number(value)}/s` : `${number(value)} ${unit}`;
}

function change(before, after) {
  if (!(before > 0)) return "\u2013";
  const ratio = after / before;
  if (ratio >= 2) return `\u00d7 ${number(ratio)}`;
  if (ratio <= 0.5 && ratio > 0) return `\u00d7 1/${number(1 / ratio)}`;
  const share = 100 * (ratio - 1);
  const text = Math.abs(share) < 9.95 ? share.toFixed(1) : share.toFixed(0);
  return `${share > 0 ? "+" : ""}${text} %`.replace("-", "\u2212");
}

function row(table, cells) {
  const line = table.tBodies[0].insertRow();
  const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  cells.forEach((text, index) => {
    const cell = line.insertCell();
    cell.textContent = text;
    cell.dataset.name = names[index];
    cell.className = table.tHead.rows[0].cells[index].className;
  });
}

function cellsMayHold(text) {
  return text.replace(/[\\|`*_[]/g, "\\$&").replace(/</g, "&lt;").replace(/@/g, "&#64;").replace(/\s+/g, " ");
}

function markdownTable(head, rows) {
  const lines = [`| ${head.join(" | ")} |`, `|${"---|".repeat(head.length)}`];
  return [...lines, ...rows.map((cells) => `| ${cells.map(cellsMayHold).join(" | ")} |`)].join("\n");
}

function filterRuns() {
  const form = document.getElementById("filters");
  const rows = [...document.querySelectorAll("#run-table tbody tr")];
  const button = document.getElementById("compare");
  const chosen = () => rows.filter((line) => line.querySelector("input").checked);
  const apply = () => {
    const words = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const line of rows) {
      const text = line.textContent.toLowerCase();
      line.hidden = !(
        words.every((word) => text.includes(word)) &&
        ["suite", "verdict"].every((name) => !form.elements[name].value || line.dataset[name] === form.elements[name].value) &&
        (!form.elements.volume.value || line.dataset.volumes.split("\n").includes(form.elements.volume.value))
      );
      count += line.hidden ? 0 : 1;
    }
    document.getElementById("count").textContent = `${count} runs`;
  };
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("run-table").addEventListener("change", () => { button.disabled = chosen().length !== 2; });
  button.addEventListener("click", () => {
    const [second, first] = chosen().map((line) => line.dataset.run); // the list begins with the latest
    location.href = `compare.html?a=${encodeURIComponent(first)}&b=${encodeURIComponent(second)}`;
  });
  apply();
}

const loaded = new Map();
function volbenchRun(run) { loaded.set(run.name, run); }

function load(name) {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = `data/${encodeURIComponent(name)}.js`;
    script.onload = () => (loaded.has(name) ? resolve(loaded.get(name)) : reject(new Error(name)));
    script.onerror = () => reject(new Error(name));
    document.head.append(script);
  });
}

function showPair(first, second) {
  const others = new Map(second.groups.map((group) => [`${group.identity}\n${group.metric}`, group]));
  const pairs = first.groups.map((group) => [group, others.get(`${group.identity}\n${group.metric}`)]).filter(([, other]) => other);
  pairs.sort(([a], [b]) => b.primary - a.primary);
  const results = pairs.map(([a, b]) => [
    a.identity, a.title, quantity(median(a.values), a.unit), quantity(median(b.values), b.unit),
    change(median(a.values), median(b.values)),
  ]);
  const names = [...new Set([...Object.keys(first.settings), ...Object.keys(second.settings)])].sort();
  const settings = names
    .map((name) => [name, first.settings[name] ?? "\u2013", second.settings[name] ?? "\u2013"])
    .filter(([, before, after]) => before !== after);
  const primary = pairs.filter(([a]) => a.primary).length;
  results.forEach((cells, index) => row(document.getElementById(index < primary ? "results" : "others"), cells));
  document.getElementById("others-title").textContent = `${results.length - primary} other metrics`;
  settings.forEach((cells) => row(document.getElementById("settings"), cells));
  document.getElementById("settings-title").textContent = `${settings.length} settings differ`;
  document.getElementById("command").textContent = `volbench compare results/${first.name} results/${second.name} --by run`;
  document.getElementById("compare-message").textContent = `before: ${first.name} \u00b7 after: ${second.name}`;
  document.getElementById("markdown").value = [
    `### volbench: ${cellsMayHold(second.name)} against ${cellsMayHold(first.name)}`, "",
    markdownTable(["", "metric", "before", "after", "change"], results.slice(0, primary)), "",
    `${settings.length} settings differ`, "",
    ...(settings.length ? [markdownTable(["setting", "before", "after"], settings)] : []),
  ].join("\n");
  document.getElementById("comparison").hidden = false;
}

if (document.getElementById("filters")) filterRuns();
if (document.getElementById("comparison")) {
  const query = new URLSearchParams(location.search);
  const [a, b] = [query.get("a"), query.get("b")];
  if (a && b) {
    Promise.all([load(a), load(b)]).then(
      ([first, second]) => showPair(first, second),
      (error) => { document.getElementById("compare-message").textContent = `There is no run ${error.message} in this site.`; },
    );
  }
}
