// SPDX-License-Identifier: Apache-2.0
// What was live at the chosen moment: a table of call sites, and the icicle of their stacks. Both can be searched.
import {grownIn, liveAt} from "./data.js";
import {addFigure, choice, element, onceAFrame} from "./dom.js";
import {formatBytes, formatCount, formatDuration, formatShare} from "./format.js";
import {boxAt, buildTree, drawIcicle, findMatches, nameOf} from "./icicle.js";
import {idleHatch, onTheme, siteColour} from "./palette.js";
import {drawSwatch, momentText} from "./reading.js";

const FEW = 12;

// Call sites with the same name are one row, as in `cutrace-report top`.
function groupByLabel(held) {
    const groups = new Map();
    for (const each of held) {
        const key = `${each.site.kind} ${each.site.label}`;
        const group = groups.get(key) || {site: each.site, bytes: 0, count: 0, stacks: []};
        group.bytes += each.bytes;
        group.count += each.count;
        group.stacks.push(each);
        groups.set(key, group);
    }
    return [...groups.values()];
}

const hasText = (site, text) => site.label.toLowerCase().includes(text) ||
    site.frames.some((frame) => frame.toLowerCase().includes(text));

// Of what grew, the sign is written.
const signed = (text, value, grown) => (grown && value > 0 ? `+${text}` : text);

function makeRow(group, total, most, unit, grown) {
    const swatch = element("canvas", {"aria-hidden": "true"});
    drawSwatch(swatch, group.site.kind === "idle" ? idleHatch : siteColour(group.site));
    const bar = element("span", {class: "bar", "aria-hidden": "true"});
    bar.style.width = `${most > 0 ? Math.max(0, 100 * group[unit] / most) : 0}%`;
    const stacks = [...group.stacks].sort((a, b) => b.bytes - a.bytes).slice(0, 8)
        .filter((each) => each.site.frames.length);
    const frames = stacks.map((each) => element("div", {class: "stack"},
        element("p", {}, `${formatBytes(each.bytes)} in ${formatCount(each.count)}`),
        element("ol", {}, ...each.site.frames.map((frame) => element("li", {}, frame)))));
    const label = frames.length ? element("details", {}, element("summary", {}, group.site.label), ...frames) :
        element("span", {}, group.site.label);
    return element("tr", {}, element("td", {class: "swatch"}, swatch),
        element("td", {class: "bytes", "data-bytes": String(group.bytes)},
            signed(formatBytes(group.bytes), group.bytes, grown)),
        element("td", {class: "share"}, grown ? "" : formatShare(group.bytes, total)),
        element("td", {class: "count", "data-count": String(group.count)},
            signed(formatCount(group.count), group.count, grown)),
        element("td", {class: "label"}, bar, label));
}

const add = (list, key) => list.reduce((sum, each) => sum + each[key], 0);

// options: text that is searched, unit, all: every row, grown: differences. showAll: asks for every row.
function fillTable(table, held, {text, unit, all, grown}, showAll) {
    const total = add(held, "bytes"), share = (bytes) => (grown ? "" : formatShare(bytes, total));
    const found = held.filter((each) => !text || hasText(each.site, text));
    const groups = groupByLabel(found).sort((a, b) => b[unit] - a[unit] || b.bytes - a.bytes);
    const shown = all ? groups : groups.slice(0, FEW), rest = groups.slice(shown.length);
    const body = table.querySelector("tbody"), foot = table.querySelector("tfoot");
    body.replaceChildren(...shown.map((group) => makeRow(group, total, groups.length ? groups[0][unit] : 0, unit, grown)));
    if (rest.length)
        body.append(element("tr", {class: "rest"}, element("td", {}),
            element("td", {class: "bytes"}, signed(formatBytes(add(rest, "bytes")), add(rest, "bytes"), grown)),
            element("td", {class: "share"}, share(add(rest, "bytes"))),
            element("td", {class: "count"}, formatCount(add(rest, "count"))),
            element("td", {class: "label"}, element("button", {type: "button", onclick: showAll},
                `${formatCount(rest.length)} more call sites`))));
    foot.replaceChildren(element("tr", {}, element("td", {}),
        element("td", {class: "bytes", "data-bytes": String(add(found, "bytes"))},
            signed(formatBytes(add(found, "bytes")), add(found, "bytes"), grown)),
        element("td", {class: "share"}, share(add(found, "bytes"))),
        element("td", {class: "count", "data-count": String(add(found, "count"))},
            signed(formatCount(add(found, "count")), add(found, "count"), grown)),
        element("td", {class: "label"}, text ? `in call sites with \u201c${text}\u201d` : "tracked: all call sites")));
}

function makeTable() {
    const head = ["", "bytes", "share", "count", "call site"].map((name) => element("th", {scope: "col"}, name));
    return element("table", {class: "live"}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}),
        element("tfoot", {}));
}

