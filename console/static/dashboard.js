"use strict";
// Draws the dashboard's widgets in their places, and again each minute.

const board = document.querySelector("[data-dashboard]");
const dark = matchMedia("(prefers-color-scheme: dark)");
const lines = ["#2a76ad", "#d9822b", "#3c9a5f", "#a655b5", "#b8433a", "#6c7a89"];
let drawn = [];

function columns(series) {
  // uPlot wants one column of times, and for each line a value or null at each of them.
  const times = [...new Set(series.flatMap((line) => line.points.map(([time]) => time)))].sort((a, b) => a - b);
  const values = series.map((line) => {
    const known = new Map(line.points);
    return times.map((time) => known.get(time) ?? null);
  });
  return [times, ...values];
}

function draw(place, widget) {
  const series = widget.series.filter((line) => line.points.length);
  if (!series.length) return null;
  const ink = dark.matches ? "#a9b4bf" : "#55606c";
  const grid = { stroke: dark.matches ? "#39434e" : "#d5dae0", width: 1 };
  const options = {
    width: place.clientWidth, height: 220,
    legend: { show: true, live: false },
    cursor: { drag: { x: false, y: false } },
    axes: [{ stroke: ink, grid }, { stroke: ink, grid, size: 60 }],
    scales: { x: { range: (_, from, to) => from === to ? [from - 600, to + 600] : [from, to] } },
    series: [{}, ...series.map((line, number) => ({
      label: line.label, stroke: lines[number % lines.length], width: 2, spanGaps: true, points: { show: true, size: 4 },
    }))],
  };
  return new uPlot(options, columns(series), place);
}

async function refresh() {
  const answer = await fetch(board.dataset.dashboard, { headers: { "HX-Request": "true" } });
  if (!answer.ok || !answer.headers.get("content-type").startsWith("application/json")) return;
  const { widgets } = await answer.json();
  const places = board.querySelectorAll(".chart");
  for (const chart of drawn) chart?.destroy();
  drawn = widgets.map((widget, number) => places[number] && draw(places[number], widget));
}

if (board) {
  refresh();
  setInterval(() => document.hidden || refresh(), 60000);
  dark.addEventListener("change", refresh);
  addEventListener("resize", () => {
    for (const chart of drawn) chart?.setSize({ width: chart.root.parentElement.clientWidth, height: 220 });
  });
}
