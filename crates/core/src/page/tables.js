// Tables that sort by a click on a head and, where they are long, show the rows with a word; moments that the plots go to.
document.querySelectorAll("table.sorts").forEach((table) => {
  const heads = [...table.querySelectorAll("thead th")], body = table.tBodies[0];
  const key = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.value !== undefined ? Number(cell.dataset.value) : cell.textContent.toLowerCase();
  };
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "descending" || (!head.hasAttribute("aria-sort") && !head.classList.contains("number"));
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "ascending" : "descending");
      const rows = [...body.rows].sort((a, b) => {
        const [x, y] = [key(a, column), key(b, column)];
        return (x < y ? -1 : x > y ? 1 : 0) * (down ? 1 : -1);
      });
      body.append(...rows);
    });
  });
  if (body.rows.length < 9) return;
  const label = document.createElement("label"), input = document.createElement("input"), found = document.createElement("output");
  label.className = "filter";
  input.type = "search";
  label.append("Only rows with", input, " ", found);
  table.closest(".wide").before(label);
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/);
    let count = 0;
    for (const row of body.rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      count += !row.hidden;
    }
    found.textContent = input.value.trim() ? count + " of " + body.rows.length : "";
  });
});
document.querySelectorAll("button[data-at]").forEach((button) => button.addEventListener("click", () => page.go(Number(button.dataset.at))));
