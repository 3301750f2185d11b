"use strict";
/**
 * What the page holds deflated and in base64: data, and the rows of large closed sections. Rows are made of elements and
 * texts, one after the other. What is not in these lists is not made: no text of a run becomes a script, a link or a
 * request.
 */
const Packed = (() => {
  const TAGS = new Set(["b", "code", "div", "figcaption", "figure", "h3", "h4", "span", "table", "tbody", "td", "th", "thead", "tr", "wbr"]);
  const ATTRIBUTES = new Set(["aria-hidden", "class", "data-label", "style", "tabindex", "title"]);
  const isAble = typeof DecompressionStream !== "undefined"; // since 2023

  /** The value whose JSON is packed. */
  async function unpack(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
  }

  function made(part) {
    if (typeof part === "string") return document.createTextNode(part);
    const [tag, attributes, ...parts] = part;
    if (!TAGS.has(tag)) throw new TypeError(`not an element of a section: ${tag}`);
    const element = document.createElement(tag);
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
