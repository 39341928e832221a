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
