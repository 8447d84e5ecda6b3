// What makes the panel pleasanter; every page works without it.
"use strict";

document.addEventListener("submit", (event) => {
  const form = event.target;
  const question = form.dataset.sure;
  if (question && !window.confirm(question)) {
    event.preventDefault();
    return;
  }
  if (form.matches("[hx-get]")) return; // the page stays
  // Against double clicks; only after the browser has taken the button's value along.
  setTimeout(() => form.querySelectorAll("button").forEach((one) => (one.disabled = true)), 0);
});

window.addEventListener("pageshow", (event) => {
  if (event.persisted) document.querySelectorAll("button:disabled").forEach((one) => (one.disabled = false));
});

document.addEventListener("htmx:config:request", (event) => {
  const token = document.querySelector('meta[name="csrf"]');
  if (token && event.detail.ctx) event.detail.ctx.request.headers["X-CSRF-Token"] = token.content;
});

for (const link of document.querySelectorAll("[data-whole]")) link.textContent = link.href;

for (const button of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    const text = button.closest("[data-copy-box]").querySelector("[data-copy-text]").textContent;
    await navigator.clipboard.writeText(text);
    button.classList.add("copied");
    setTimeout(() => button.classList.remove("copied"), 1500);
  });
}

// Wide screens show the menu always: there it is a list, not something to open.
const menu = document.querySelector("[data-menu]");
if (menu) {
  const wide = window.matchMedia("(min-width: 60rem)");
  const fit = () => (menu.open = wide.matches);
  wide.addEventListener("change", fit);
  fit();
}

const drawCharts = () => {
  if (!window.Chart) return;
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const palette = [1, 2, 3, 4, 5, 6, 7, 8].map((number) => colour(`--chart-${number}`));
  const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  window.Chart.defaults.color = colour("--quiet");
  window.Chart.defaults.borderColor = colour("--line");
  window.Chart.defaults.font.family = style.fontFamily;
  if (still) window.Chart.defaults.animation = false;
  for (const box of document.querySelectorAll("[data-chart]")) {
    const { kind, labels, series, unit } = JSON.parse(box.dataset.chart);
    box.hidden = false;
    const canvas = document.createElement("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", box.closest("figure").querySelector("figcaption").textContent);
    box.replaceChildren(canvas);
    const stacked = kind === "stacked";
    new window.Chart(canvas, {
      type: kind === "line" ? "line" : "bar",
      data: {
        labels,
        datasets: series.map((one, position) => ({
          label: one.name,
          data: one.data,
          backgroundColor: palette[position % palette.length],
          borderColor: palette[position % palette.length],
          borderRadius: kind === "line" ? 0 : 4,
          borderWidth: kind === "line" ? 2 : 0,
          pointRadius: 2,
          tension: 0.25,
          maxBarThickness: 36,
        })),
      },
      options: {
        responsive: true,
        maintainAspectRatio: false,
        interaction: { mode: "index", intersect: false },
        plugins: {
          legend: { display: series.length > 1, position: "bottom", labels: { boxWidth: 12 } },
          tooltip: { callbacks: { label: (item) => `${item.dataset.label}: ${item.formattedValue}${unit ? " " + unit : ""}` } },
        },
        scales: { x: { stacked, grid: { display: false } }, y: { stacked, beginAtZero: true, ticks: { precision: unit ? undefined : 0 } } },
      },
    });
  }
};
drawCharts();