// What the canvas answers to: the pointer reads a box, a click makes it as wide as the picture.
function connectIcicle(canvas, view, draw, read) {
    const at = (event) => {
        const bounds = canvas.getBoundingClientRect();
        return boxAt(view, event.clientX - bounds.left, event.clientY - bounds.top);
    };
    const point = (node) => {
        view.hover = node;
        read(node);
        draw();
    };
    canvas.addEventListener("pointermove", (event) => {
        const box = at(event);
        if ((box && box.node) !== view.hover)
            point(box ? box.node : null);
    });
    canvas.addEventListener("pointerleave", () => point(null));
    canvas.addEventListener("click", (event) => {
        const box = at(event);
        if (box)
            view.focus = box.node === view.focus && box.node.parent ? box.node.parent : box.node;
        draw();
    });
    canvas.addEventListener("keydown", (event) => {
        const next = stepTo(view.cursor || view.focus, event.key);
        if (event.key === "Escape")
            view.focus = view.cursor = view.root;
        else if (event.key === "Enter")
            view.focus = view.cursor || view.focus;
        else if (!next)
            return;
        view.cursor = next || view.cursor;
        event.preventDefault();
        event.stopPropagation();
        read(view.cursor, true);
        draw();
    });
}

// Up is the caller, down the largest that it called, left and right are beside it.
function stepTo(node, key) {
    const beside = node.parent ? node.parent.children : [node], at = beside.indexOf(node);
    const steps = {ArrowUp: node.parent, ArrowDown: node.children[0], ArrowLeft: beside[at - 1],
        ArrowRight: beside[at + 1]};
    return steps[key] || null;
}

function describe(node, root, by) {
    const share = formatShare(node[by], root[by]);
    const callers = node.frames.slice(0, -1).reverse().slice(0, 4).map((frame) => ` \u2190 ${frame}`).join("");
    return `${formatBytes(node.bytes)} in ${formatCount(node.count)}, ${share}: ${nameOf(node)}${callers}`;
}

function makeControls(state) {
    const search = element("input", {type: "search", placeholder: "search call sites and frames",
        "aria-label": "Search call sites and frames", oninput: () => state.set({search: search.value})});
    const unit = choice("Width of boxes, order of rows", [["bytes", "bytes"], ["count", "count"]],
        (value) => state.set({unit: value}));
    const order = choice("Order of the icicle", [[false, "callers first"], [true, "inverted"]],
        (value) => state.set({inverted: value}));
    const grown = choice("Of a range: what was held, or what grew in it", [[false, "held"], [true, "grown in the range"]],
        (value) => state.set({grown: value}));
    const show = () => {
        unit.show(state.get().unit);
        order.show(state.get().inverted);
        grown.show(state.get().grown);
        grown.hidden = state.get().from === null;
    };
    state.listen(show);
    show();
    return element("div", {class: "controls"}, search, grown, unit, order);
}

export function makeLive(state, say) {
    const figure = addFigure("live");
    if (!figure)
        return;
    const heading = element("p", {class: "when"}), table = makeTable();
    const canvas = element("canvas", {class: "icicle", tabindex: "0", role: "img",
        "aria-label": "Icicle of stacks: arrow keys move between frames, Enter widens one, Escape shows all"});
    const note = element("p", {class: "hint note"});
    figure.append(heading, makeControls(state), element("div", {class: "canvas"}, canvas), note,
        element("div", {class: "wide"}, table));
    const view = {root: null, focus: null, hover: null, cursor: null, matches: null, boxes: []};
    let all = false, held = [];
    const draw = onceAFrame(() => view.root && drawIcicle(canvas, view));
    const read = (node, aloud) => {
        const {search, unit} = state.get(), plain = search && view.matches ?
            `${formatShare(view.matches.weight, view.root.weight)} of ${unit} below frames with \u201c${search}\u201d` :
            "Point at a frame to read it, click to widen it.";
        note.textContent = node ? describe(node, view.root, unit) : plain;
        if (aloud)
            say(note.textContent);
    };
    const list = () => fillTable(table, held, {text: state.get().search.trim().toLowerCase(), unit: state.get().unit, all,
        grown: isGrown(state)}, () => {
        all = true;
        list();
    });
    const update = () => {
        const {search, unit, inverted} = state.get(), found = findHeld(state);
        held = found ? found.held : [];
        heading.textContent = isGrown(state) ? grownHeadline(state, found) : headline(state, found);
        view.root = view.focus = buildTree(held, unit, inverted);
        view.hover = view.cursor = null;
        view.matches = findMatches(view.root, search.trim().toLowerCase());
        read(null);
        list();
        draw();
    };
    connectIcicle(canvas, view, draw, read);
    update();
    state.listen((now, before) => {
        const wasGrown = before.grown && before.from !== null;
        if (["trace", "device", "moment", "search", "unit", "inverted"].some((key) => now[key] !== before[key]) ||
            isGrown(state) !== wasGrown || isGrown(state) && (now.from !== before.from || now.to !== before.to))
            update();
    });
    onTheme(update);
    new ResizeObserver(draw).observe(canvas.parentElement);
}

const isGrown = (state) => state.get().grown && state.get().from !== null;

function findHeld(state) {
    const {moment, from, to} = state.get();
    return isGrown(state) ? grownIn(state.device(), from, to) : liveAt(state.device(), moment);
}

function grownHeadline(state, found) {
    const {t} = state.device();
    return found ? `What each call site held more (or less) at ${momentText(state, t[found.to])} than at ` +
        `${momentText(state, t[found.from])}; the icicle is of what grew` :
        "What call sites held at the begin of this range is not known";
}

// The moment, and how much older what is known of the call sites is.
function headline(state, found) {
    const device = state.device(), t = device.t[state.get().moment];
    if (!found)
        return `${momentText(state, t)}: what call sites held is not known yet`;
    const before = t - device.t[found.moment];
    const late = `; call sites as of ${formatDuration(before)} before, the last moment where they are known`;
    return `At ${momentText(state, t)}${before > 0 ? late : ""}`;
}
