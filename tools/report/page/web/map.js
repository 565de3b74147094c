// SPDX-License-Identifier: Apache-2.0
// The address map: x is time, y the address, the colour is who owns the memory. Paper is nothing, hatched is what
// PyTorch's pool holds without using it: many hatched slits between colours are fragmentation.
import {addFigure, element, onceAFrame} from "./dom.js";
import {formatBytes, formatElapsed} from "./format.js";
import {TOP, drawMap, ownerColours} from "./map_draw.js";
import {FIRST_SITE, IDLE, NOTHING, SEVERAL, addressOf, decodeMap, ownerName, reachOf} from "./map_data.js";
import {idleHatch, mix, onTheme, theme} from "./palette.js";
import {makeBlocks} from "./map_blocks.js";
import {makeZoomLine, rowAtHeight, clampRows, describeRows, wholeOf, zoomByKey} from "./map_zoom.js";
import {drawSwatch, momentText} from "./reading.js";
import {attachTime} from "./time_view.js";

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
    const size = reach.owner === NOTHING ? "" :
        `, about ${formatBytes(Math.round(reach.bytes))} from ${addressOf(map, reach.low)}`;
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
        return element("li", {onpointerenter: () => onOwner(owner), onpointerleave: () => onOwner(null)}, swatch,
            element("span", {}, text));
    };
    const sites = [...map.areas].filter(([owner]) => owner >= FIRST_SITE).sort((a, b) => b[1] - a[1]);
    const holds = map.columns.some((owners) => owners.some((owner) => owner < 0));
    return [entry(IDLE, idleHatch, "free inside PyTorch\u2019s pool"),
        holds ? entry(null, holdSwatch, "free, but a small block (in its owner\u2019s colour) holds it open") : null,
        entry(NOTHING, null, "nothing allocated"),
        map.areas.has(SEVERAL) ? entry(SEVERAL, view.colours.get(SEVERAL), "several small owners") : null,
        ...sites.slice(0, 6).map(([owner]) => entry(owner, view.colours.get(owner), ownerName(map, owner))),
        sites.length > 6 ? element("li", {}, `and ${sites.length - 6} more: point at them`) : null].filter(Boolean);
}

const HELP = "Each column is a moment, each line a part of the address space, the lowest addresses below. Point at a " +
    "colour to read who owns it. Drag up or down for a part of the addresses, to the side for a part of the time; with " +
    "the keyboard + and \u2212 around what the arrow keys have reached, Enter for the memory around it, Escape for all.";

// Left and right go to the next moment, up and down to the next owner.
function stepPart(map, view, key) {
    const last = map.columns.length - 1, {low, high} = view.shown;
    const cursor = view.cursor || {column: Math.floor(last / 2), row: low};
    const owners = map.columns[cursor.column], up = key === "ArrowUp" ? 1 : -1;
    if (key === "ArrowLeft" || key === "ArrowRight")
        return {...cursor, column: Math.min(last, Math.max(0, cursor.column + (key === "ArrowLeft" ? -1 : 1)))};
    if (key !== "ArrowUp" && key !== "ArrowDown")
        return null;
    let row = cursor.row;
    while (row + up >= low && row + up < high && owners[row] === owners[cursor.row])
        row += up;
    return {...cursor, row};
}

// The elements of the figure.
function makeParts(figure) {
    const canvas = element("canvas", {role: "img", tabindex: "0", "aria-label":
        "Addresses over time, coloured by who owns the memory: arrow keys read it, left and right by time, up and " +
        "down by owner"});
    const host = element("div", {class: "plot map"}, canvas), note = element("p", {class: "hint note"});
    const legend = element("ul", {class: "legend"});
    const none = element("p", {class: "hint"}, "No memory of this device has an address in the trace.");
    const columns = element("div", {class: "columns"}, host, element("div", {class: "beside"}, legend, note));
    figure.append(columns, none);
    return {canvas, host, note, legend, none, columns};
}

// The pointer and the arrow keys read a part.
function connectParts(canvas, view, read, change) {
    canvas.addEventListener("pointermove", (event) => {
        const bounds = canvas.getBoundingClientRect();
        read(view.map && partAt(view, view.map, event.clientX - bounds.left, event.clientY - bounds.top));
    });
    canvas.addEventListener("pointerleave", () => read(null));
    canvas.addEventListener("blur", () => {
        view.cursor = null;
        read(null);
    });
    canvas.addEventListener("keydown", (event) => {
        if (!view.map || event.ctrlKey || event.altKey || event.metaKey)
            return;
        const shown = zoomByKey(view, event.key), next = shown ? null : stepPart(view.map, view, event.key);
        if (!shown && !next)
            return;
        event.preventDefault();
        if (shown)
            return change(shown, true);
        view.cursor = next;
        read(next, true);
    });
}

export function makeMap(state, say) {
    const figure = addFigure("map");
    if (!figure)
        return;
    const {canvas, host, note, legend, none, columns} = makeParts(figure);
    const view = {map: null, shown: null, bright: null, cursor: null, colours: new Map()};
    const area = () => ({left: view.left || 0, top: TOP, width: view.width || 1, height: (view.bottom || TOP) - TOP});
    const change = (shown, aloud) => {
        view.shown = shown;
        if (view.cursor)
            view.cursor.row = Math.min(shown.high - 1, Math.max(shown.low, view.cursor.row));
        line.show();
        blocks.show(view.map, shown, view.colours);
        if (aloud)
            say(describeRows(view.map, shown));
        draw();
    };
    const line = makeZoomLine(view, change), blocks = makeBlocks(figure, state, say);
    columns.before(line);
    const choose = (y0, y1) => change(clampRows(view.map, rowAtHeight(view, y1), rowAtHeight(view, y0) + 1));
    const time = attachTime(host, area, state, choose);
    const draw = onceAFrame(() => {
        if (!view.map)
            return;
        drawMap(canvas, view.map, view, state);
        time.update();
    });
    const brighten = (owner) => {
        view.bright = owner;
        draw();
    };
    const read = (part, aloud) => {
        const owner = part ? view.map.columns[part.column][part.row] : NOTHING;
        note.replaceChildren(...(part ? describePart(view.map, state, part) : [HELP]));
        if (aloud)
            say(note.textContent);
        if (aloud || view.bright !== (owner === NOTHING ? null : Math.abs(owner)))
            brighten(owner === NOTHING ? null : Math.abs(owner));
    };
    const build = () => {
        view.map = state.device().map ? decodeMap(state.device()) : null;
        view.cursor = null;
        columns.hidden = line.hidden = !view.map;
        none.hidden = Boolean(view.map);
        if (!view.map)
            return blocks.show(null);
        view.colours = ownerColours(view.map);
        view.shown = wholeOf(view.map);
        line.show();
        blocks.show(view.map, view.shown, view.colours);
        legend.replaceChildren(...makeLegend(view.map, view, brighten));
        read(null);
        draw();
    };
    connectParts(canvas, view, read, change);
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
