// SPDX-License-Identifier: Apache-2.0
// The bands of memory over time: stacked areas of steps, because between two moments the earlier one is shown; the name
// of each in the widest place that has room for it.
import {placesOf} from "./chart.js";
import {NEEDS_READING, lastAtOrBefore} from "./data.js";
import {fitText} from "./dom.js";
import {inkOn, mix, rowFills, theme} from "./palette.js";

// The moments that a chart shows, with the one before.
function shownMoments(chart, device) {
    const {min, max} = chart.scales.x;
    const first = Math.max(0, lastAtOrBefore(device.t, min));
    return [first, Math.max(first, lastAtOrBefore(device.t, max))];
}

// One area between two edges, from moment to moment in steps.
function traceArea(at, device, low, high, first, last) {
    const {ctx, x, y, box} = at, end = box.left + box.width;
    const right = (i) => (i < device.t.length - 1 ? x(device.t[i + 1]) : Math.min(end, x(device.t[i]) + endWidth(at)));
    ctx.beginPath();
    ctx.moveTo(x(device.t[first]), y(high[first]));
    for (let i = first; i <= last; i++) {
        ctx.lineTo(x(device.t[i]), y(high[i]));
        ctx.lineTo(right(i), y(high[i]));
    }
    for (let i = last; i >= first; i--) {
        ctx.lineTo(right(i), y(low ? low[i] : 0));
        ctx.lineTo(x(device.t[i]), y(low ? low[i] : 0));
    }
    ctx.closePath();
}

// The last state is as wide as can be seen, no more: the trace ends there.
const endWidth = (at) => 3 * at.ratio;

// Where the device's memory had not been read, nothing is known above what is tracked.
function drawUnknown(at, device, first, last, capacity) {
    const tracked = device.rows.filter((row) => !NEEDS_READING[row.group]).length;
    const top = tracked ? device.edges[tracked - 1] : new Float64Array(device.t.length);
    const {ctx, x, y} = at;
    ctx.fillStyle = theme().unknown;
    for (let i = first; i <= last && capacity !== null; i++) {
        const from = x(device.t[i]), to = x(device.t[Math.min(i + 1, device.t.length - 1)]);
        if (!device.read[i])
            ctx.fillRect(from, y(capacity), to - from, y(top[i]) - y(capacity));
    }
}

export function drawBands(chart, device, bright) {
    const at = placesOf(chart), [first, last] = shownMoments(chart, device);
    const fills = rowFills(at.ctx, device.rows);
    drawUnknown(at, device, first, last, device.capacity);
    device.rows.forEach((row, r) => {
        if (!fills[r] || !device.bytes[r].some((value) => value > 0))
            return;
        traceArea(at, device, r ? device.edges[r - 1] : null, device.edges[r], first, last);
        at.ctx.globalAlpha = bright === null || bright === r ? 1 : 0.25;
        at.ctx.fillStyle = fills[r];
        at.ctx.fill();
        at.ctx.globalAlpha = 1;
        at.ctx.strokeStyle = theme().paper;
        at.ctx.lineWidth = 0.75 * at.ratio;
        at.ctx.stroke();
    });
    drawNames(at, chart, device, fills, bright);
}

// ---- names in bands

// The edges of all bands at every fourth pixel of the plot.
function sampleEdges(chart, device, step) {
    const samples = [];
    const {left, width} = chart.bbox;
    for (let px = left; px <= left + width; px += step) {
        const i = lastAtOrBefore(device.t, chart.posToVal(px, "x", true));
        samples.push(i);
    }
    return samples;
}

// Where a text of a width fits into a band: the place where the band is thickest over the whole text.
function findPlace(at, device, r, samples, step, width) {
    const need = Math.ceil((width + 14 * at.ratio) / step), least = 17 * at.ratio;
    let best = null;
    for (let from = 0; from + need < samples.length; from++) {
        let low = -Infinity, high = Infinity;
        for (let k = from; k <= from + need && high - low > 0; k++) {
            const i = samples[k], readable = i >= 0 && (device.read[i] || !NEEDS_READING[device.rows[r].group]);
            low = readable ? Math.max(low, r ? device.edges[r - 1][i] : 0) : Infinity;
            high = Math.min(high, i >= 0 ? device.edges[r][i] : 0);
        }
        const thick = high > low ? at.y(low) - at.y(high) : 0;
        if (thick >= least && (!best || thick > best.thick * 1.02))
            best = {thick, x: at.box.left + (from + need / 2) * step, y: (at.y(low) + at.y(high)) / 2};
    }
    return best;
}

function drawNames(at, chart, device, fills, bright) {
    const {ctx} = at, step = 4 * at.ratio, samples = sampleEdges(chart, device, step);
    ctx.font = `${12 * at.ratio}px system-ui, sans-serif`;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    device.rows.forEach((row, r) => {
        if (bright !== null && bright !== r)
            return;
        const text = fitText(ctx, row.title, 260 * at.ratio), width = ctx.measureText(text).width;
        const place = findPlace(at, device, r, samples, step, width);
        if (!place)
            return;
        if (fills[r] && typeof fills[r] !== "string") { // on a pattern, a name needs a ground
            ctx.fillStyle = mix(theme().paper, theme().idle, 0.5);
            const wide = width + 10 * at.ratio, high = 16 * at.ratio;
            ctx.fillRect(place.x - wide / 2, place.y - high / 2, wide, high);
        }
        const plain = !fills[r] || typeof fills[r] !== "string";
        ctx.fillStyle = plain ? (fills[r] ? theme().ink : theme().muted) : inkOn(fills[r]);
        ctx.fillText(text, place.x, place.y + at.ratio);
    });
    ctx.textAlign = "start";
}
