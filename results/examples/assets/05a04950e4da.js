"use strict";
/**
 * Line charts that share one time axis, one cursor and one zoom: uPlot on a screen, still pictures on paper.
 *
 * A panel is {key, title, unit, height, log, lines: [[key, label, dash]]} and has three places in the page:
 * #live-KEY, #paper-KEY and the readout `.readout[data-panel=KEY]`, its legend.
 */
const LineCharts = (() => {
  const GAP = 1.6; // as in timeline.py: further than this many ticks from a sample, nothing is known
  const AXIS_PX = 26;
  const LEFT_PX = 58;
  const RIGHT_PX = 26;
  const FONT = '11px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
  const DASHES = { solid: [], dashed: [6, 4], dotted: [2, 3], dotdash: [2, 3, 6, 3] };
  const DAY_S = 86_400;
  const CLOCK_STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200];
  const EPOCH_FROM_S = 100_000_000; // earlier than that, a clock counts from the midnight of a day without a date

  const byId = (id) => document.getElementById(id);
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const hue = (group) => group % 6;
  /** Marks of volumes: a mark and a colour together tell 42 apart, marks alone 7 where paper has no colours. */
  const GLYPHS = ["●", "■", "▲", "◆", "+", "×", "▼"];
  const HUES = 6;
  const GLYPH_EVERY_PX = 110;
  const glyph = (group) => GLYPHS[group % GLYPHS.length];
  const volumesOf = (lines) => new Set(lines.filter((one) => one.name).map((one) => one.group)).size;
  /** Places along a line for its marks, each volume's a little further than the one before: [index of a point]. */
  function markPlaces(xs, across, group) {
    const places = [];
    let next = -Infinity;
    xs.forEach((x, at) => {
      const place = across(x);
      if (next === -Infinity) next = place + 9 * (group % 12);
      if (place < next) return;
      places.push(at);
      next = place + GLYPH_EVERY_PX;
    });
    return places;
  }
  const colour = (group) => style(`--v${hue(group)}`);
  const element = (tag, properties, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };
  const svg = (tag, attributes, text = "") => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.textContent = text;
    return made;
  };
  const isKnown = (value) => value !== null && value !== undefined && !Number.isNaN(value);
  const number = (value) => {
    if (!isKnown(value)) return "–";
    const digits = value === 0 ? 0 : Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
    return value.toLocaleString("en-US", { maximumFractionDigits: Math.min(digits, 6) });
  };
  const median = (values) => {
    const known = values.filter(isKnown).sort((a, b) => a - b);
    return known.length ? (known[(known.length - 1) >> 1] + known[known.length >> 1]) / 2 : null;
  };

  const multiples = (low, high, step) => {
    const ticks = [];
    for (let i = Math.ceil(low / step); i <= high / step; i += 1) ticks.push(Number((i * step).toPrecision(12)));
    return ticks;
  };
  /** Round values from low to high, both included: where the data are, also when less than a decade is covered. */
  const linearTicks = (low, high, wanted = 4) => {
    const raw = (high - low) / wanted;
    if (!(raw > 0)) return [low];
    const power = 10 ** Math.floor(Math.log10(raw));
    return multiples(low, high, [1, 2, 2.5, 5, 10].map((m) => m * power).find((step) => step >= raw));
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

  /** Times that count from a begin, in a unit. */
  const elapsed = (unit) => ({
    ticks: linearTicks,
    tickText: (t) => `${number(t)} ${unit}`,
    text: (t) => `${number(Math.round(t * 10) / 10 || 0)} ${unit}`, // never -0
  });
  /** Times of a clock, in seconds: since 1970 (UTC), or since the midnight of the first day. */
  const clock = {
    ticks: (low, high, wanted) => {
      const raw = (high - low) / wanted;
      if (!(raw > 0)) return [low];
      return multiples(low, high, CLOCK_STEPS_S.find((step) => step >= raw) ?? Math.ceil(raw / DAY_S) * DAY_S);
    },
    tickText: (t, ticks) => {
      if (t % DAY_S === 0 && (t >= EPOCH_FROM_S || t > 0)) return clock.dayText(t);
      return clock.ofDay(t).slice(0, ticks.every((tick) => tick % 60 === 0) ? 5 : 8);
    },
    text: (t) => `${clock.dayText(t)} ${clock.ofDay(Math.round(t))}`.trim(),
    ofDay: (t) => new Date(t * 1000).toISOString().slice(11, 19),
    dayText: (t) => {
      if (t >= EPOCH_FROM_S) return new Date(t * 1000).toISOString().slice(0, 10);
      return t >= DAY_S ? `day ${Math.floor(t / DAY_S) + 1}` : "";
    },
  };

  /** The place of a time among sorted ones, -1 where nothing is known. */
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

  /** Lowest and highest value of lines, with some room. */
  function valueRange(panel, lines) {
    let low = Infinity;
    let high = -Infinity;
    for (const one of lines)
      for (const values of [one.y, one.bars.low, one.bars.high])
        for (const value of values) {
          if (!isKnown(value) || (panel.log && value <= 0)) continue;
          if (value < low) low = value;
          if (value > high) high = value;
        }
    if (low > high) return panel.log ? [1, 10] : [0, 1];
    if (panel.log) return [low / 1.1, high * 1.1];
    return [Math.min(0, low * 1.06), high > 0 ? high * 1.06 : low < 0 ? 0 : 1];
  }

  const dashOf = (panel, one) => panel.lines.find(([key]) => key === one.line)[2];

  /** One panel's uPlot. `group` is what all panels share. */
  function screenChart(panel, content, group) {
    const place = byId(`live-${panel.key}`);
    const lines = content.lines.filter((one) => one.panel === panel.key);
    const [low, high] = valueRange(panel, lines);
    const usable = (value) => (isKnown(value) && (!panel.log || value > 0) ? value : null);
    const data = uPlot.join(lines.map((one) => [one.x, one.y.map(usable)]));
    const axis = { stroke: () => style("--dim"), font: FONT, grid: { stroke: () => style("--line"), width: 1 }, ticks: { show: false } };
    const box = (u) => [u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height];

    /** A sample between two gaps is a line of one point: a dot. Elsewhere in a row, other lines have their samples. */
    function isolated(u, index) {
      const found = [];
      let before = null;
      let last = -1;
      u.data[index].forEach((value, at) => {
        if (value === undefined) return;
        if (value === null && last >= 0 && before === null) found.push(last);
        before = last < 0 || value === null ? null : u.data[index][last];
        last = value === null ? -1 : at;
      });
      if (last >= 0 && before === null) found.push(last);
      return found;
    }

    /** What lies behind the lines: bands, and the extremes of what a point stands for. */
    function behind(u) {
      const { ctx } = u;
      const [left, top, width, height] = box(u);
      ctx.save();
      ctx.beginPath();
      ctx.rect(left, top, width, height);
      ctx.clip();
      for (const band of content.bands) {
        const [a, b] = [band.from, band.to].map((t) => u.valToPos(t, "x", true));
        ctx.globalAlpha = band.alpha;
        ctx.fillStyle = band.group === null ? style("--dim") : colour(band.group);
        ctx.fillRect(a, top, Math.max(b - a, 1), height);
      }
      ctx.globalAlpha = 0.25;
      ctx.lineWidth = 2 * devicePixelRatio;
      for (const one of lines) {
        ctx.strokeStyle = colour(one.group);
        ctx.beginPath();
        one.bars.x.forEach((t, i) => {
          if (usable(one.bars.low[i]) === null) return;
          const x = u.valToPos(t, "x", true);
          ctx.moveTo(x, u.valToPos(one.bars.low[i], "y", true));
          ctx.lineTo(x, u.valToPos(one.bars.high[i], "y", true));
        });
        ctx.stroke();
      }
      ctx.restore();
    }

    /** More volumes than colours: marks along their lines. */
    function volumeMarks(u) {
      const { ctx } = u;
      const [left, , width] = box(u);
      ctx.save();
      ctx.font = `${9 * devicePixelRatio}px sans-serif`;
      ctx.textAlign = "center";
      ctx.textBaseline = "middle";
      for (const one of lines) {
        ctx.fillStyle = colour(one.group);
        const known = one.x.map((x, i) => i).filter((i) => usable(one.y[i]) !== null);
        const across = (i) => u.valToPos(one.x[i], "x", true) / devicePixelRatio;
        for (const place of markPlaces(known, across, one.group)) {
          const i = known[place];
          const x = u.valToPos(one.x[i], "x", true);
          if (x >= left && x <= left + width) ctx.fillText(glyph(one.group), x, u.valToPos(one.y[i], "y", true));
        }
      }
      ctx.restore();
    }

    /** A line with a number at each moment; the page's list says what the numbers are. */
    function before(u) {
      const { ctx } = u;
      const [left, top, width, height] = box(u);
      if (volumesOf(content.lines) > HUES) volumeMarks(u);
      ctx.save();
      ctx.font = `bold ${10 * devicePixelRatio}px sans-serif`;
      ctx.textAlign = "left";
      ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
      ctx.lineWidth = 1.2 * devicePixelRatio;
      for (const mark of group.marks()) {
        const x = u.valToPos(mark.x, "x", true);
        if (x < left || x > left + width) continue;
        ctx.strokeStyle = ctx.fillStyle = colour(mark.group);
        ctx.beginPath();
        ctx.moveTo(x, top);
        ctx.lineTo(x, top + height);
        ctx.stroke();
        ctx.fillText(mark.number, x + 3 * devicePixelRatio, top + (10 + 11 * mark.row) * devicePixelRatio);
      }
      ctx.restore();
    }

    const made = new uPlot(
      {
        width: Math.max(place.clientWidth, 100),
        height: panel.height + AXIS_PX,
        padding: [6, RIGHT_PX, 0, 0],
        legend: { show: false },
        cursor: {
          y: false,
          points: { show: false },
          drag: { x: true, y: false, dist: 4, setScale: false },
          bind: { dblclick: () => () => { group.zoom(content.range); return null; } },
          sync: {
            key: group.key,
            scales: ["x", null],
            filters: { pub: (type) => type !== "mousedown" && type !== "mouseup" },
          },
        },
        scales: {
          x: { time: false, range: (_, from, to) => [from, to] },
          y: { distr: panel.log ? 3 : 1, range: () => [low, high] },
        },
        axes: [
          {
            ...axis, size: AXIS_PX, gap: 4,
            splits: (u, _, from, to) => group.time.ticks(from, to, Math.max(2, Math.floor(u.bbox.width / devicePixelRatio / 90))),
            values: (_, ticks) => ticks.map((t) => group.time.tickText(t, ticks)),
          },
          {
            ...axis, size: LEFT_PX, gap: 6,
            splits: () => (panel.log ? logTicks(low, high) : linearTicks(low, high)),
            filter: (_, ticks) => ticks,
            values: (_, ticks) => ticks.map(number),
          },
        ],
        series: [
          {},
          ...lines.map((one) => ({
            stroke: () => colour(one.group),
            width: 1.6,
            dash: DASHES[dashOf(panel, one)],
            points: { show: () => false, filter: isolated, size: 4, fill: () => colour(one.group) },
          })),
        ],
        hooks: {
          drawAxes: [behind],
          draw: [before],
          setCursor: [(u) => { if (u.cursor.event) group.pointAt(u.cursor.left >= 0 ? u.posToVal(u.cursor.left, "x") : null); }],
          setSelect: [(u) => { if (u.select.width > 0) group.zoom([u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")]); }],
        },
      },
      data,
      place,
    );
    made.setScale("x", { min: group.shown()[0], max: group.shown()[1] });
    return made;
  }

  /** One panel as a still picture for paper: in the page's own colours, without waiting for anything. */
  function paperChart(panel, content, group) {
    const [from, to] = group.shown();
    const [WIDTH, LEFT, RIGHT, BELOW, TOP] = [700, 52, 10, 18, 4];
    const height = Math.round(panel.height * 0.8);
    const bottom = height - BELOW;
    const lines = content.lines.filter((one) => one.panel === panel.key);
    const [low, high] = valueRange(panel, lines);
    const scale = panel.log ? Math.log10 : (v) => v;
    const usable = (v) => isKnown(v) && (!panel.log || v > 0);
    const across = (x) => LEFT + ((WIDTH - LEFT - RIGHT) * (x - from)) / (to - from || 1);
    const down = (v) => bottom - ((bottom - TOP) * (scale(v) - scale(low))) / (scale(high) - scale(low) || 1);
    const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": panel.title });
    for (const band of content.bands) {
      const [a, b] = [Math.max(from, band.from), Math.min(to, band.to)];
      if (b <= a) continue;
      const look = band.group === null ? "none" : `f${hue(band.group)}`;
      picture.append(svg("rect", { class: `band ${look}`, opacity: band.alpha, x: across(a), y: TOP, width: across(b) - across(a), height: bottom - TOP }));
    }
    for (const v of panel.log ? logTicks(low, high) : linearTicks(low, high)) {
      picture.append(svg("line", { class: "gridline", x1: LEFT, x2: WIDTH - RIGHT, y1: down(v), y2: down(v) }));
      picture.append(svg("text", { x: LEFT - 5, y: down(v) + 3, "text-anchor": "end" }, number(v)));
    }
    const times = group.time.ticks(from, to, 10);
    for (const t of times) {
      picture.append(svg("line", { class: "gridline", y1: TOP, y2: bottom, x1: across(t), x2: across(t) }));
      const anchor = across(t) > WIDTH - 3 * RIGHT ? "end" : "middle";
      picture.append(svg("text", { x: across(t), y: bottom + 12, "text-anchor": anchor }, group.time.tickText(t, times)));
    }
    for (const one of lines) {
      const dash = DASHES[dashOf(panel, one)].join(" ");
      one.bars.x.forEach((x, i) => {
        if (x < from || x > to || !usable(one.bars.low[i])) return;
        picture.append(svg("line", { class: `range s${hue(one.group)}`, x1: across(x), x2: across(x), y1: down(one.bars.low[i]), y2: down(one.bars.high[i]) }));
      });
      let piece = [];
      const close = () => {
        // A sample between two gaps is a line of one point: a dot, by its round ends.
        if (piece.length === 1) piece.push(piece[0]);
        if (piece.length) picture.append(svg("polyline", { class: `drawn s${hue(one.group)}`, "stroke-dasharray": dash, points: piece.join(" ") }));
        piece = [];
      };
      one.x.forEach((x, i) => {
        if (x < from || x > to || !usable(one.y[i])) close();
        else piece.push(`${across(x).toFixed(1)},${down(one.y[i]).toFixed(1)}`);
      });
      close();
      if (volumesOf(content.lines) < 2) continue;
      const inside = one.x.map((x, i) => i).filter((i) => one.x[i] >= from && one.x[i] <= to && usable(one.y[i]));
      for (const place of markPlaces(inside, (i) => across(one.x[i]), one.group)) {
        const [x, y] = [across(one.x[inside[place]]), down(one.y[inside[place]])];
        const look = { class: `glyph v${hue(one.group)}`, "text-anchor": "middle", "dominant-baseline": "central" };
        picture.append(svg("text", { ...look, x: x.toFixed(1), y: y.toFixed(1) }, glyph(one.group)));
      }
    }
    for (const mark of group.marks()) {
      if (mark.x < from || mark.x > to) continue;
      picture.append(svg("line", { class: `mark s${hue(mark.group)}`, x1: across(mark.x), x2: across(mark.x), y1: TOP, y2: bottom }));
      picture.append(svg("text", { class: "mark", x: across(mark.x) + 3, y: 12 + 11 * mark.row }, mark.number));
    }
    byId(`paper-${panel.key}`).replaceChildren(picture);
  }

  /** Values under the cursor beside a panel's title; without a cursor, medians of what is measured. */
  function readout(panel, content, at) {
    const rows = panel.lines.map(([key, label, dash]) => {
      const values = content.lines
        .filter((one) => one.panel === panel.key && one.line === key && one.x.length)
        .map((one) => {
          const index = at === null ? -1 : nearest(one.x, at);
          const value = at === null ? median(one.y.filter((_, i) => content.measured(one.x[i]))) : index < 0 ? null : one.y[index];
          const sign = element("span", { className: volumesOf(content.lines) > HUES ? "glyph" : "glyph on-paper", textContent: glyph(one.group) });
          const name = one.name ? [sign, element("small", { textContent: one.name })] : [];
          return element("b", { className: `v${hue(one.group)}` }, ...name, number(value));
        });
      return values.length ? element("span", { className: "line" }, element("span", { className: `dash ${dash}` }), label, ...values) : null;
    });
    document.querySelector(`.readout[data-panel="${panel.key}"]`).replaceChildren(...rows.filter(Boolean));
  }

  /**
   * Charts of panels. `time` is elapsed(unit) or clock; `name` tells groups of charts of one page apart.
   *
   * fill({lines, bands, range, measured, rest, marks, painted}) shows other content. A line is {panel, line, group,
   * name, x, y, bars: {x, low, high}}; a band {from, to, group or null, alpha}; `range` the whole time; `measured(x)`
   * which times count for a median; `rest` what these medians are called; `marks()` the moments {x, group, number,
   * row} of what is shown; `painted()` is called after each change of what is shown.
   */
  function create(panels, time, name = "") {
    const group = { key: `volbench ${name}`, time, charts: new Map(), content: null };
    let zoomed = null;
    group.shown = () => zoomed ?? group.content.range;
    group.marks = () => group.content.marks();
    group.filled = () => panels.filter((panel) => !byId(`panel-${panel.key}`).hidden);
    group.pointAt = (at) => {
      const place = byId(`cursor-time${name}`);
      if (place) place.textContent = at === null ? group.content.rest : `at ${time.text(at)}`;
      for (const panel of group.filled()) readout(panel, group.content, at);
    };
    group.zoom = ([from, to]) => {
      const [first, last] = group.content.range;
      zoomed = from <= first && to >= last ? null : [Math.max(from, first), Math.min(to, last)];
      const [min, max] = group.shown();
      for (const chart of group.charts.values()) {
        chart.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
        chart.setScale("x", { min, max });
      }
      group.content.painted();
    };
    group.zoomOut = () => group.zoom(group.content.range);
    group.paper = () => {
      for (const panel of group.filled()) paperChart(panel, group.content, group);
      group.content.painted();
    };
    group.fill = (content) => {
      group.content = content;
      zoomed = null;
      for (const panel of panels)
        byId(`panel-${panel.key}`).hidden = !content.lines.some((one) => one.panel === panel.key && one.y.some(isKnown));
      group.pointAt(null);
      group.paper();
      if (typeof uPlot === "undefined") return;
      for (const chart of group.charts.values()) chart.destroy();
      group.charts.clear();
      for (const panel of group.filled()) group.charts.set(panel.key, screenChart(panel, content, group));
    };
    group.resize = () => {
      for (const panel of group.filled()) {
        const chart = group.charts.get(panel.key);
        const width = byId(`live-${panel.key}`).clientWidth;
        if (chart && width > 0 && width !== chart.width) chart.setSize({ width, height: panel.height + AXIS_PX });
      }
    };
    /** Call after the first fill. */
    group.start = () => {
      const observer = new ResizeObserver(group.resize);
      for (const panel of panels) observer.observe(byId(`live-${panel.key}`));
      const repaint = () => { for (const chart of group.charts.values()) chart.redraw(false); };
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
      addEventListener("beforeprint", group.paper); // with the reader's zoom
      if (typeof uPlot !== "undefined") document.documentElement.dataset.charts = "ready";
    };
    return group;
  }

  /** Charts whose whole content is in the page: a group for each element of class chart-data. */
  function fixed() {
    return [...document.querySelectorAll("script.chart-data")].map((place) => {
      const data = JSON.parse(place.textContent);
      const group = create(data.panels, data.clock ? clock : elapsed(data.unit), data.name);
      const bars = { x: [], low: [], high: [] };
      group.fill({
        lines: data.lines.map((one) => ({ name: "", bars, ...one })),
        bands: data.bands,
        range: data.range,
        measured: () => true,
        rest: "medians of all of the time",
        marks: () => [],
        painted: () => {},
      });
      byId(`zoom-out${data.name}`).onclick = group.zoomOut;
      group.start();
      return group;
    });
  }

  return { create, fixed, elapsed, clock, element, number, glyph, HUES };
})();
