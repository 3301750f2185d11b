"use strict";
/** The report's timelines: which step, repeat and volumes the charts show, and the moments that findings speak of. */
(async () => {
  if (!Packed.isAble) {
    document.getElementById("timelines").append("This browser cannot unpack the timelines: it is older than 2023.");
    return;
  }
  const data = await Packed.unpack(document.getElementById("timeline-data").textContent);
  for (const cell of data.cells) cell.grids = cell.grids_ms.map(times);
  const WHOLE = "";
  const [STALL_ALPHA, UNMEASURED_ALPHA] = [0.3, 0.13];
  const { element, number } = LineCharts;

  /** Times in seconds, from the first one and the steps to the next in ms. */
  function times(steps) {
    let ms = 0;
    return steps.map((step) => (ms += step) / 1000);
  }

  const byId = (id) => document.getElementById(id);
  const shown = { step: WHOLE, repeat: 1, volumes: new Set(data.volumes.keys()) };
  const charts = LineCharts.create(data.panels, LineCharts.elapsed("s"));

  const cellOf = (volume) => data.cells.find((c) => c.volume === volume && c.repeat === shown.repeat);
  const windowOf = (cell) => cell && cell.windows.find(([step]) => step === shown.step);
  const shownCells = () => [...shown.volumes].map(cellOf).filter((cell) => extent(cell));

  /** What part of a cell is shown, and which of its seconds is 0 on the axis. */
  function extent(cell) {
    if (!cell) return null;
    if (shown.step === WHOLE) return { zero: 0, from: 0, to: cell.length };
    const found = windowOf(cell);
    return found ? { zero: found[2], from: found[1], to: found[3] } : null;
  }

  function curve(volume, key) {
    const cell = cellOf(volume);
    const part = extent(cell);
    const line = cell && cell.lines[key];
    const made = { x: [], y: [], bars: { x: [], low: [], high: [] } };
    if (!part || !line) return made;
    const [grid, values, low, high] = line;
    cell.grids[grid].forEach((t, i) => {
      if (t <= part.from || t > part.to + 1e-6) return;
      made.x.push(t - part.zero);
      made.y.push(values[i]);
      if (low && low[i] !== null) {
        made.bars.x.push(t - part.zero);
        made.bars.low.push(low[i]);
        made.bars.high.push(high[i]);
      }
    });
    return made;
  }

  function fill() {
    const lines = data.panels.flatMap((panel) =>
      panel.lines.flatMap(([line]) =>
        [...shown.volumes].sort((a, b) => a - b).map((volume) =>
          ({ panel: panel.key, line, group: volume, name: data.volumes[volume], ...curve(volume, `${panel.key}.${line}`) }))));
    charts.fill({
      lines,
      bands: bands(),
      range: timeRange(),
      measured: (x) => shown.step === WHOLE || x > 0,
      rest: shown.step === WHOLE ? "medians of the whole cell" : "medians of the measured time",
      marks,
      painted: () => { listMarks(); tellChoice(); },
    });
  }

  /** From the first to the last second of what is chosen. */
  function timeRange() {
    const parts = shownCells().map(extent);
    const start = parts.length ? Math.min(...parts.map((p) => p.from - p.zero)) : 0;
    const end = parts.length ? Math.max(...parts.map((p) => p.to - p.zero)) : 1;
    return [start, end];
  }

  /** Stretches of the axis: what was not measured, and where a volume stalled. */
  function bands() {
    const found = [];
    const [first] = shownCells();
    if (first) {
      const part = extent(first);
      let before = part.from;
      for (const [step, , t0, t1] of first.windows) {
        if (shown.step !== WHOLE && step !== shown.step) continue;
        if (t0 > before) found.push({ from: before - part.zero, to: t0 - part.zero, group: null, alpha: UNMEASURED_ALPHA });
        before = t1;
      }
    }
    for (const cell of shownCells()) {
      const part = extent(cell);
      for (const [from, to] of cell.stalls)
        if (to > part.from && from < part.to) found.push({ from: from - part.zero, to: to - part.zero, group: cell.volume, alpha: STALL_ALPHA });
    }
    return found;
  }

  /** Moments that findings speak of, of the cells that are shown, numbered in order of time. */
  function marks() {
    const found = shownCells().flatMap((cell) => {
      const part = extent(cell);
      return cell.moments
        .filter(([t]) => t >= part.from && t <= part.to)
        .map(([t, text, finding]) => ({ x: t - part.zero, cell: t, text, finding, group: cell.volume }));
    });
    found.sort((a, b) => a.x - b.x);
    const [from, to] = charts.shown();
    let row = 0;
    return found.map((mark, index) => {
      const close = index > 0 && mark.x - found[index - 1].x < 0.03 * (to - from);
      row = close ? (row + 1) % 4 : 0; // numbers of lines that lie together stand one below the other
      return { ...mark, number: `${index + 1}`, row };
    });
  }

  /** The list that says what the charts' numbered lines are, with links to the findings. */
  function listMarks() {
    const found = marks();
    const tenths = (seconds) => number(Math.round(seconds * 10) / 10 || 0); // never -0
    byId("marks").replaceChildren(...found.map((mark) => {
      const name = element("b", { className: `v${mark.group % 6}`, textContent: data.volumes[mark.group] });
      const text = mark.finding < 0 ? mark.text : element("a", { href: `#finding-${mark.finding}`, textContent: mark.text });
      const when = shown.step === WHOLE ? "" : ` (second ${tenths(mark.cell)} of the cell)`;
      return element("li", {}, `${tenths(mark.x)} s${when}: `, name, " ", text);
    }));
    byId("marks").hidden = !found.length;
  }

  /** For paper, which has no controls. */
  function tellChoice() {
    const [from, to] = charts.shown();
    const named = shownCells().map((cell) => `${data.volumes[cell.volume]}: cell ${cell.id}${cell.valid ? "" : " (invalid)"}`);
    byId("printed-choice").textContent =
      `${shown.step === WHOLE ? "The whole cell" : `Step ${shown.step}`}, repeat ${shown.repeat} (${named.join("; ")}); ` +
      `${number(from)} s to ${number(to)} s, 0 is the begin of ${shown.step === WHOLE ? "the cell" : "the measured time"}.`;
  }

  function controls() {
    const steps = [...new Set(data.cells.flatMap((cell) => cell.windows.map(([step]) => step)))];
    const pickStep = byId("pick-step");
    pickStep.append(...steps.map((step) => element("option", { value: step, textContent: step })));
    pickStep.append(element("option", { value: WHOLE, textContent: "the whole cell" }));
    shown.step = steps.includes(data.step) ? data.step : steps.length ? steps[0] : WHOLE;
    pickStep.value = shown.step;
    pickStep.onchange = () => { shown.step = pickStep.value; fill(); };

    const pickRepeat = byId("pick-repeat");
    for (const repeat of [...new Set(data.cells.map((cell) => cell.repeat))].sort((a, b) => a - b)) {
      const bad = data.cells.filter((cell) => cell.repeat === repeat && !cell.valid).map((cell) => data.volumes[cell.volume]);
      const text = bad.length ? `${repeat} (invalid: ${bad.join(", ")})` : `${repeat}`;
      pickRepeat.append(element("option", { value: repeat, textContent: text }));
    }
    const sound = data.cells.map((c) => c.repeat).find((r) => data.cells.every((c) => c.repeat !== r || c.valid));
    shown.repeat = sound === undefined ? Math.min(...data.cells.map((cell) => cell.repeat)) : sound;
    pickRepeat.value = shown.repeat;
    pickRepeat.onchange = () => { shown.repeat = Number(pickRepeat.value); fill(); };

    data.volumes.forEach((name, volume) => {
      const box = element("input", { type: "checkbox", checked: true, name: "volume", value: volume });
      box.onchange = () => { box.checked ? shown.volumes.add(volume) : shown.volumes.delete(volume); fill(); };
      const sign = data.volumes.length > LineCharts.HUES ? [element("span", { className: "glyph", textContent: LineCharts.glyph(volume) })] : [];
      const label = element("span", { className: `volume v${volume % 6}` }, ...sign, name);
      byId("pick-volumes").append(element("label", {}, box, " ", label));
    });
    byId("zoom-out").onclick = charts.zoomOut;
    for (const link of document.querySelectorAll("a.to-chart")) link.addEventListener("click", () => show(link.dataset));
    byId("controls").onsubmit = (event) => event.preventDefault();
  }

  /** The step and the cell that a finding is about. */
  function show({ step, cell: id }) {
    const cell = data.cells.find((one) => one.id === id);
    if (!cell) return;
    const known = cell.windows.map(([name]) => name);
    shown.step = known.includes(step) ? step : known.find((name) => name.startsWith(`${step}/`)) ?? WHOLE;
    shown.repeat = cell.repeat;
    shown.volumes.add(cell.volume);
    byId("pick-step").value = shown.step;
    byId("pick-repeat").value = shown.repeat;
    document.querySelector(`#pick-volumes input[value="${cell.volume}"]`).checked = true;
    fill();
  }

  controls();
  fill();
  charts.start();
  globalThis.timelines = charts;
})();
