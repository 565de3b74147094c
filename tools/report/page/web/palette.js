// SPDX-License-Identifier: Apache-2.0
// Colours: those of Okabe and Ito, which people with any colour vision tell apart, and others for what is rarer. Those of
// bands that lie on one another differ in lightness, too (a test simulates three kinds of colour vision).
// What a component is has the same colour in every figure and every report; what is kept without a use is hatched, in
// the pool and in the map.
import {drawNow} from "./dom.js";

const COMPONENTS = {
    weights: "#0072b2", "kv-cache": "#009e73", activations: "#f0a500", logits: "#c04a00", "cuda-graphs": "#cc79a7",
    library: "#5ba8da", communication: "#e5d735", "input-buffers": "#a9d9f2", lora: "#9166a8", vision: "#79cdb4",
    speculative: "#e2e3f5", gradients: "#f5ab52", optimizer: "#3a8291", other: "#968c79",
    "pool-segments": "#7fb4d6", "in-flight": "#f3ea9a",
};
const GREYS = ["#8e8e8e", "#a3a3a3", "#787878", "#b5b5b5", "#6b6b6b", "#989898"];

const THEMES = {
    light: {paper: "#ffffff", ink: "#1d2126", muted: "#646b73", grid: "#e3e5e8", line: "#b7bcc2", hatch: "#6d7a86",
        idle: "#e8edf1", alarm: "#b3261e", unknown: "#f1f2f3", used: "#8295a8", select: "#1d2126", other: "#4d4d4d"},
    dark: {paper: "#16191d", ink: "#e8eaed", muted: "#9aa2ab", grid: "#2b3036", line: "#4d555e", hatch: "#93a1ae",
        idle: "#2a323a", alarm: "#ff8a80", unknown: "#1f2327", used: "#6d8196", select: "#ffffff", other: "#c9c9c9"},
};

const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

// A colour between two: 0 is the first.
export function mix(first, second, part) {
    const a = channels(first), b = channels(second);
    return `#${a.map((value, i) => Math.round(value + (b[i] - value) * part).toString(16).padStart(2, "0")).join("")}`;
}

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const print = window.matchMedia("print");

export function theme() {
    return THEMES[dark.matches && !print.matches ? "dark" : "light"];
}

// Calls back when the colours or the medium change.
export function onTheme(listener) {
    dark.addEventListener("change", listener);
    print.addEventListener("change", () => {
        listener();
        drawNow();
    });
}

// A component's colour: softer than pure, because it fills areas.
export function componentColour(component) {
    const base = COMPONENTS[component] || COMPONENTS.other;
    return mix(base, theme().paper, theme() === THEMES.dark ? 0.12 : 0.1);
}

function luminance(colour) {
    const [r, g, b] = channels(colour).map((value) => {
        const part = value / 255;
        return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

// Black or white, whichever can be read on a colour.
export const inkOn = (colour) => (luminance(colour) > 0.25 ? "#15181b" : "#ffffff");

const HUES = ["library", "activations", "kv-cache", "cuda-graphs", "weights", "logits", "communication"];

// The components that a device has not, whose colours its call sites without a component have: each as far in lightness
// as can be from the one before, because the largest call sites lie on one another.
export function freeHues(taken) {
    const rest = HUES.filter((hue) => !taken.has(hue)), order = rest.splice(0, 1);
    const lightness = (hue) => Math.cbrt(luminance(COMPONENTS[hue]));
    const far = (hue) => Math.abs(lightness(hue) - lightness(order[order.length - 1]));
    while (rest.length)
        order.push(...rest.splice(rest.indexOf([...rest].sort((a, b) => far(b) - far(a))[0]), 1));
    return order;
}

// What a call site's memory is drawn in: its component's colour, or one of its own where no component is known.
export function siteColour(site) {
    return componentColour(site.hue || site.component);
}

// Tells the call sites of one component apart.
export function shadeColour(site, rank) {
    const base = siteColour(site);
    if (site.hue)
        return base;
    const shift = [0, 0.16, -0.12, 0.28, -0.2, 0.08][rank % 6];
    return shift < 0 ? mix(base, "#000000", -shift) : mix(base, "#ffffff", shift);
}

// Lines through an area, as a pattern that repeats.
function hatch(context, back, front, gap, crossed) {
    const ratio = window.devicePixelRatio || 1, size = Math.round(gap * ratio);
    const tile = document.createElement("canvas");
    tile.width = tile.height = size;
    const pen = tile.getContext("2d");
    pen.fillStyle = back;
    pen.fillRect(0, 0, size, size);
    pen.strokeStyle = front;
    pen.lineWidth = ratio;
    pen.beginPath();
    for (const shift of [-size, 0, size]) {
        pen.moveTo(shift - 1, size + 1);
        pen.lineTo(shift + size + 1, -1);
        if (crossed) {
            pen.moveTo(shift - 1, -1);
            pen.lineTo(shift + size + 1, size + 1);
        }
    }
    pen.stroke();
    const pattern = context.createPattern(tile, "repeat");
    const scale = context.getTransform().a; // of the context: a tile has device pixels
    if (scale !== 1 && pattern.setTransform)
        pattern.setTransform(new DOMMatrix().scale(1 / scale));
    return pattern;
}

export function idleHatch(context) {
    return hatch(context, theme().idle, theme().hatch, 6, false);
}

export function othersHatch(context) {
    return hatch(context, mix(theme().other, theme().paper, 0.45), theme().other, 7, true);
}

// What fills the band of a row: a colour or a pattern.
export function rowFill(context, row, rank) {
    if (row.group === "free")
        return null;
    if (row.group === "idle" || row.key === "mempool-idle")
        return idleHatch(context);
    if (row.group === "others")
        return othersHatch(context);
    if (row.group === "untracked")
        return mix(GREYS[rank % GREYS.length], theme().paper, theme() === THEMES.dark ? 0.08 : 0.25);
    return componentColour(row.key);
}

// Of the band of a call site: the call sites of one component differ in shade. Without one it is that of all others.
function siteFill(site, ranks) {
    if (!site)
        return mix(theme().muted, theme().paper, 0.45);
    const rank = ranks.get(site.component) || 0;
    ranks.set(site.component, rank + 1);
    return shadeColour(site, rank);
}

// The same colour may stand for PyTorch's and for the driver's part of a component: the driver's is darker.
export function rowFills(context, rows) {
    let rank = 0;
    const ranks = new Map();
    const torch = new Set(rows.filter((row) => row.group === "torch").map((row) => row.key));
    return rows.map((row) => {
        if (row.group === "site")
            return siteFill(row.site, ranks);
        const fill = rowFill(context, row, row.group === "untracked" ? rank++ : 0);
        return row.group === "driver" && torch.has(row.key) && typeof fill === "string" ?
            mix(fill, "#000000", theme() === THEMES.dark ? 0.35 : 0.25) : fill;
    });
}
