"use strict";
// Fetches the part of a page that moves again and again, while somebody looks at it.
const EVERY_MS = 2000;
const part = document.querySelector("[data-live]");
const state = document.querySelector("[data-live-state]");

async function refresh() {
  if (document.hidden || part.contains(document.activeElement) || part.querySelector("details[open]")) return;
  try {
    const answer = await fetch(part.dataset.live, { credentials: "same-origin", redirect: "error" });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const text = await answer.text();
    const places = [...part.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
    part.innerHTML = text;
    part.querySelectorAll(".scroll").forEach((each, at) => { each.scrollLeft = places[at] ?? 0; });
    state.textContent = "follows by itself";
    state.classList.remove("alarm");
  } catch (error) {
    state.textContent = `not up to date: ${error.message}`;
    state.classList.add("alarm");
  }
}

async function follow() {
  await refresh();
  setTimeout(follow, EVERY_MS);
}

if (part) setTimeout(follow, EVERY_MS);
