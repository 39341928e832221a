"use strict";

/* Light and dark: the system's choice until the reader makes one. */
const root = document.documentElement;

function storedTheme() {
  try {
    return localStorage.getItem("hypercrl-theme");
  } catch {
    return null; // storage may be closed to pages opened from a file
  }
}

function storeTheme(theme) {
  try {
    localStorage.setItem("hypercrl-theme", theme);
  } catch {
    /* the choice then lasts as long as the page */
  }
}

if (storedTheme()) root.dataset.theme = storedTheme();

document.getElementById("theme").addEventListener("click", () => {
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  root.dataset.theme = (root.dataset.theme || system) === "dark" ? "light" : "dark";
  storeTheme(root.dataset.theme);
});

/* Methods: a button hides or shows one method in every figure of its suite. */
for (const button of document.querySelectorAll(".methods button")) {
  button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    const marks = `.panels [data-series="${button.dataset.series}"]`;
    for (const mark of button.closest(".suite").querySelectorAll(marks)) {
      mark.classList.toggle("off", !on);
    }
  });
}

/* Values: what the mark nearest to the pointer stands for. */
const REACH = 14; // of an SVG's units, about a finger's width on a phone
const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
document.body.append(tip);

function nearest(svg, event) {
  const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(
    svg.getScreenCTM().inverse(),
  );
  svg.points ||= JSON.parse(svg.dataset.points);
  let best = null;
  let least = REACH;
  for (const point of svg.points) {
    const distance = Math.hypot(point[0] - place.x, point[1] - place.y);
    if (distance < least && !isHidden(svg, point[2])) [best, least] = [point, distance];
  }
  return best;
}

function methodButton(svg, series) {
  return svg.closest(".suite").querySelector(`.methods button[data-series="${series}"]`);
}

function isHidden(svg, series) {
  return methodButton(svg, series)?.getAttribute("aria-pressed") === "false";
}

function showValue(event) {
  const svg = event.currentTarget;
  const found = nearest(svg, event);
  tip.hidden = !found;
  if (!found) return;
  const [x, y, series, text] = found;
  const name = document.createElement("b");
  name.textContent = methodButton(svg, series)?.textContent ?? "";
  tip.replaceChildren(name, ` ${text}`);
  const at = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
  const left = Math.min(Math.max(at.x - tip.offsetWidth / 2, 8), innerWidth - tip.offsetWidth - 8);
  tip.style.left = `${left}px`;
  tip.style.top = `${Math.max(at.y - tip.offsetHeight - 10, 8)}px`;
}

for (const svg of document.querySelectorAll(".panels svg[data-points]")) {
  for (const event of ["pointermove", "pointerdown"]) svg.addEventListener(event, showValue);
  svg.addEventListener("pointerleave", () => (tip.hidden = true));
}
addEventListener("scroll", () => (tip.hidden = true), { passive: true });

/* Tables: a heading sorts its column, again the other way round, and again as it was. */
const ORDERS = ["descending", "ascending", "none"];

function sortKey(row, column) {
  const cell = row.cells[column];
  if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
  const text = cell.textContent.trim();
  return text === "–" ? null : text;
}

function inOrder(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other), "en", { numeric: true });
}

function sortTable(table, column, order) {
  const body = table.tBodies[0];
  table.asWritten ||= [...body.rows];
  const rows = [...table.asWritten];
  if (order !== "none") {
    const turn = order === "ascending" ? 1 : -1;
    const key = new Map(rows.map((row) => [row, sortKey(row, column)]));
    rows.sort((a, b) => {
      const [one, other] = [key.get(a), key.get(b)];
      if (one === null || other === null) return (one === null) - (other === null); // last
      return turn * inOrder(one, other);
    });
  }
  body.append(...rows);
}

for (const table of document.querySelectorAll("table")) {
  if (table.tBodies[0].rows.length < 2) continue;
  const headings = [...table.tHead.rows[0].cells];
  for (const [column, heading] of headings.entries()) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const now = heading.getAttribute("aria-sort") ?? "none";
      const order = ORDERS[(ORDERS.indexOf(now) + 1) % ORDERS.length];
      for (const other of headings) other.removeAttribute("aria-sort");
      if (order !== "none") heading.setAttribute("aria-sort", order);
      sortTable(table, column, order);
    });
  }
}

/* The bar marks the suite in view. */
const links = new Map(
  [...document.querySelectorAll(".bar-links a")].map((link) => [link.hash.slice(1), link]),
);
const spy = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) {
      const link = links.get(target.id);
      if (isIntersecting) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  },
  { rootMargin: "-30% 0px -65% 0px" },
);
for (const suite of document.querySelectorAll(".suite")) spy.observe(suite);

/* Rollouts: load a video when it comes near, play while it is in view. */
const still = matchMedia("(prefers-reduced-motion: reduce)").matches;

function videosOf(rollouts) {
  return rollouts.querySelectorAll(".wall:not([hidden]) video");
}

function setPlaying(rollouts, playing) {
  rollouts.dataset.playing = String(playing);
  const button = rollouts.querySelector(".play");
  button.textContent = playing ? "Pause all" : "Play all";
  for (const video of videosOf(rollouts)) {
    if (!video.src) video.src = video.dataset.src;
    if (playing) video.play().catch(() => {}); // a pause that overtakes it is no error
    else video.pause();
  }
}

const cinema = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (isIntersecting && !target.src) target.src = target.dataset.src;
    const wanted = target.closest(".rollouts").dataset.playing === "true";
    if (isIntersecting && wanted) target.play().catch(() => {});
    else if (!isIntersecting) target.pause();
  }
});

for (const rollouts of document.querySelectorAll(".rollouts")) {
  rollouts.dataset.playing = String(!still);
  rollouts.querySelector(".play").textContent = still ? "Play all" : "Pause all";
  for (const video of rollouts.querySelectorAll("video")) {
    cinema.observe(video);
    // Controls only when asked for: seven rows of them would hide the robots.
    for (const event of ["pointerenter", "focus"]) {
      video.addEventListener(event, () => (video.controls = true));
    }
    for (const event of ["pointerleave", "blur"]) {
      video.addEventListener(event, () => (video.controls = false));
    }
  }
  rollouts.querySelector(".play").addEventListener("click", () => {
    setPlaying(rollouts, rollouts.dataset.playing !== "true");
  });
  for (const tab of rollouts.querySelectorAll("[data-wall]")) {
    tab.addEventListener("click", () => {
      for (const video of videosOf(rollouts)) video.pause();
      for (const other of rollouts.querySelectorAll("[data-wall]")) {
        other.setAttribute("aria-pressed", String(other === tab));
      }
      for (const wall of rollouts.querySelectorAll(".wall")) {
        wall.hidden = wall.id !== tab.dataset.wall;
      }
      setPlaying(rollouts, rollouts.dataset.playing === "true");
    });
  }
}
