// SPDX-License-Identifier: Apache-2.0
// Memory over time: the bands of the chosen device up to its capacity, phases and marks above them, the reading beside.
import {drawBands} from "./bands.js";
import {makeChart, placesOf} from "./chart.js";
import {lastAtOrBefore, rowAtHeight, sitesOfRow, trackedAt} from "./data.js";
import {addFigure, button, choice, element, onceAFrame} from "./dom.js";
import {formatBytes, formatCount, formatElapsed} from "./format.js";
import {drawMarks, drawPhases, layPhases, markNear, marksHeight, markTextsAt, phasesAt} from "./marks.js";
import {onTheme, theme} from "./palette.js";
import {makeReading, spokenReading} from "./reading.js";
import {bandsBySite, momentOfBands, shownBands} from "./site_bands.js";
import {zoom} from "./time_view.js";

const HEADROOM = 1.04, SITES = 3;
const NEAR = 5; // pixels from a mark's line
const HINT = "Drag to zoom, double click for the whole time. A click chooses the moment that the figures below describe. " +
    "Point at a colour to read whose memory it is.";

// The most that is in use of a device at any moment, without what is free.
function mostUsed(device) {
    let most = 1;
    const free = device.rows.findIndex((row) => row.group === "free");
    for (let i = 0; i < device.t.length; i++)
        most = Math.max(most, trackedAt(device, i), device.read[i] && free > 0 ? device.edges[free - 1][i] : 0);
    return most;
}

// The height of the picture: the whole device, or what is in use where that is little.
function verticalTop(state) {
    const device = state.device(), used = mostUsed(device);
    if (state.get().height === "used" || !device.capacity)
        return used * 1.08;
    return Math.max(device.capacity, used) * HEADROOM;
}

export function usualHeight(device) {
    return device.capacity && mostUsed(device) < device.capacity * 0.2 ? "used" : "device";
}

// The moment that the reading is of: at the pointer, else the chosen one.
export function readMoment(state) {
    const {hover, moment} = state.get();
    return hover === null ? moment : Math.max(0, lastAtOrBefore(state.device().t, hover));
}

function drawCapacity(chart, device) {
    if (!device.capacity || device.capacity > chart.scales.y.max)
        return;
    const {ctx, y, ratio, box} = placesOf(chart), at = y(device.capacity);
    ctx.save();
    ctx.strokeStyle = theme().ink;
    ctx.lineWidth = 1.5 * ratio;
    ctx.beginPath();
    ctx.moveTo(box.left, at);
    ctx.lineTo(box.left + box.width, at);
    ctx.stroke();
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    ctx.fillStyle = theme().ink;
    ctx.textBaseline = "top";
    ctx.textAlign = "left";
    const text = `capacity ${formatBytes(device.capacity)}`, width = ctx.measureText(text).width;
    ctx.globalAlpha = 0.85;
    ctx.fillStyle = theme().paper;
    ctx.fillRect(box.left + 4 * ratio, at + 3 * ratio, width + 6 * ratio, 15 * ratio);
    ctx.globalAlpha = 1;
    ctx.fillStyle = theme().ink;
    ctx.fillText(text, box.left + 7 * ratio, at + 4.5 * ratio);
    ctx.restore();
}

// Lines of the axis over the bands, so faint that they read as paper showing through.
function drawGrid(chart) {
    const {ctx, y, ratio, box} = placesOf(chart);
    ctx.save();
    ctx.globalAlpha = 0.22;
    ctx.strokeStyle = theme().paper;
    ctx.lineWidth = ratio;
    for (const place of (chart.axes[1]._splits || []).slice(1)) {
        ctx.beginPath();
        ctx.moveTo(box.left, y(place));
        ctx.lineTo(box.left + box.width, y(place));
        ctx.stroke();
    }
    ctx.restore();
}

function makeControls(state, copyLink) {
    const clock = choice("Axis of time", [["elapsed", "elapsed"], ["utc", "UTC"]],
        (value) => state.set({clock: value}));
    const height = choice("Height of the picture", [["device", "whole GPU"], ["used", "in use"]],
        (value) => state.set({height: value}));
    const bands = choice("What the bands are", [["use", "by use"], ["site", "by call site"]],
        (value) => state.set({bands: value}));
    const reset = button("whole time", "Show the whole time (Escape, or double click)",
        () => state.set({from: null, to: null}));
    const zooms = element("span", {class: "choice"}, button("\u2212", "Zoom out (-)", () => zoom(state, 2)),
        button("+", "Zoom in (+)", () => zoom(state, 0.5)), reset);
    const controls = element("div", {class: "controls"}, bands, clock, height, zooms,
        button("copy link", "Copy the address of this moment and range", copyLink));
    const show = () => {
        const {clock: time, height: top, from} = state.get();
        clock.show(time);
        bands.show(state.get().bands);
        bands.hidden = !bandsBySite(state.device());
        height.show(top);
        reset.disabled = from === null;
        clock.hidden = (state.trace().summary.start_utc_ns ?? null) === null;
        height.hidden = !state.device().capacity;
    };
    state.listen(show);
    show();
    return controls;
}

