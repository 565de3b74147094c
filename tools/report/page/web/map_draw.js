// SPDX-License-Identifier: Apache-2.0
// The address map's picture: its cells, the frames of its ranges, names in its largest areas, its axis.
import {fitText, sizeCanvas} from "./dom.js";
import {formatBytes, timeTicks} from "./format.js";
import {FIRST_SITE, IDLE, NOTHING, SEVERAL, ownerName, reachOf} from "./map_data.js";
import {idleHatch, inkOn, mix, shadeColour, theme} from "./palette.js";
import {RIGHT, leftEdge, shownRange} from "./time_view.js";

export const TOP = 10;

const BOTTOM = 28, NAMED = 10;

// Each owner's colour: its component's, in another shade than the component's larger owners.
export function ownerColours(map) {
    const ranks = new Map(), colours = new Map();
    for (const [owner] of [...map.areas].sort((a, b) => b[1] - a[1])) {
        if (owner < FIRST_SITE)
            continue;
        const site = map.device.sites[owner - FIRST_SITE], rank = ranks.get(site.component) || 0;
        ranks.set(site.component, rank + 1);
        colours.set(owner, shadeColour(site, rank));
    }
    colours.set(SEVERAL, mix(theme().muted, theme().paper, 0.45));
    for (const [owner, colour] of [...colours]) // that holds a part open: between its colour and free memory
        colours.set(-owner, mix(colour, theme().idle, 0.3));
    return colours;
}

// Where each shown row begins on the canvas, from the bottom up, with gaps between ranges. Those of others are NaN.
function layRows(map, height, {low, high}) {
    const parts = map.ranges.map((range) => ({range, first: Math.max(low, range.first_row),
        behind: Math.min(high, range.first_row + range.rows)})).filter(({first, behind}) => first < behind);
    const gap = parts.length > 40 ? 1 : 7, room = Math.max(20, height - gap * (parts.length - 1));
    const tops = new Float64Array(map.rows).fill(NaN), heights = new Float64Array(map.rows), places = [];
    let y = height;
    for (const {range, first, behind} of parts) {
        const size = room * (behind - first) / (high - low);
        for (let row = first; row < behind; row++) {
            heights[row] = size / (behind - first);
            tops[row] = y - heights[row] * (row - first + 1);
        }
        places.push({top: y - size, size, bytes: range.bytes * (behind - first) / range.rows});
        y -= size + gap;
    }
    return {tops, heights, places, gap};
}

const snap = (value) => {
    const ratio = window.devicePixelRatio || 1;
    return Math.round(value * ratio) / ratio;
};

// The shown columns: from which to which place each is wide.
function layColumns(map, view) {
    const {t} = map.device, columns = [];
    map.at.forEach((moment, c) => {
        const end = c < map.at.length - 1 ? t[map.at[c + 1]] : t[t.length - 1] + (view.whole * 0.004);
        const x0 = Math.max(view.left, view.x(t[moment])), x1 = Math.min(view.left + view.width, view.x(end));
        if (x1 > view.left && x0 < view.left + view.width)
            columns.push({c, x0: snap(x0), x1: snap(Math.max(x1, x0 + 0.5))});
    });
    return columns;
}

// Whether an owner is the one that is pointed at. What holds free memory open belongs to it and to its owner.
function isBright({bright}, owner) {
    return bright === null || bright === Math.abs(owner) || bright === IDLE && owner < 0;
}

function drawCells(context, map, view) {
    const hatch = idleHatch(context), {tops, heights} = view.rows;
    for (const {c, x0, x1} of view.columns) {
        const owners = map.columns[c];
        for (let row = view.shown.low; row < view.shown.high;) {
            const owner = owners[row];
            let end = row + 1;
            while (end < view.shown.high && owners[end] === owner && Math.abs(tops[end] + heights[end] - tops[end - 1]) < 0.01)
                end++;
            if (owner !== NOTHING) {
                const y0 = snap(tops[end - 1]), y1 = snap(tops[row] + heights[row]);
                context.globalAlpha = isBright(view, owner) ? 1 : 0.28;
                context.fillStyle = owner === IDLE ? hatch : view.colours.get(owner);
                context.fillRect(x0, y0, x1 - x0, Math.max(y1 - y0, 0.5));
            }
            row = end;
        }
    }
    context.globalAlpha = 1;
}

// Each range in a frame, with its size beside it; where addresses are left out, a torn edge.
function drawRanges(context, view) {
    context.font = "11.5px system-ui, sans-serif";
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.lineWidth = 1;
    for (const {top, size, bytes} of view.rows.places) {
        context.strokeStyle = theme().line;
        context.strokeRect(view.left - 0.5, snap(top) - 0.5, view.width + 1, snap(size) + 1);
        if (size < 13)
            continue;
        context.fillStyle = theme().muted;
        const text = formatBytes(Math.round(bytes)).replace(/\.\d+/, (digits) => digits.slice(0, 2));
        context.fillText(text, view.left - 9, top + size / 2);
        context.beginPath();
        context.moveTo(view.left - 3.5, top + 2);
        context.lineTo(view.left - 6.5, top + 2);
        context.lineTo(view.left - 6.5, top + size / 2 - 8);
        context.moveTo(view.left - 6.5, top + size / 2 + 8);
        context.lineTo(view.left - 6.5, top + size - 2);
        context.lineTo(view.left - 3.5, top + size - 2);
        context.stroke();
    }
    context.textAlign = "left";
}

