// SPDX-License-Identifier: Apache-2.0
// The icicle: what was live at a moment, as a tree of callers drawn on a canvas. A box is as wide as what was allocated
// below its frame. Frames that are the only callers of the next stand in one box. Inverted, the innermost frames are on
// top, and below each who called it.
import {fitText, sizeCanvas} from "./dom.js";
import {idleHatch, inkOn, mix, siteColour, theme} from "./palette.js";

const ROW = 22;

function makeNode(frame, parent) {
    return {frames: frame === null ? [] : [frame], parent, children: new Map(), weight: 0, bytes: 0, count: 0,
        colours: new Map(), idle: false};
}

function addTo(node, held, weight) {
    node.weight += weight;
    node.bytes += held.bytes;
    node.count += held.count;
    const colour = held.site.kind === "idle" ? "idle" : siteColour(held.site);
    node.colours.set(colour, (node.colours.get(colour) || 0) + weight);
}

// held: what call sites hold. by: "bytes" or "count".
export function buildTree(held, by, inverted) {
    const root = makeNode(null, null);
    for (const each of held) {
        const weight = each[by];
        if (!(weight > 0))
            continue;
        const frames = each.site.frames.length ? each.site.frames : [each.site.label];
        let node = root;
        addTo(root, each, weight);
        for (const frame of inverted ? frames : [...frames].reverse()) {
            if (!node.children.has(frame))
                node.children.set(frame, makeNode(frame, node));
            node = node.children.get(frame);
            addTo(node, each, weight);
        }
    }
    return finish(root, inverted);
}

// Joins chains, sorts children, and finds the colour of most of a node. The frames of a box go from the caller to the
// callee, whose name it has. (A list instead of recursion: a stranger's stack may be deep.)
function finish(root, inverted) {
    const todo = [root];
    while (todo.length) {
        const node = todo.pop();
        let children = [...node.children.values()];
        while (children.length === 1 && children[0].weight === node.weight && node !== root) {
            node.frames.push(...children[0].frames);
            children = [...children[0].children.values()];
        }
        if (inverted)
            node.frames.reverse();
        node.children = children.sort((a, b) => b.weight - a.weight);
        children.forEach((child) => {
            child.parent = node;
            todo.push(child);
        });
        node.main = [...node.colours].sort((a, b) => b[1] - a[1])[0];
    }
    return root;
}

// The boxes of a tree, from the node that fills the width, with its callers above it.
function layOut(focus, width) {
    const boxes = [], chain = [];
    for (let node = focus; node; node = node.parent)
        chain.unshift(node);
    chain.forEach((node, depth) => boxes.push({node, x: 0, width, depth, above: node !== focus}));
    const todo = [{node: focus, x: 0, width, depth: chain.length - 1}];
    while (todo.length) {
        const {node, x, width: wide, depth} = todo.pop();
        let at = x;
        for (const child of node.children) {
            const size = wide * child.weight / node.weight;
            if (size >= 0.5) {
                const box = {node: child, x: at, width: size, depth: depth + 1, above: false};
                boxes.push(box);
                todo.push(box);
            }
            at += size;
        }
    }
    return boxes;
}

export const nameOf = (node) => (node.parent ? node.frames[node.frames.length - 1] : "everything");

export function drawIcicle(canvas, view) {
    const width = canvas.parentElement.clientWidth;
    view.boxes = layOut(view.focus, width);
    const depth = Math.max(...view.boxes.map((box) => box.depth)) + 1;
    const context = sizeCanvas(canvas, width, depth * ROW + 1);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.fillStyle = theme().paper;
    context.fillRect(0, 0, width, depth * ROW + 1);
    const hatch = idleHatch(context);
    view.boxes.forEach((box) => drawBox(context, box, view, hatch));
}

function boxColour(node) {
    if (!node.parent || !node.main || node.main[0] === "idle")
        return theme().grid;
    const share = node.main[1] / node.weight; // a box of several colours is paler
    return mix(node.main[0], theme().paper, share > 0.95 ? 0.08 : 0.3 + 0.4 * (1 - share));
}

// What tells a box from its neighbours is the function's name: the place goes first where there is no room for both.
function boxText(context, node, width) {
    const more = node.frames.length > 1 ? ` (+${node.frames.length - 1})` : "";
    const name = nameOf(node), short = name.replace(/^\S+:\d+ /, "");
    const whole = [name + more, name, short].find((text) => context.measureText(text).width <= width);
    const cut = whole || fitText(context, short, width);
    return whole || cut.length > 4 ? cut : "";
}

function drawBox(context, box, view, hatch) {
    const {node, x, width, depth} = box, y = depth * ROW;
    const idle = node.parent && node.main && node.main[0] === "idle";
    const colour = boxColour(node), found = !view.matches || view.matches.has(node);
    context.globalAlpha = found ? (box.above ? 0.6 : 1) : 0.22;
    context.fillStyle = idle ? hatch : colour;
    context.fillRect(x, y, Math.max(0.5, width - 1), ROW - 1);
    context.globalAlpha = 1;
    if (node === view.hover || node === view.cursor) {
        context.strokeStyle = theme().ink;
        context.lineWidth = 2;
        context.strokeRect(x + 1, y + 1, Math.max(1, width - 3), ROW - 3);
    }
    if (width < 26)
        return;
    const text = boxText(context, node, width - 10);
    if (!text)
        return;
    if (idle) {
        context.fillStyle = theme().idle;
        context.fillRect(x + 3, y + 3, context.measureText(text).width + 5, ROW - 7);
    }
    context.fillStyle = !found ? theme().muted : idle ? theme().ink : inkOn(colour);
    context.fillText(text, x + 5, y + ROW / 2);
}

export function boxAt(view, x, y) {
    const depth = Math.floor(y / ROW);
    return view.boxes.find((box) => box.depth === depth && x >= box.x && x < box.x + box.width) || null;
}

// The nodes of which a frame has the text, with all that is above and below them; null: there is no text to look for.
export function findMatches(root, text) {
    if (!text)
        return null;
    const matches = new Set(), todo = [[root, false]];
    let weight = 0;
    while (todo.length) {
        const [node, within] = todo.pop();
        const here = within || node.frames.some((frame) => frame.toLowerCase().includes(text));
        if (here) {
            weight += within ? 0 : node.weight;
            for (let each = node; each && !matches.has(each); each = each.parent)
                matches.add(each);
        }
        node.children.forEach((child) => todo.push([child, here]));
    }
    matches.weight = weight;
    return matches;
}
