// SPDX-License-Identifier: Apache-2.0
// Where there are several devices or processes: one small picture of each, below one another on one axis of time and at
// one scale of bytes, if their clocks allow it, else side by side; one of them is shown large.
import {element, onceAFrame, sizeCanvas} from "./dom.js";
import {firstMoment, lastAtOrBefore} from "./data.js";
import {formatBytes, timeTicks} from "./format.js";
import {onTheme, rowFills, theme} from "./palette.js";
import {usualBands} from "./site_bands.js";
import {usualHeight} from "./timeline.js";

const HEIGHT = 54, AXIS = 22;

// ---- what the pictures have in common

// When each trace's time 0 was, in nanoseconds behind the earliest one; null: their clocks cannot be compared.
function startsOf(traces, processes) {
    const key = {clock: "start_ns", "time-of-day": "start_utc_ns"}[processes ? processes.alignment : ""];
    const starts = traces.map((trace) => (traces.length < 2 ? 0 : key ? trace.summary[key] : NaN));
    return starts.every(Number.isFinite) ? starts.map((start) => start - Math.min(...starts)) : null;
}

const topOf = (device) => device.capacity || device.edges[device.edges.length - 1].reduce((a, b) => Math.max(a, b), 1);

// The scales of all pictures: the range of time, the highest byte, and where each trace's time 0 is.
function makeScales(traces, all, processes) {
    const starts = startsOf(traces, processes);
    const at = ({trace, device}, i) => (starts ? starts[trace.index] : 0) + device.t[i < 0 ? device.t.length - 1 : 0];
    const from = Math.min(...all.map((each) => at(each, 0)));
    return {starts, from, to: Math.max(from + 1, ...all.map((each) => at(each, -1))),
        top: Math.max(...all.map(({device}) => topOf(device)))};
}

// The scales of one picture: those of all, or its own.
function scalesOf(scales, {trace, device}) {
    const {t} = device;
    return scales.starts ? {...scales, start: scales.starts[trace.index]} :
        {start: 0, from: t[0], to: Math.max(t[t.length - 1], t[0] + 1), top: topOf(device)};
}

// ---- drawing

function drawBands(context, device, {start, from, to, top}, width) {
    const {t} = device, fills = rowFills(context, device.rows);
    for (let x = 0; x < width; x++) {
        const now = from + (to - from) * (x + 1) / width - start, i = lastAtOrBefore(t, now);
        if (i < 0 || now - t[t.length - 1] > (to - from) / width)
            continue; // before its first event, or behind its last one
        device.rows.forEach((row, r) => {
            const low = r ? device.edges[r - 1][i] : 0, high = device.edges[r][i];
            if (!fills[r] || high <= low)
                return;
            context.fillStyle = fills[r];
            context.fillRect(x, HEIGHT - high / top * HEIGHT, 1, (high - low) / top * HEIGHT);
        });
    }
}

function drawSmall(canvas, device, scales) {
    const width = canvas.parentElement.clientWidth, context = sizeCanvas(canvas, width, HEIGHT);
    const x = (t) => (t + scales.start - scales.from) / (scales.to - scales.from) * width;
    context.fillStyle = theme().paper;
    context.fillRect(0, 0, width, HEIGHT);
    drawBands(context, device, scales, width);
    context.fillStyle = theme().alarm;
    device.marks.filter((mark) => mark.kind === "crossing").forEach((mark) =>
        context.fillRect(Math.min(width - 2, Math.max(0, x(device.t[mark.at]) - 1)), 0, 2, HEIGHT));
    if (!device.capacity || device.capacity >= scales.top)
        return;
    context.fillStyle = theme().muted;
    context.fillRect(0, Math.round(HEIGHT - device.capacity / scales.top * HEIGHT), width, 1);
}

function drawAxis(canvas, {from, to}) {
    const width = canvas.parentElement.clientWidth, context = sizeCanvas(canvas, width, AXIS);
    const ticks = timeTicks(from, to, Math.max(2, width / 110), null);
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = theme().muted;
    context.textBaseline = "top";
    ticks.places.forEach((place, i) => {
        const x = (place - from) / (to - from) * width;
        context.fillRect(Math.min(width - 1, Math.round(x)), 0, 1, 5);
        context.textAlign = x < 20 ? "left" : x > width - 20 ? "right" : "center";
        context.fillText(ticks.texts[i], x, 8);
    });
}

// ---- the choice

export function chooseDevice(state, trace, device) {
    const found = state.traces[trace].devices[device];
    state.set({trace, device, moment: firstMoment(found), from: null, to: null, hover: null,
        height: usualHeight(found), bands: usualBands(found)});
}

function makeEntry(state, {trace, device}) {
    const canvas = element("canvas", {"aria-hidden": "true"});
    const text = `${state.traces.length > 1 ? `${trace.title} \u00b7 ` : ""}GPU ${device.device}` +
        (device.capacity ? ` \u00b7 ${formatBytes(device.capacity)}` : "");
    const press = element("button", {type: "button", class: "device",
        onclick: () => chooseDevice(state, trace.index, device.index)}, element("span", {}, text),
    element("span", {class: "canvas"}, canvas));
    return {trace, device, canvas, press};
}

function describeScales({starts, top}) {
    return starts ? `All on one axis of time, since the first recording began, and at one scale, up to ${formatBytes(top)}. ` +
        "Nothing is drawn before a process\u2019s first event and behind its last one." :
        "Each on its own time and at its own scale: their clocks cannot be compared.";
}

export function makePicker(state, processes) {
    const all = state.traces.flatMap((trace) => trace.devices.map((device) => ({trace, device})));
    if (all.length < 2)
        return null;
    const scales = makeScales(state.traces, all, processes), entries = all.map((each) => makeEntry(state, each));
    const axis = element("canvas", {"aria-hidden": "true"});
    const box = element("div", {class: scales.starts ? "picker stacked" : "picker", role: "group",
        "aria-label": "Device"}, ...entries.map((entry) => entry.press),
    scales.starts ? element("div", {class: "axis"}, axis) : null,
    element("p", {class: "hint"}, describeScales(scales)));
    const show = () => entries.forEach(({trace, device, press}) => press.setAttribute("aria-pressed",
        String(trace.index === state.get().trace && device.index === state.get().device)));
    const draw = onceAFrame(() => {
        entries.forEach((entry) => drawSmall(entry.canvas, entry.device, scalesOf(scales, entry)));
        if (scales.starts)
            drawAxis(axis, scales);
    });
    state.listen(show);
    show();
    onTheme(draw);
    new ResizeObserver(draw).observe(box);
    return box;
}