function drawTimes(context, view, state) {
    const utc = state.get().clock === "utc" ? state.trace().summary.start_utc_ns : null;
    const ticks = timeTicks(...shownRange(state), Math.max(2, view.width / 110), utc);
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = theme().muted;
    context.strokeStyle = theme().line;
    context.textAlign = "center";
    context.textBaseline = "top";
    ticks.places.forEach((place, i) => {
        const x = snap(view.x(place)) + 0.5;
        context.beginPath();
        context.moveTo(x, view.bottom);
        context.lineTo(x, view.bottom + 5);
        context.stroke();
        context.fillText(ticks.texts[i], x, view.bottom + 9);
    });
    context.textAlign = "left";
}

// The largest owners have their names in them, where there is room.
function drawNames(context, map, view) {
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "center";
    const largest = [...map.areas].filter(([owner]) => owner !== NOTHING && owner !== SEVERAL)
        .sort((a, b) => b[1] - a[1]).slice(0, NAMED);
    for (const [owner] of largest) {
        const place = view.bright === null || view.bright === owner ? placeOfName(map, view, owner) : null;
        if (!place)
            continue;
        const name = owner === IDLE ? "free in PyTorch\u2019s pool" : ownerName(map, owner);
        const text = fitText(context, name, place.width - 12);
        if (text.length < 8 && text !== name)
            continue;
        if (owner === IDLE) {
            const wide = context.measureText(text).width + 10;
            context.fillStyle = theme().idle;
            context.fillRect(place.x - wide / 2, place.y - 8, wide, 16);
        }
        context.fillStyle = owner === IDLE ? theme().ink : inkOn(view.colours.get(owner));
        context.fillText(text, place.x, place.y + 0.5);
    }
    context.textAlign = "left";
}

// The widest stretch of an owner that is as high as a line of text.
function placeOfName(map, view, owner) {
    let best = null;
    view.columns.forEach(({c}, k) => {
        for (let row = view.shown.low; row < view.shown.high; row++) {
            if (map.columns[c][row] !== owner)
                continue;
            const reach = reachOf(map, c, row), low = Math.max(reach.low, view.shown.low);
            const high = Math.min(reach.high, view.shown.high - 1), middle = (low + high) >> 1;
            const height = view.rows.tops[low] + view.rows.heights[low] - view.rows.tops[high];
            if (height >= 15) {
                let end = k;
                while (end + 1 < view.columns.length && map.columns[view.columns[end + 1].c][middle] === owner)
                    end++;
                const width = view.columns[end].x1 - view.columns[k].x0;
                if (!best || width > best.width)
                    best = {width, x: (view.columns[k].x0 + view.columns[end].x1) / 2,
                        y: (view.rows.tops[high] + view.rows.tops[low] + view.rows.heights[low]) / 2};
            }
            row = high;
        }
    });
    return best && best.width > 50 ? best : null;
}

// Draws the map into a canvas, and leaves in `view` where everything is.
export function drawMap(canvas, map, view, state) {
    const width = canvas.parentElement.clientWidth, height = window.innerWidth < 600 ? 360 : 460;
    const context = sizeCanvas(canvas, width, height), [from, to] = shownRange(state);
    Object.assign(view, {left: leftEdge(), width: width - leftEdge() - RIGHT, bottom: height - BOTTOM});
    view.whole = to - from;
    view.x = (t) => view.left + (t - from) / (to - from) * view.width;
    view.rows = layRows(map, view.bottom - TOP, view.shown);
    view.rows.tops = view.rows.tops.map((top) => top + TOP);
    view.rows.places.forEach((place) => (place.top += TOP));
    view.columns = layColumns(map, view);
    context.fillStyle = theme().paper;
    context.fillRect(0, 0, width, height);
    drawCells(context, map, view);
    drawRanges(context, view);
    drawNames(context, map, view);
    drawTimes(context, view, state);
    drawCursor(context, view);
}

// The part that the arrow keys have reached.
function drawCursor(context, view) {
    const column = view.cursor && view.columns.find(({c}) => c === view.cursor.column);
    if (!column)
        return;
    const y = view.rows.tops[view.cursor.row] + view.rows.heights[view.cursor.row] / 2;
    context.strokeStyle = theme().ink;
    context.lineWidth = 2;
    context.strokeRect(column.x0 - 2, y - 5, Math.max(4, column.x1 - column.x0) + 4, 10);
}
