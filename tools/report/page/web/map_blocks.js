// SPDX-License-Identifier: Apache-2.0
// Single blocks of the shown addresses at one moment, each as wide as it is: below the map, whose parts they are. The
// pointer and the arrow keys read size, call site and age.
import {element, fitText, onceAFrame, sizeCanvas} from "./dom.js";
import {formatBytes, formatElapsed} from "./format.js";
import {FIRST_SITE} from "./map_data.js";
import {bytesOf} from "./map_zoom.js";
import {inkOn, mix, onTheme, theme} from "./palette.js";
import {momentText} from "./reading.js";
import {RIGHT, leftEdge} from "./time_view.js";

const HEIGHT = 56, TALLEST = 40;

// The listed blocks of each moment: their range, where they begin in it, size, site, time.
export function decodeBlocks(device) {
    const starts = device.map.ranges.map((range) => BigInt(range.start));
    return (device.map.blocks || []).map(({at, all, start, list}) => {
        const blocks = [];
        let address = BigInt(start), range = 0;
        for (let i = 0; i < list.length; i += 4) {
            address += BigInt(list[i]);
            while (range + 1 < starts.length && starts[range + 1] <= address)
                range++;
            blocks.push({address, range, offset: Number(address - starts[range]), bytes: list[i + 1],
                site: list[i + 2], t: list[i + 3]});
        }
        return {at, all, blocks};
    });
}

// The list of the last moment that is not behind the chosen one, else the first.
function listAt(lists, moment) {
    return [...lists].reverse().find(({at}) => at <= moment) || lists[0];
}

// Where the shown parts of the ranges lie, from 0 to 1 of the width.
function layParts(map, {low, high}) {
    const whole = bytesOf(map, {low, high});
    let x = 0;
    return map.ranges.map((range) => {
        const first = Math.max(low, range.first_row), behind = Math.min(high, range.first_row + range.rows);
        const size = range.bytes / range.rows, bytes = Math.max(0, behind - first) * size;
        const part = {from: (first - range.first_row) * size, bytes, x, wide: whole ? bytes / whole : 0};
        x += part.wide;
        return part;
    });
}

// The blocks that reach into the shown addresses, with their places.
function placeBlocks(map, blocks, shown) {
    const parts = layParts(map, shown), placed = [];
    for (const block of blocks) {
        const part = parts[block.range], from = block.offset - part.from;
        if (!part.bytes || from >= part.bytes || from + block.bytes <= 0)
            continue;
        const x = (bytes) => part.x + Math.min(1, Math.max(0, bytes / part.bytes)) * part.wide;
        placed.push({block, x0: x(from), x1: x(from + block.bytes)});
    }
    return placed;
}

function describeBlock(map, state, at, {address, bytes, site, t}) {
    const {sites, t: times} = map.device, label = sites[site] ? sites[site].label : "-", now = times[at];
    return [element("b", {}, label), `, ${formatBytes(bytes)} at 0x${address.toString(16)}; allocated at ` +
        `${formatElapsed(t)}, ${formatElapsed(Math.max(0, now - t)).replace(/^\+/, "")} before ${momentText(state, now)}`];
}

function describeList(map, state, {at, all, blocks}, placed) {
    const shown = `${placed.length.toLocaleString("en")} block${placed.length === 1 ? "" : "s"} in the shown addresses at ` +
        momentText(state, map.device.t[at]);
    return all > blocks.length ? `${shown}, of the ${blocks.length.toLocaleString("en")} largest of ` +
        `${all.toLocaleString("en")}` : shown;
}

