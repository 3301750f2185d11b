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
  let curves = []; // what is drawn now: {panel, line, volume, x, y, bars}

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

  /** Round values from low to high, both included: where the data are, also when less than a decade is covered. */
  const linearTicks = (low, high, wanted = 4) => {
    const raw = (high - low) / wanted;
    if (!(raw > 0)) return [low];
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw);
    const ticks = [];
    for (let i = Math.ceil(low / step); i <= high / step; i += 1) ticks.push(Number((i * step).toPrecision(12)));
    return ticks;
  };
  const logTicks = (low, high) => {
    const ticks = [];
    for (let d = Math.floor(Math.log10(low)); d <= Math.ceil(Math.log10(high)); d += 1)
      for (const m of [1, 2, 5]) ticks.push(Number((m * 10 ** d).toPrecision(12)));
    const inside = ticks.filter((t) => t >= low && t <= high);
    const decades = inside.filter((t) => Number.isInteger(Math.round(Math.log10(t) * 1e9) / 1e9));
    if (inside.length > 6 && decades.length > 1) return decades;
    return inside.length > 1 ? inside : linearTicks(low, high);
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
    readout(null);
    if (!figures) {
      paper();
      return;
    }
    for (const panel of data.panels)
      if (panel.log && filled.has(panel.key)) {
        const [low, high] = valueRange(panel);
        model(panel.key).left[0].ticker.ticks = logTicks(low, high);
        model(panel.key).y_range.setv({ start: low, end: high, reset_start: low, reset_end: high });
      }
    eachLine((panel, line, volume, name) => {
      if (!filled.has(panel.key)) return;
      const made = curves.find((c) => c.name === name);
      model(`glyph:${name}`).visible = model(`bars:${name}`).visible = made !== undefined;
      if (!made) return;
      model(`line:${name}`).data = { x: made.x, y: made.y };
      model(`range:${name}`).data = made.bars;
    });
    timeAxis(data.panels.filter((panel) => filled.has(panel.key)));
    const [start, end] = timeRange();
    model("time").setv({ start, end, reset_start: start, reset_end: end });
    strips();
    drawMarks();
    paper();
  }

  /** Lowest and highest value of a panel's lines, with some room. */
  function valueRange(panel) {
    const values = curves
      .filter((c) => c.panel === panel.key)
      .flatMap((c) => [...c.y, ...c.bars.low, ...c.bars.high])
      .filter((v) => !Number.isNaN(v) && (!panel.log || v > 0));
    let low = Infinity;
    let high = -Infinity;
    for (const v of values) {
      if (v < low) low = v;
      if (v > high) high = v;
    }
    if (!values.length) return panel.log ? [1, 10] : [0, 1];
    if (panel.log) return [low / 1.1, high * 1.1];
    return [Math.min(0, low), high > 0 ? high * 1.06 : 1];
  }

  /** The charts as still pictures, for paper: whole, in the page's own colours, without waiting for anything. */
  function paper() {
    const [from, to] = zoomed();
    const WIDTH = 700;
    const LEFT = 52;
    const RIGHT = 10;
    const BELOW = 18;
    const across = (x) => LEFT + ((WIDTH - LEFT - RIGHT) * (x - from)) / (to - from || 1);
    const svg = (tag, attributes, text = "") => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
      made.textContent = text;
      return made;
    };
    const dashes = { solid: "", dashed: "6 4", dotted: "2 3", dotdash: "2 3 6 3" };
    const { stalls, unmeasured } = stripes();
    for (const panel of data.panels.filter((one) => !byId(`panel-${one.key}`).hidden)) {
      const height = Math.round(panel.height * 0.8);
      const bottom = height - BELOW;
      const [low, high] = valueRange(panel);
      const scale = panel.log ? Math.log10 : (v) => v;
      const down = (v) => bottom - ((bottom - 4) * (scale(v) - scale(low))) / (scale(high) - scale(low) || 1);
      const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": panel.key });
      for (const [strip, look] of [[unmeasured, "unmeasured"], [stalls, "stalled"]])
        strip.forEach(({ x0, x1, volume }) => {
          const [a, b] = [Math.max(from, x0), Math.min(to, x1)];
          if (b > a) picture.append(svg("rect", { class: `${look} f${volume % 6}`, x: across(a), y: 4, width: across(b) - across(a), height: bottom - 4 }));
        });
      for (const v of panel.log ? logTicks(low, high) : linearTicks(low, high)) {
        picture.append(svg("line", { class: "gridline", x1: LEFT, x2: WIDTH - RIGHT, y1: down(v), y2: down(v) }));
        picture.append(svg("text", { x: LEFT - 5, y: down(v) + 3, "text-anchor": "end" }, number(v)));
      }
      for (const t of linearTicks(from, to, 10)) {
        picture.append(svg("line", { class: "gridline", y1: 4, y2: bottom, x1: across(t), x2: across(t) }));
        picture.append(svg("text", { x: across(t), y: bottom + 12, "text-anchor": "middle" }, `${number(t)} s`));
      }
      for (const c of curves.filter((one) => one.panel === panel.key)) {
        const dash = dashes[panel.lines.find(([line]) => line === c.line)[2]];
        const usable = (v) => !Number.isNaN(v) && (!panel.log || v > 0);
        c.bars.x.forEach((x, i) => {
          if (x < from || x > to || !usable(c.bars.low[i])) return;
          picture.append(svg("line", { class: `range s${c.volume % 6}`, x1: across(x), x2: across(x), y1: down(c.bars.low[i]), y2: down(c.bars.high[i]) }));
        });
        let piece = [];
        const close = () => {
          // A sample between two gaps is a line of one point: a dot, by its round ends.
          if (piece.length === 1) piece.push(piece[0]);
          if (piece.length) picture.append(svg("polyline", { class: `drawn s${c.volume % 6}`, "stroke-dasharray": dash, points: piece.join(" ") }));
          piece = [];
        };
        c.x.forEach((x, i) => {
          if (x < from || x > to || !usable(c.y[i])) close();
          else piece.push(`${across(x).toFixed(1)},${down(c.y[i]).toFixed(1)}`);
        });
        close();
      }
      for (const mark of marks()) {
        if (mark.x < from || mark.x > to) continue;
        picture.append(svg("line", { class: `mark s${mark.volume % 6}`, x1: across(mark.x), x2: across(mark.x), y1: 4, y2: bottom }));
        picture.append(svg("text", { class: "mark", x: across(mark.x) + 3, y: 12 + 11 * mark.row }, mark.number));
      }
      byId(`paper-${panel.key}`).replaceChildren(picture);
    }
    const cells = [...shown.volumes].map(cellOf).filter((cell) => extent(cell));
    const named = cells.map((cell) => `${data.volumes[cell.volume]}: cell ${cell.id}${cell.valid ? "" : " (invalid)"}`);
    byId("printed-choice").textContent =
      `${shown.step === WHOLE ? "The whole cell" : `Step ${shown.step}`}, repeat ${shown.repeat} (${named.join("; ")}); ` +
      `${number(from)} s to ${number(to)} s, 0 is the begin of ${shown.step === WHOLE ? "the cell" : "the measured time"}.`;
  }

  /** What is looked at: all, or what the reader has zoomed to. */
  function zoomed() {
    const [start, end] = timeRange();
    const time = figures && model("time");
    return time ? [Math.max(start, time.start), Math.min(end, time.end)] : [start, end];
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
    const columns = (rows, colourOf) => ({ x0: rows.map((r) => r.x0), x1: rows.map((r) => r.x1), color: rows.map(colourOf) });
    const { stalls, unmeasured } = stripes();
    for (const panel of data.panels) {
      model(`stall:${panel.key}`).data = columns(stalls, (row) => colour(row.volume));
      model(`unmeasured:${panel.key}`).data = columns(unmeasured, () => style("--dim"));
    }
  }

  /** Stretches of the axis: where a volume stalled, and what was not measured. */
  function stripes() {
    const stalls = [];
    const unmeasured = [];
    const visible = [...shown.volumes].map(cellOf).filter((cell) => extent(cell));
    for (const cell of visible) {
      const part = extent(cell);
      for (const [from, to] of cell.stalls) {
        if (to <= part.from || from >= part.to) continue;
        stalls.push({ x0: from - part.zero, x1: to - part.zero, volume: cell.volume });
      }
    }
    if (visible.length) {
      const part = extent(visible[0]);
      let before = part.from;
      for (const [step, , t0, t1] of visible[0].windows) {
        if (shown.step !== WHOLE && step !== shown.step) continue;
        if (t0 > before) unmeasured.push({ x0: before - part.zero, x1: t0 - part.zero, volume: 0 });
        before = t1;
      }
    }
    return { stalls, unmeasured };
  }

  /** Moments that findings speak of, of the cells that are shown, numbered in order of time. */
  function marks() {
    const found = [...shown.volumes].map(cellOf).filter((cell) => extent(cell)).flatMap((cell) => {
      const part = extent(cell);
      return cell.moments
        .filter(([t]) => t >= part.from && t <= part.to)
        .map(([t, text, finding]) => ({ x: t - part.zero, cell: t, text, finding, volume: cell.volume }));
    });
    found.sort((a, b) => a.x - b.x);
    const [from, to] = zoomed();
    let row = 0;
    return found.map((mark, index) => {
      const close = index > 0 && mark.x - found[index - 1].x < 0.03 * (to - from);
      row = close ? (row + 1) % 4 : 0; // numbers of lines that lie together stand one below the other
      return { ...mark, number: `${index + 1}`, row };
    });
  }

  /** A line with a number in each chart, and the list that says what the numbers are, with links to the findings. */
  function drawMarks() {
    const found = marks();
    const ink = found.map((mark) => colour(mark.volume));
    for (const panel of data.panels)
      model(`mark:${panel.key}`).data = { x: found.map((mark) => mark.x), text: found.map((mark) => mark.number), color: ink, dy: found.map((mark) => -11 * mark.row) };
    byId("marks").replaceChildren(...found.map((mark) => {
      const name = element("b", { className: `v${mark.volume % 6}`, textContent: data.volumes[mark.volume] });
      const text = mark.finding < 0 ? mark.text : element("a", { href: `#finding-${mark.finding}`, textContent: mark.text });
      const tenths = (seconds) => number(Math.round(seconds * 10) / 10 || 0); // never -0
      const when = shown.step === WHOLE ? "" : ` (second ${tenths(mark.cell)} of the cell)`;
      return element("li", {}, `${tenths(mark.x)} s${when}: `, name, " ", text);
    }));
    byId("marks").hidden = !found.length;
  }

  /** From the first to the last second of what is chosen. */
  function timeRange() {
    const parts = [...shown.volumes].map(cellOf).map(extent).filter(Boolean);
    const start = parts.length ? Math.min(...parts.map((p) => p.from - p.zero)) : 0;
    const end = parts.length ? Math.max(...parts.map((p) => p.to - p.zero)) : 1;
    return [start, end];
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
    drawMarks();
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
    byId("zoom-out").onclick = () => {
      const [start, end] = timeRange();
      if (figures) model("time").setv({ start, end });
    };
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

  function start() {
    figures = Bokeh.documents[0];
    paint();
    fill();
    const cursor = model("cursor");
    cursor.properties.location.change.connect(() => readout(cursor.visible && typeof cursor.location === "number" ? cursor.location : null));
    for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", paint);
    addEventListener("beforeprint", paper); // with the reader's zoom
    document.documentElement.dataset.charts = "ready";
  }

  /** On paper every section is open; a page without charts has this by its style alone. */
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const one of opened) one.open = true;
  });
  addEventListener("afterprint", () => {
    for (const one of opened) one.open = false;
    opened = [];
  });

  controls();
  fill();

  /** Bokeh says nothing when its figures are there: ask each frame, for at most half a minute. */
  const until = performance.now() + 30_000;
  (function wait() {
    const made = typeof Bokeh !== "undefined" && Bokeh.documents[0];
    if (made && data.panels.every((panel) => made.get_model_by_name(panel.key))) start();
    else if (performance.now() < until) requestAnimationFrame(wait);
  })();
})();
