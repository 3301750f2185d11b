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
