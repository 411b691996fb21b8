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
