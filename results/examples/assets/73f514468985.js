"use strict";
/**
 * What the page holds deflated and in base64: data, and the rows of large closed sections. Rows are made of elements and
 * texts, one after the other. What is not in these lists is not made: no text of a run becomes a script, a link or a
 * request.
 */
const Packed = (() => {
  const TAGS = new Set(["b", "code", "dd", "div", "dl", "dt", "figcaption", "figure", "h3", "h4", "p", "span", "table", "tbody", "td", "th", "thead", "tr", "wbr"]);
  const DRAWN_TAGS = new Set(["line", "polygon", "polyline", "svg", "title"]);
  const ATTRIBUTES = new Set(["aria-hidden", "aria-label", "class", "data-label", "points", "preserveAspectRatio", "role", "style", "tabindex", "title", "viewBox", "x1", "x2", "y1", "y2"]);
  const SVG = "http://www.w3.org/2000/svg";
  const isAble = typeof DecompressionStream !== "undefined"; // since 2023

  /** The value whose JSON is packed. */
  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
  }

  function made(part) {
    if (typeof part === "string") return document.createTextNode(part);
    const [tag, attributes, ...parts] = part;
    if (!TAGS.has(tag) && !DRAWN_TAGS.has(tag)) throw new TypeError(`not an element of a section: ${tag}`);
    const element = DRAWN_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (!ATTRIBUTES.has(name)) throw new TypeError(`not an attribute of a section: ${name}`);
      element.setAttribute(name, value);
    }
    for (const one of parts) element.append(made(one));
    return element;
  }

  async function sections() {
    if (isAble)
      for (const place of document.querySelectorAll("[data-packed]")) place.replaceWith(...(await unpack(place.dataset.packed)).map(made));
    document.documentElement.dataset.sections = "ready";
  }

  sections();
  return { isAble, unpack };
})();

"use strict";
/**
 * On a narrow screen the answer comes first, and every section below it is closed until it is asked for. Without
 * JavaScript, on a wide screen and on paper from one, all of them are open.
 */
(() => {
  const CAVEATS_OPEN = 3;
  const OPEN = "findings"; // the causes are a part of the answer

  /** Put elements behind a summary, closed unless told otherwise. */
  function fold(place, summary, contents, open) {
    const made = document.createElement("details");
    const head = document.createElement("summary");
    made.className = "fold";
    made.open = open;
    head.append(summary);
    made.append(head, ...contents);
    place.append(made);
  }

  /** Open all that hides an element, and the section that it is. */
  function reveal(id) {
    const target = id && document.getElementById(id);
    if (!target) return null;
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    const own = target.querySelector(":scope > details.fold");
    if (own) own.open = true;
    return target;
  }

  if (!matchMedia("(max-width: 700px)").matches) return;
  for (const section of document.querySelectorAll("main > section")) {
    const heading = section.querySelector(":scope > h2");
    if (heading) fold(section, heading, [...section.childNodes].filter((node) => node !== heading), section.id === OPEN);
  }
  const caveats = document.querySelector("header > .caveats");
  const further = caveats ? [...caveats.children].slice(CAVEATS_OPEN) : [];
  if (further.length) {
    const place = document.createElement("li");
    const list = document.createElement("ul");
    list.append(...further);
    caveats.append(place);
    fold(place, `${further.length} further caveat${further.length > 1 ? "s" : ""}`, [list], false);
  }
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (link) reveal(link.getAttribute("href").slice(1));
  });
  const target = reveal(location.hash.slice(1));
  if (target) target.scrollIntoView();
})();