function drawBlocks(canvas, view, bright) {
    const width = canvas.parentElement.clientWidth, context = sizeCanvas(canvas, width, HEIGHT);
    const left = leftEdge(), wide = Math.max(1, width - left - RIGHT), top = (HEIGHT - TALLEST) / 2;
    context.fillStyle = theme().paper;
    context.fillRect(0, 0, width, HEIGHT);
    context.strokeStyle = theme().line;
    context.strokeRect(left - 0.5, top - 0.5, wide + 1, TALLEST + 1);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (const {block, x0, x1} of view.placed) {
        const x = left + x0 * wide, size = Math.max(1, (x1 - x0) * wide);
        const colour = view.colours.get(block.site + FIRST_SITE) || mix(theme().muted, theme().paper, 0.45);
        context.fillStyle = colour;
        context.fillRect(x, top, size > 4 ? size - 1 : size, TALLEST);
        const label = size > 60 && view.map.device.sites[block.site];
        if (label) {
            context.fillStyle = inkOn(colour);
            context.fillText(fitText(context, label.label, size - 12), x + 6, HEIGHT / 2);
        }
        if (block === bright) {
            context.strokeStyle = theme().ink;
            context.lineWidth = 2;
            context.strokeRect(x - 1, top - 1, Math.max(3, size + 1), TALLEST + 2);
            context.lineWidth = 1;
        }
    }
}

// The block that is nearest to a place of the canvas, within a few pixels.
function blockAt(canvas, view, x) {
    const left = leftEdge(), wide = Math.max(1, canvas.parentElement.clientWidth - left - RIGHT);
    let best = null, near = 5;
    for (const {block, x0, x1} of view.placed) {
        const far = Math.max(left + x0 * wide - x, x - left - x1 * wide, 0);
        if (far < near) {
            near = far;
            best = block;
        }
    }
    return best;
}

// The block that a key goes to; null: it is none of these keys.
function stepBlock(view, key) {
    const {placed} = view, at = placed.findIndex(({block}) => block === view.bright), last = placed.length - 1;
    const to = {ArrowRight: Math.min(last, at + 1), ArrowLeft: at < 0 ? last : Math.max(0, at - 1), Home: 0, End: last}[key];
    return to === undefined || last < 0 ? null : placed[to].block;
}

// Adds the figure behind the map. Returns what shows it: show(map, shown, colours), map null: nothing.
export function makeBlocks(figure, state, say) {
    const canvas = element("canvas", {role: "img", tabindex: "0", "aria-label":
        "Single blocks of the shown addresses, the lowest to the left: the arrow keys go from block to block"});
    const host = element("div", {class: "plot blocks"}, canvas), caption = element("p", {class: "hint"});
    const note = element("p", {class: "hint note"}), box = element("div", {class: "single"}, caption, host, note);
    const view = {map: null, lists: [], placed: [], colours: new Map(), bright: null};
    figure.append(box);
    const draw = onceAFrame(() => view.map && drawBlocks(canvas, view, view.bright));
    const read = (block, aloud) => {
        view.bright = block;
        note.replaceChildren(...(block ? describeBlock(view.map, state, listAt(view.lists, state.get().moment).at, block) :
            ["Point at a block to read its size, its call site and its age."]));
        if (aloud)
            say(note.textContent);
        draw();
    };
    const list = () => {
        box.hidden = !view.map || !view.lists.length;
        if (box.hidden)
            return;
        const found = listAt(view.lists, state.get().moment);
        view.placed = placeBlocks(view.map, found.blocks, view.shown);
        caption.textContent = describeList(view.map, state, found, view.placed);
        read(null);
    };
    canvas.addEventListener("pointermove", (event) => {
        const block = view.map && blockAt(canvas, view, event.clientX - canvas.getBoundingClientRect().left);
        if (block !== view.bright)
            read(block);
    });
    canvas.addEventListener("pointerleave", () => view.map && read(null));
    canvas.addEventListener("keydown", (event) => {
        const block = event.ctrlKey || event.altKey || event.metaKey ? null : stepBlock(view, event.key);
        if (!block)
            return;
        event.preventDefault();
        read(block, true);
    });
    state.listen((now, before) => view.map && (now.moment !== before.moment || now.clock !== before.clock) && list());
    onTheme(draw);
    new ResizeObserver(draw).observe(host);
    return {show(map, shown, colours) {
        if (view.map !== map)
            view.lists = map ? decodeBlocks(map.device) : [];
        Object.assign(view, {map, shown, colours});
        list();
    }};
}
