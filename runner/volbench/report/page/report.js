"use strict";
(() => {
  const data = JSON.parse(document.getElementById("timeline-data").textContent);
  const GAP = 1.6; // as in timeline.py: further than this many ticks from a sample, nothing is known
  const WHOLE = "";
  const AXIS_PX = 44;
  const byId = (id) => document.getElementById(id);
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const colour = (volume) => style(`--v${volume % 6}`);
  const shown = { step: WHOLE, repeat: 1, volumes: new Set(data.volumes.keys()) };
  let figures = null; // Bokeh's document
  let curves = []; // what is drawn now: {panel, line, volume, x, y}

  const element = (tag, properties, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };
  const number = (value) => {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    const digits = value === 0 ? 0 : Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
    return value.toLocaleString("en-US", { maximumFractionDigits: Math.min(digits, 6) });
  };
  const median = (values) => {
    const known = values.filter((v) => !Number.isNaN(v)).sort((a, b) => a - b);
    return known.length ? (known[(known.length - 1) >> 1] + known[known.length >> 1]) / 2 : NaN;
  };

  const model = (name) => figures.get_model_by_name(name);
  const eachLine = (visit) => {
    for (const panel of data.panels)
      for (const [line] of panel.lines)
        for (const volume of data.volumes.keys()) visit(panel, line, volume, `${panel.key}.${line}.${volume}`);
  };
  const cellOf = (volume) => data.cells.find((c) => c.volume === volume && c.repeat === shown.repeat);
  const windowOf = (cell) => cell && cell.windows.find(([step]) => step === shown.step);

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
      made.y.push(values[i] === null ? NaN : values[i]);
      if (low && low[i] !== null) {
        made.bars.x.push(t - part.zero);
        made.bars.low.push(low[i]);
        made.bars.high.push(high[i]);
      }
    });
    return made;
  }

  function fill() {
    curves = [];
    eachLine((panel, line, volume, name) => {
      if (shown.volumes.has(volume)) curves.push({ panel: panel.key, line, volume, name, ...curve(volume, `${panel.key}.${line}`) });
    });
    const filled = new Set(curves.filter((c) => c.y.some((v) => !Number.isNaN(v))).map((c) => c.panel));
    // A chart without data is not shown; it keeps its old lines, since an axis cannot be made of none.
    for (const panel of data.panels) byId(`panel-${panel.key}`).hidden = !filled.has(panel.key);
    eachLine((panel, line, volume, name) => {
      if (!filled.has(panel.key)) return;
      const made = curves.find((c) => c.name === name);
      model(`glyph:${name}`).visible = model(`bars:${name}`).visible = made !== undefined;
      if (!made) return;
      model(`line:${name}`).data = { x: made.x, y: made.y };
      model(`range:${name}`).data = made.bars;
    });
    timeAxis(data.panels.filter((panel) => filled.has(panel.key)));
    strips();
    reach();
    readout(null);
  }

  /** Only the lowest chart has the time's labels: all share it. */
  function timeAxis(visible) {
    visible.forEach((panel, index) => {
      const lowest = index === visible.length - 1;
      const plot = model(panel.key);
      plot.below[0].visible = lowest;
      plot.height = panel.height + (lowest ? AXIS_PX : 0);
    });
  }

  function strips() {
    const stalls = { x0: [], x1: [], color: [] };
    const unmeasured = { x0: [], x1: [], color: [] };
    const visible = [...shown.volumes].map(cellOf).filter((cell) => extent(cell));
    for (const cell of visible) {
      const part = extent(cell);
      for (const [from, to] of cell.stalls) {
        if (to <= part.from || from >= part.to) continue;
        stalls.x0.push(from - part.zero);
        stalls.x1.push(to - part.zero);
        stalls.color.push(colour(cell.volume));
      }
    }
    if (visible.length) {
      const part = extent(visible[0]);
      let before = part.from;
      for (const [step, , t0, t1] of visible[0].windows) {
        if (shown.step !== WHOLE && step !== shown.step) continue;
        if (t0 > before) {
          unmeasured.x0.push(before - part.zero);
          unmeasured.x1.push(t0 - part.zero);
          unmeasured.color.push(style("--dim"));
        }
        before = t1;
      }
    }
    for (const panel of data.panels) {
      model(`stall:${panel.key}`).data = stalls;
      model(`unmeasured:${panel.key}`).data = unmeasured;
    }
  }

  function reach() {
    const parts = [...shown.volumes].map(cellOf).map(extent).filter(Boolean);
    const start = parts.length ? Math.min(...parts.map((p) => p.from - p.zero)) : 0;
    const end = parts.length ? Math.max(...parts.map((p) => p.to - p.zero)) : 1;
    model("time").setv({ start, end, reset_start: start, reset_end: end });
  }

  function nearest(xs, at) {
    if (!xs.length) return -1;
    let low = 0;
    let high = xs.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (xs[middle] < at) low = middle + 1;
      else high = middle;
    }
    if (low > 0 && at - xs[low - 1] < xs[low] - at) low -= 1;
    const tick = xs.length > 1 ? (xs[xs.length - 1] - xs[0]) / (xs.length - 1) : Infinity;
    return Math.abs(xs[low] - at) <= GAP * tick ? low : -1;
  }

  /** Values under the cursor in every panel; without a cursor, medians of the measured time. */
  function readout(at) {
    const rest = shown.step === WHOLE ? "medians of the whole cell" : "medians of the measured time";
    const measured = (x) => shown.step === WHOLE || x > 0;
    byId("cursor-time").textContent = at === null ? rest : `at ${number(Math.round(at * 10) / 10)} s`;
    for (const panel of data.panels) {
      const place = document.querySelector(`.readout[data-panel="${panel.key}"]`);
      const lines = panel.lines.map(([line, label, dash]) => {
        const values = curves
          .filter((c) => c.panel === panel.key && c.line === line && c.x.length)
          .map((c) => {
            const index = at === null ? -1 : nearest(c.x, at);
            const value = at === null ? median(c.y.filter((_, i) => measured(c.x[i]))) : index < 0 ? NaN : c.y[index];
            const name = element("small", { textContent: data.volumes[c.volume] });
            return element("b", { className: `v${c.volume % 6}` }, name, number(value));
          });
        if (!values.length) return null;
        return element("span", { className: "line" }, element("span", { className: `dash ${dash}` }), label, ...values);
      });
      place.replaceChildren(...lines.filter(Boolean));
    }
  }

  function paint() {
    const ink = style("--dim");
    const grid = style("--line");
    eachLine((panel, line, volume, name) => {
      for (const glyph of [model(`glyph:${name}`), model(`bars:${name}`)]) glyph.glyph.line_color = { value: colour(volume) };
    });
    for (const panel of data.panels) {
      const plot = model(panel.key);
      for (const axis of [...plot.below, ...plot.left])
        axis.setv({
          axis_label_text_color: ink, major_label_text_color: ink, axis_line_color: grid,
          major_tick_line_color: grid, minor_tick_line_color: null,
        });
      for (const one of plot.center) if (one.type.endsWith("Grid")) one.grid_line_color = grid;
    }
    model("cursor").line_color = style("--ink");
    strips();
  }

  function controls() {
    const steps = [...new Set(data.cells.flatMap((cell) => cell.windows.map(([step]) => step)))];
    const pickStep = byId("pick-step");
    pickStep.append(...steps.map((step) => element("option", { value: step, textContent: step })));
    pickStep.append(element("option", { value: WHOLE, textContent: "the whole cell" }));
    shown.step = steps.length ? steps[0] : WHOLE;
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
      const label = element("span", { className: `volume v${volume % 6}`, textContent: name });
      byId("pick-volumes").append(element("label", {}, box, " ", label));
    });
    byId("zoom-out").onclick = reach;
    byId("controls").onsubmit = (event) => event.preventDefault();
  }

  function start() {
    figures = Bokeh.documents[0];
    controls();
    paint();
    fill();
    const cursor = model("cursor");
    cursor.properties.location.change.connect(() => readout(cursor.visible && typeof cursor.location === "number" ? cursor.location : null));
    for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", paint);
    document.documentElement.dataset.charts = "ready";
  }

  /** Bokeh says nothing when its figures are there: ask each frame, for at most half a minute. */
  const until = performance.now() + 30_000;
  (function wait() {
    const made = typeof Bokeh !== "undefined" && Bokeh.documents[0];
    if (made && data.panels.every((panel) => made.get_model_by_name(panel.key))) start();
    else if (performance.now() < until) requestAnimationFrame(wait);
  })();
})();
