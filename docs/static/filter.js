// Buttons above the charts keep those of a field. Without scripts, all charts are shown.
document.addEventListener("DOMContentLoaded", () => {
  const buttons = [...document.querySelectorAll(".filter button")];
  const keep = (field) => {
    for (const chart of document.querySelectorAll(".chart")) {
      chart.hidden = field !== "all" && !chart.dataset.fields.split(" ").includes(field);
    }
    for (const area of document.querySelectorAll(".area")) {
      area.hidden = [...area.querySelectorAll(".chart")].every((chart) => chart.hidden);
    }
    for (const button of buttons) button.classList.toggle("on", button.dataset.field === field);
  };
  for (const button of buttons) {
    button.addEventListener("click", () => {
      keep(button.dataset.field);
      history.replaceState(null, "", button.dataset.field === "all" ? location.pathname : `#field=${button.dataset.field}`);
    });
  }
  const asked = /^#field=(\w+)$/.exec(location.hash);
  if (asked && buttons.some((button) => button.dataset.field === asked[1])) keep(asked[1]);
});
