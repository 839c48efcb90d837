// A closer view of a module in the flame drawing, which shows all of the kernels otherwise.
"use strict";
(() => {
  const flames = document.querySelector(".flames");
  if (!flames) return;
  const back = flames.querySelector(".back button");
  const focus = (item) => {
    for (const other of flames.querySelectorAll("li.focused")) other.classList.remove("focused");
    if (item && !item.matches(".call")) item.classList.add("focused");
    back.hidden = !flames.querySelector("li.focused");
  };
  for (const cell of flames.querySelectorAll("li:is(.module, .call) > span.cell")) {
    const button = gd.make("button", { className: "cell", attributes: { type: "button", title: cell.title } }, ...cell.childNodes);
    button.addEventListener("click", () => focus(button.parentElement));
    cell.replaceWith(button);
  }
  back.addEventListener("click", () => focus(null));
})();
