// SPDX-License-Identifier: Apache-2.0
// Curves of PyTorch's pool, from the document of `cutrace-report frag`: what is in blocks, above it what is free inside
// the segments, of that the largest free block apart. A large hatched band with a thin clear part is fragmentation.
import {makeChart, placesOf} from "./chart.js";
import {lastAtOrBefore} from "./data.js";
import {addFigure, element, onceAFrame} from "./dom.js";
import {formatBytes, formatCount} from "./format.js";
import {showHeld} from "./held_segments.js";
import {idleHatch, mix, onTheme, theme} from "./palette.js";
import {drawSwatch, momentText} from "./reading.js";

// The instants of the document, and between them the worst ones, in the order of time.
function readCurve(trace, device) {
    const found = ((trace.frag || {}).devices || []).find((each) => each.ordinal === device.device);
    const start = trace.summary.start_ns, points = [];
    for (const instant of (found && found.fragmentation) || []) {
        if (instant.worst && instant.worst_t_ns !== null && instant.worst_t_ns < instant.t_ns)
            points.push({...instant.worst, t: instant.worst_t_ns - start});
        if (instant.segment_bytes !== undefined && instant.segment_bytes !== null)
            points.push({...instant, t: instant.t_ns - start});
    }
    return {found, points: points.sort((a, b) => a.t - b.t), t: Float64Array.from(points, (point) => point.t).sort()};
}

const inBlocks = (point) => point.segment_bytes - point.free_bytes;
const COLOURS = {
    blocks: () => theme().used,
    largest: () => mix(theme().idle, theme().paper, 0.15),
    rest: idleHatch,
};

// Steps: between two instants the earlier one is shown, as everywhere on the page.
function traceSteps(at, points, value) {
    const {ctx, x, y} = at;
    ctx.beginPath();
    points.forEach((point, i) => {
        if (i)
            ctx.lineTo(x(point.t), y(value(points[i - 1])));
        ctx[i ? "lineTo" : "moveTo"](x(point.t), y(value(point)));
    });
}

function traceArea(at, points, low, high) {
    const {ctx, x, y} = at;
    traceSteps(at, points, high);
    for (let i = points.length - 1; i >= 0; i--) {
        ctx.lineTo(x(points[i].t), y(low(points[i])));
        if (i)
            ctx.lineTo(x(points[i].t), y(low(points[i - 1])));
    }
    ctx.closePath();
}

function drawPool(chart, points) {
    const at = placesOf(chart), {ctx, ratio} = at;
    const areas = [[() => 0, inBlocks, COLOURS.blocks()],
        [inBlocks, (point) => inBlocks(point) + point.largest_free_bytes, COLOURS.largest()],
        [(point) => inBlocks(point) + point.largest_free_bytes, (point) => point.segment_bytes, idleHatch(ctx)]];
    for (const [low, high, fill] of areas) {
        traceArea(at, points, low, high);
        ctx.fillStyle = fill;
        ctx.fill();
    }
    ctx.strokeStyle = theme().ink;
    ctx.lineWidth = 1.5 * ratio;
    traceSteps(at, points, (point) => point.reserved_bytes);
    ctx.stroke();
}

function drawShare(chart, points) {
    const at = placesOf(chart), {ctx, ratio} = at;
    ctx.strokeStyle = theme().ink;
    ctx.lineWidth = 1.75 * ratio;
    traceSteps(at, points, (point) => point.external_fragmentation);
    ctx.stroke();
}

const ENTRIES = [["line", "reserved_bytes", "reserved by PyTorch"], ["rest", "free_bytes", "free inside segments"],
    ["largest", "largest_free_bytes", "largest free block"], ["blocks", "allocated_bytes", "in blocks"]];

