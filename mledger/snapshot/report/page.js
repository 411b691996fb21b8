"use strict";
const value = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent;
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const heading = button.parentElement, table = heading.closest("table"), body = table.tBodies[0];
    const column = heading.cellIndex, number = heading.classList.contains("number");
    const first = number ? "descending" : "ascending", other = number ? "ascending" : "descending";
    const order = heading.getAttribute("aria-sort") === first ? other : first;
    for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const compare = (a, b) => {
      const x = value(a, column), y = value(b, column);
      if (x === "" || y === "") return (x === "") - (y === "");
      return sign * (number ? Number(x) - Number(y) : x.localeCompare(y));
    };
    body.append(...[...body.rows].sort(compare));
  });
}

const box = document.querySelector(".filter"), input = box.querySelector("input");
const bare = (text) => text.trim().toLowerCase().replace(/^(non-)?persistent:\/\//, "").replace(/\/(non-)?persistent\//, "/");
const rows = [];
for (const table of document.querySelectorAll("table")) {
  const columns = [...table.tHead.rows[0].cells].filter((cell) => "filter" in cell.dataset).map((cell) => cell.cellIndex);
  if (!columns.length) continue;
  for (const row of table.tBodies[0].rows) rows.push([row, columns.map((column) => bare(row.cells[column].textContent))]);
}
const counts = new Map([...document.querySelectorAll(".count")].map((each) => [each, each.textContent]));
const narrow = () => {
  const wanted = bare(input.value);
  const matches = (name) => !wanted || name.includes(wanted) || wanted.startsWith(name + "/");
  document.body.classList.toggle("filtered", wanted !== "");
  for (const each of document.querySelectorAll("[data-name]")) each.classList.toggle("out", !matches(bare(each.dataset.name)));
  for (const each of document.querySelectorAll(".named")) each.classList.toggle("empty", !each.querySelector("[data-name]:not(.out)"));
  const left = new Map();
  for (const [row, names] of rows) {
    row.hidden = !names.some(matches);
    const count = row.closest("section").querySelector(".count");
    left.set(count, (left.get(count) ?? 0) + !row.hidden);
  }
  for (const [count, found] of left) count.textContent = counts.get(count) + (wanted ? ", " + found + " match the filter" : "");
  const found = [...left.values()].reduce((sum, each) => sum + each, 0);
  box.querySelector("output").textContent = wanted ? found + " rows match" : "";
};
input.addEventListener("input", narrow);
box.hidden = false;
narrow();