// The elements of the figure.
function makeParts(figure, state, picker, copyLink) {
    const plot = element("div", {class: "plot", tabindex: "0", role: "slider", "aria-valuemin": "0", "aria-label":
        "Moment in memory over time: arrow keys move it, plus and minus zoom, Escape shows the whole time"});
    const side = element("div", {class: "beside"}), columns = element("div", {class: "columns"}, plot, side);
    const hint = element("p", {class: "hint note"}, HINT);
    figure.append(...[picker, makeControls(state, copyLink), columns, hint].filter(Boolean));
    return {plot, side, hint};
}

// What the pointer is at: the band's size there, and its largest call sites.
function describeBand(device, row, moment) {
    const {title} = device.rows[row], found = sitesOfRow(device, row, moment), bytes = device.bytes[row][moment];
    const parts = [element("b", {}, title), ` ${formatBytes(bytes)} at ${formatElapsed(device.t[moment])}`];
    if (!found)
        return parts;
    const most = found.held.slice(0, SITES), all = found.held.length;
    const of = most.length < all ? ` (${most.length} of ${formatCount(all)} call sites)` : "";
    const when = found.moment === moment ? "" : `, as of ${formatElapsed(device.t[found.moment])}`;
    return [...parts, `${of}${when}: `, ...most.map(({site, bytes: held}, i) => element("span", {class: "line"},
        `${formatBytes(held)} ${site.label}${i < most.length - 1 ? ", " : ""}`))];
}

// The place of the mark whose line the pointer is at; null: none.
function markAtPointer(chart, over, device, x) {
    const t = chart.posToVal(x - over.left, "x");
    return markNear(device, t, Math.abs(chart.posToVal(x - over.left + NEAR, "x") - t));
}

// What the pointer is at: the marks of a moment.
function describeMarks(device, moment) {
    const texts = markTextsAt(device, moment);
    return [element("b", {}, texts.join(" \u00b7 ")), ` at ${formatElapsed(device.t[moment])}`];
}

// Calls back with the row whose band is below the pointer, and with the place of the mark that it is at; null: none.
function connectBands(plot, state, chartOf, point) {
    plot.addEventListener("pointermove", (event) => {
        const chart = chartOf(), over = chart && chart.over.getBoundingClientRect();
        const inside = over && event.clientX >= over.left && event.clientX <= over.right && event.clientY >= over.top;
        const bytes = inside ? chart.posToVal(event.clientY - over.top, "y") : -1;
        const row = rowAtHeight(shownBands(state), momentOfBands(state, readMoment(state)), bytes);
        point(row < 0 ? null : row, over ? markAtPointer(chart, over, state.device(), event.clientX) : null);
    });
    plot.addEventListener("pointerleave", () => point(null, null));
}

// As high as the reading beside it, within reason.
function chartHeight(side) {
    if (window.innerWidth < 600)
        return 330;
    return window.innerWidth < 900 ? 440 : Math.max(440, Math.min(600, side.offsetHeight));
}

function buildChart(plot, side, state, phases, bright) {
    const device = state.device(), bands = shownBands(state);
    plot.replaceChildren();
    plot.setAttribute("aria-valuemax", String(device.t.length - 1));
    return makeChart(plot, state, {
        data: [bands.t, ...bands.edges], top: () => verticalTop(state), padding: () => marksHeight(phases),
        height: () => chartHeight(side),
        below: (chart) => drawBands(chart, bands, bright()),
        above: (chart) => {
            drawGrid(chart);
            drawCapacity(chart, device);
            drawPhases(chart, phases);
            drawMarks(chart, device);
        },
    });
}

export function makeTimeline(state, picker, copyLink) {
    const figure = addFigure("timeline");
    if (!figure)
        return null;
    const {plot, side, hint} = makeParts(figure, state, picker, copyLink);
    let chart = null, phases = null, bright = null;
    const redraw = onceAFrame(() => chart && chart.redraw(false, true));
    const reading = makeReading(side, (row) => {
        bright = row;
        redraw();
    });
    const read = () => {
        const moment = readMoment(state);
        reading.show(state, moment, phasesAt(phases, state.device().t[moment]));
        plot.setAttribute("aria-valuenow", String(state.get().moment));
        plot.setAttribute("aria-valuetext", spokenReading(state, state.get().moment));
    };
    const build = () => {
        phases = layPhases(state.trace());
        chart = buildChart(plot, side, state, phases, () => bright);
    };
    const point = (row, mark) => {
        const device = state.device();
        hint.replaceChildren(...(mark !== null ? describeMarks(device, mark) :
            row === null ? [HINT] : describeBand(shownBands(state), row, momentOfBands(state, readMoment(state)))));
        if (row === bright)
            return;
        bright = row;
        redraw();
    };
    build();
    read();
    connectBands(plot, state, () => chart, point);
    state.listen((now, before) => {
        if (["device", "trace", "bands"].some((key) => now[key] !== before[key]))
            build();
        else if (["from", "to", "clock", "height"].some((key) => now[key] !== before[key]))
            chart.refresh();
        read();
    });
    onTheme(() => {
        reading.colour();
        redraw();
    });
    const resized = new ResizeObserver(onceAFrame(() => chart.resize()));
    resized.observe(plot);
    resized.observe(side);
    return plot;
}
