// SPDX-License-Identifier: Apache-2.0
// The address map: x is time, y the address, the colour is who owns the memory. Paper is nothing, hatched is what
// PyTorch's pool holds without using it: many hatched slits between colours are fragmentation.
import {addFigure, element, fitText, onceAFrame, sizeCanvas} from "./dom.js";
import {formatBytes, formatElapsed, timeTicks} from "./format.js";
import {FIRST_SITE, IDLE, NOTHING, SEVERAL, addressOf, decodeMap, ownerName, reachOf} from "./map_data.js";
import {idleHatch, inkOn, mix, onTheme, shadeColour, theme} from "./palette.js";
import {drawSwatch, momentText} from "./reading.js";
import {RIGHT, attachTime, leftEdge, shownRange} from "./time_view.js";

const BOTTOM = 28, TOP = 10, NAMED = 10;

// Each owner's colour: its component's, in another shade than the component's larger owners.
function ownerColours(map) {
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

// Where each row begins on the canvas, from the bottom up, with gaps between ranges.
function layRows(map, height) {
    const gap = map.ranges.length > 40 ? 1 : 7, room = Math.max(20, height - gap * (map.ranges.length - 1));
    const tops = new Float64Array(map.rows), heights = new Float64Array(map.rows), places = [];
    let y = height;
    for (const range of map.ranges) {
        const size = room * range.rows / map.rows;
        for (let k = 0; k < range.rows; k++) {
            heights[range.first_row + k] = size / range.rows;
            tops[range.first_row + k] = y - size * (k + 1) / range.rows;
        }
        places.push({top: y - size, size, range});
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

function drawCells(context, map, view) {
    const hatch = idleHatch(context), {tops, heights} = view.rows;
    for (const {c, x0, x1} of view.columns) {
        const owners = map.columns[c];
        for (let row = 0; row < map.rows;) {
            const owner = owners[row];
            let end = row + 1;
            while (end < map.rows && owners[end] === owner && Math.abs(tops[end] + heights[end] - tops[end - 1]) < 0.01)
                end++;
            if (owner !== NOTHING) {
                const y0 = snap(tops[end - 1]), y1 = snap(tops[row] + heights[row]);
                context.globalAlpha = view.bright === null || view.bright === Math.abs(owner) ? 1 : 0.28;
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
    for (const {top, size, range} of view.rows.places) {
        context.strokeStyle = theme().line;
        context.strokeRect(view.left - 0.5, snap(top) - 0.5, view.width + 1, snap(size) + 1);
        if (size < 13)
            continue;
        context.fillStyle = theme().muted;
        context.fillText(formatBytes(range.bytes).replace(/\.\d+/, (digits) => digits.slice(0, 2)), view.left - 9, top + size / 2);
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
        for (let row = 0; row < map.rows; row++) {
            if (map.columns[c][row] !== owner)
                continue;
            const {low, high} = reachOf(map, c, row), middle = (low + high) >> 1;
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

// ---- the pointer

function partAt(view, map, x, y) {
    const column = view.columns.find(({x0, x1}) => x >= x0 && x < x1);
    const row = view.rows.tops.findIndex((top, r) => y >= top && y < top + view.rows.heights[r]);
    return column && row >= 0 ? {column: column.c, row} : null;
}

function describePart(map, state, {column, row}) {
    const reach = reachOf(map, column, row), {t} = map.device;
    const from = formatElapsed(t[map.at[reach.first]]);
    const to = reach.last < map.at.length - 1 ? formatElapsed(t[map.at[reach.last + 1]]) : "the end";
    const size = reach.owner === NOTHING ? "" : `, about ${formatBytes(Math.round(reach.bytes))} from ${addressOf(map, reach.low)}`;
    return [element("b", {}, ownerName(map, reach.owner)),
        `${size}; at ${momentText(state, t[map.at[column]])}, ${addressOf(map, row)}; seen so from ${from} to ${to}`];
}

// Free memory with a block's line through it.
function holdSwatch(context) {
    context.fillStyle = idleHatch(context);
    context.fillRect(0, 0, 14, 14);
    context.fillStyle = mix(theme().ink, theme().idle, 0.35);
    context.fillRect(0, 6, 14, 2);
    return "transparent";
}

function makeLegend(map, view, onOwner) {
    const entry = (owner, fill, text) => {
        const swatch = element("canvas", {"aria-hidden": "true"});
        drawSwatch(swatch, fill);
        const line = element("li", {onpointerenter: () => onOwner(owner), onpointerleave: () => onOwner(null)}, swatch, text);
        return line;
    };
    const sites = [...map.areas].filter(([owner]) => owner >= FIRST_SITE).sort((a, b) => b[1] - a[1]);
    const holds = map.columns.some((owners) => owners.some((owner) => owner < 0));
    return [entry(IDLE, idleHatch, "free inside PyTorch\u2019s pool"),
        holds ? entry(null, holdSwatch, "free, but for a small block that holds the segment open, pale in its owner\u2019s colour") : null,
        entry(NOTHING, null, "nothing allocated"),
        map.areas.has(SEVERAL) ? entry(SEVERAL, view.colours.get(SEVERAL), "several small owners") : null,
        ...sites.slice(0, 6).map(([owner]) => entry(owner, view.colours.get(owner), ownerName(map, owner))),
        sites.length > 6 ? element("li", {}, `and ${sites.length - 6} more: point at them`) : null].filter(Boolean);
}

export function makeMap(state) {
    const figure = addFigure("map");
    if (!figure)
        return;
    const canvas = element("canvas", {role: "img", "aria-label": "Addresses over time, coloured by who owns the memory"});
    const host = element("div", {class: "plot map"}, canvas), note = element("p", {class: "hint note"});
    const legend = element("ul", {class: "legend"});
    const none = element("p", {class: "hint"}, "No memory of this device has an address in the trace.");
    const columns = element("div", {class: "columns"}, host, element("div", {class: "beside"}, legend, note));
    figure.append(columns, none);
    let map = null;
    const view = {bright: null, colours: new Map()};
    const area = () => ({left: view.left || 0, top: TOP, width: view.width || 1, height: (view.bottom || TOP) - TOP});
    const time = attachTime(host, area, state);

    const draw = onceAFrame(() => {
        if (!map)
            return;
        const width = host.clientWidth, height = window.innerWidth < 600 ? 360 : 460;
        const context = sizeCanvas(canvas, width, height), [from, to] = shownRange(state);
        Object.assign(view, {left: leftEdge(), width: width - leftEdge() - RIGHT, bottom: height - BOTTOM});
        view.x = (t) => view.left + (t - from) / (to - from) * view.width;
        view.whole = to - from;
        view.rows = layRows(map, view.bottom - TOP);
        view.rows.tops = view.rows.tops.map((top) => top + TOP);
        view.rows.places.forEach((place) => (place.top += TOP));
        view.columns = layColumns(map, view);
        context.fillStyle = theme().paper;
        context.fillRect(0, 0, width, height);
        drawCells(context, map, view);
        drawRanges(context, view);
        drawNames(context, map, view);
        drawTimes(context, view, state);
        time.update();
    });
    const brighten = (owner) => {
        if (view.bright === owner)
            return;
        view.bright = owner;
        draw();
    };
    const build = () => {
        map = state.device().map ? decodeMap(state.device()) : null;
        columns.hidden = !map;
        none.hidden = Boolean(map);
        if (!map)
            return;
        view.colours = ownerColours(map);
        legend.replaceChildren(...makeLegend(map, view, brighten));
        quiet();
        draw();
    };
    const quiet = () => {
        note.textContent = "Each column is a moment, each line a part of the address space, the lowest addresses below. " +
            "Point at a colour to read who owns it.";
        brighten(null);
    };
    canvas.addEventListener("pointermove", (event) => {
        const bounds = canvas.getBoundingClientRect();
        const part = map && partAt(view, map, event.clientX - bounds.left, event.clientY - bounds.top);
        if (!part)
            return quiet();
        note.replaceChildren(...describePart(map, state, part));
        const owner = map.columns[part.column][part.row];
        return brighten(owner === NOTHING ? null : Math.abs(owner));
    });
    canvas.addEventListener("pointerleave", quiet);
    build();
    state.listen((now, before) => {
        if (now.device !== before.device || now.trace !== before.trace)
            build();
        else if (["from", "to", "clock"].some((key) => now[key] !== before[key]))
            draw();
    });
    onTheme(build);
    new ResizeObserver(draw).observe(host);
}