function makeTable(host) {
    const body = element("tbody", {}), caption = element("caption", {});
    host.append(element("table", {class: "reading"}, caption, body));
    const swatches = [];
    const rows = ENTRIES.map(([kind, key, text]) => {
        const swatch = element("canvas", {"aria-hidden": "true"}), value = element("td", {class: "bytes"});
        swatches.push([swatch, COLOURS[kind]]);
        body.append(element("tr", {}, element("td", {class: "swatch"}, swatch), element("th", {scope: "row"}, text),
            value));
        return [key, value];
    });
    const more = [["free blocks", (point) => formatCount(point.free_blocks)],
        ["external fragmentation", (point) => point.external_fragmentation.toFixed(2)]].map(([text, value]) => {
        const cell = element("td", {class: "bytes"});
        body.append(element("tr", {}, element("td", {}), element("th", {scope: "row"}, text), cell));
        return [value, cell];
    });
    const colour = () => swatches.forEach(([swatch, fill]) =>
        drawSwatch(swatch, fill ? (context) => fill(context) : theme().ink));
    colour();
    const show = (state, point) => {
        caption.textContent = momentText(state, point.t);
        rows.forEach(([key, cell]) => {
            const most = key === "largest_free_bytes" && point.largest_free_is_bound ? "at most " : "";
            cell.textContent = most + formatBytes(point[key]);
        });
        more.forEach(([value, cell]) => (cell.textContent = value(point)));
    };
    return {show, colour};
}

// The elements of the figure.
function makeParts(figure) {
    const picture = (label) => element("div", {class: "plot", role: "img", "aria-label": label});
    const plot = picture("PyTorch\u2019s pool over time: reserved, in blocks, free");
    const share = picture("External fragmentation over time");
    const side = element("div", {class: "beside"}), held = element("div", {});
    const axis = "external fragmentation: 0 where all that is free is one block, near 1 where it is many small ones";
    const plots = element("div", {class: "stackedplots"}, plot, element("p", {class: "axis"}, axis), share);
    const columns = element("div", {class: "columns"}, plots, side);
    const none = element("p", {class: "hint"}, "No curve: PyTorch\u2019s blocks of this device are not known.");
    figure.append(columns, none, held);
    return {plot, share, side, held, columns, none};
}

function makeCharts(plot, share, state, curve) {
    const most = Math.max(1, ...curve.points.map((point) => Math.max(point.segment_bytes, point.reserved_bytes)));
    const data = [curve.t, curve.t];
    return [makeChart(plot, state, {data, top: () => most * 1.06, height: () => 240,
        below: (chart) => drawPool(chart, curve.points)}),
    makeChart(share, state, {data, top: () => 1, height: () => 120, splits: () => [0, 0.5, 1],
        format: (value) => value.toFixed(1), below: (chart) => drawShare(chart, curve.points)})];
}

export function makeFragmentation(state) {
    const figure = addFigure("fragmentation");
    if (!figure)
        return;
    const {plot, share, side, held, columns, none} = makeParts(figure), table = makeTable(side);
    let curve = null, charts = [];
    const read = () => {
        if (!curve.points.length)
            return;
        const {hover, moment} = state.get(), t = hover === null ? state.device().t[moment] : hover;
        table.show(state, curve.points[Math.max(0, lastAtOrBefore(curve.t, t))]);
    };
    const build = () => {
        curve = readCurve(state.trace(), state.device());
        plot.replaceChildren();
        share.replaceChildren();
        charts = [];
        none.hidden = curve.points.length > 0;
        columns.hidden = !none.hidden;
        showHeld(held, state, curve.found);
        if (columns.hidden)
            return;
        charts = makeCharts(plot, share, state, curve);
        read();
    };
    build();
    state.listen((now, before) => {
        if (now.device !== before.device || now.trace !== before.trace)
            build();
        else if (["from", "to", "clock"].some((key) => now[key] !== before[key]))
            charts.forEach((chart) => chart.refresh());
        read();
    });
    onTheme(() => {
        table.colour();
        showHeld(held, state, curve.found);
        charts.forEach((chart) => chart.redraw(false, true));
    });
    new ResizeObserver(onceAFrame(() => charts.forEach((chart) => chart.resize()))).observe(plot);
}
