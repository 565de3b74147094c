// SPDX-License-Identifier: Apache-2.0
// Elements and canvases. Text of a trace goes through textContent alone.

// Makes an element: properties as attributes, children as elements or text.
export function element(name, attributes, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
        if (key.startsWith("on"))
            made.addEventListener(key.slice(2), value);
        else if (value !== null && value !== undefined && value !== false)
            made.setAttribute(key, value === true ? "" : value);
    }
    for (const child of children)
        if (child !== null && child !== undefined)
            made.append(child);
    return made;
}

export function button(text, label, onclick) {
    return element("button", {type: "button", "aria-label": label, title: label, onclick}, text);
}

// A choice of a few values, of which one is pressed.
export function choice(label, values, onchange) {
    const box = element("span", {class: "choice", role: "group", "aria-label": label});
    const buttons = values.map(([value, text]) =>
        element("button", {type: "button", onclick: () => onchange(value)}, text));
    box.append(...buttons);
    box.show = (value) => values.forEach(([each], i) =>
        buttons[i].setAttribute("aria-pressed", String(each === value)));
    return box;
}

// Puts a figure in front of what C has written into a section; null: the page has no such section.
export function addFigure(id) {
    const section = document.getElementById(id);
    if (!section)
        return null;
    const figure = element("div", {class: "figure", id: `${id}-figure`});
    const head = section.querySelector("h2");
    section.insertBefore(figure, head ? head.nextSibling : section.firstChild);
    return figure;
}

// Folds what C has written into a section behind a line that opens it, unless its figure shows nothing.
export function foldText(id, title) {
    const section = document.getElementById(id), figure = section && section.querySelector(".figure");
    const rest = section ? [...section.children].filter((child) => !child.matches("h1, h2, .figure, .answer, noscript")) : [];
    const parts = rest.flatMap((child) => (child.matches(".trace") ? [...child.children] : [child]));
    if (!parts.some((part) => !/^(H\d|NOSCRIPT)$/.test(part.tagName)))
        return rest.forEach((child) => (child.hidden = true));
    if (figure && ![...figure.querySelectorAll("canvas")].some((canvas) => !canvas.closest("[hidden]")))
        return undefined;
    section.append(element("details", {class: "text"}, element("summary", {}, title), ...rest));
    return undefined;
}

// On paper all is open but the stacks of call sites, which the icicle shows.
export function openOnPaper() {
    let opened = [];
    window.addEventListener("beforeprint", () => {
        opened = [...document.querySelectorAll("details:not([open])")].filter((each) => !each.closest("table.live"));
        opened.forEach((each) => (each.open = true));
    });
    window.addEventListener("afterprint", () => opened.forEach((each) => (each.open = false)));
}

// Sizes a canvas in CSS pixels, and returns its context, scaled so that a unit is one of them.
export function sizeCanvas(canvas, width, height) {
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.max(1, Math.round(width * ratio));
    canvas.height = Math.max(1, Math.round(height * ratio));
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return context;
}

const asked = new Set();

// Calls a function once before the next frame is drawn, however often it was asked for.
export function onceAFrame(draw) {
    return () => {
        if (asked.has(draw))
            return;
        asked.add(draw);
        requestAnimationFrame(() => asked.delete(draw) && draw());
    };
}

// Does at once what waits for the next frame: a browser that prints draws none before.
export function drawNow() {
    const waiting = [...asked];
    asked.clear();
    waiting.forEach((draw) => draw());
}

// Cuts a text to what fits into a width, at its end.
export function fitText(context, text, width) {
    if (context.measureText(text).width <= width)
        return text;
    let low = 0, high = text.length;
    while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (context.measureText(text.slice(0, middle) + "\u2026").width <= width)
            low = middle;
        else
            high = middle - 1;
    }
    return low ? text.slice(0, low) + "\u2026" : "";
}
