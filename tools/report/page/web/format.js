// SPDX-License-Identifier: Apache-2.0
// Sizes, shares and times as the program's own views write them (tools/base/human.c).

const NAMES = {iec: ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"], si: ["B", "kB", "MB", "GB", "TB", "PB", "EB"]};
let units = "iec";

// "iec", "si" or "bytes", as --units of the command that wrote the page.
export function setUnits(wanted) {
    units = wanted;
}

export const getUnits = () => units;

const stepOfUnits = () => (units === "si" ? 1000 : 1024);

export function formatBytes(bytes) {
    if (bytes === null || bytes === undefined)
        return "-";
    if (bytes < 0)
        return `-${formatBytes(-bytes)}`;
    const step = stepOfUnits();
    if (units === "bytes" || bytes < step)
        return units === "bytes" ? String(bytes) : `${bytes} B`;
    let power = 0, unit = 1;
    while (power < 6 && bytes / unit >= step) {
        unit *= step;
        power++;
    }
    let hundredths = Math.floor(bytes * 100 / unit + 0.5);
    if (hundredths >= step * 100 && power < 6) {
        hundredths = 100;
        power++;
    }
    return `${Math.floor(hundredths / 100)}.${String(hundredths % 100).padStart(2, "0")} ${NAMES[units][power]}`;
}

// Round sizes on an axis, all in the unit of the largest.
export function formatTicks(places) {
    let power = 0, unit = 1;
    if (units === "bytes")
        return places.map(String);
    for (; power < 6 && places[places.length - 1] / unit >= stepOfUnits(); power++)
        unit *= stepOfUnits();
    return places.map((bytes) => `${+(bytes / unit).toFixed(3)} ${NAMES[units][power]}`);
}

export function formatShare(part, whole) {
    if (!whole || part === null || part === undefined)
        return "-";
    const tenths = Math.floor(part * 1000 / whole + 0.5);
    if (tenths === 0 && part > 0)
        return "<0.1 %";
    if (tenths >= 1000 && part < whole)
        return ">99.9 %";
    return `${Math.floor(tenths / 10)}.${tenths % 10} %`;
}

export function formatCount(count) {
    const digits = String(count);
    return digits.length > 4 ? digits.replace(/\B(?=(\d{3})+$)/g, "\u202f") : digits;
}

const two = (number) => String(number).padStart(2, "0");

function formatClock(seconds) {
    const days = Math.floor(seconds / 86400), hours = Math.floor(seconds / 3600) % 24;
    const rest = `${two(Math.floor(seconds / 60) % 60)}:${two(Math.floor(seconds) % 60)}`;
    return days ? `${days}d ${two(hours)}:${rest}` : `${hours}:${rest}`;
}

export function formatElapsed(ns) {
    const ms = Math.floor(ns / 1e6 + 0.5);
    if (ms < 60000)
        return `+${Math.floor(ms / 1000)}.${String(ms % 1000).padStart(3, "0")} s`;
    if (ms < 86400000)
        return `+${formatClock(Math.floor(ms / 1000))}.${String(ms % 1000).padStart(3, "0")}`;
    return `+${formatClock(Math.floor(ns / 1e9 + 0.5))}`;
}

export function formatDuration(ns) {
    if (ns < 10000)
        return `${Math.round(ns)} ns`;
    if (ns < 1e7)
        return `${Math.round(ns / 1e3)} us`;
    if (ns < 1e9)
        return `${Math.round(ns / 1e6)} ms`;
    return ns < 6e10 ? `${(ns / 1e9).toFixed(1)} s` : formatClock(Math.round(ns / 1e9));
}

// The time of day in UTC, of nanoseconds since 1970 (of which the last digits do not matter here).
export function formatUtc(utcNs, digits = 0) {
    const date = new Date(utcNs / 1e6);
    if (isNaN(date))
        return "-";
    const seconds = digits ? `.${date.toISOString().slice(20, 20 + Math.min(digits, 3))}` : "";
    return `${date.toISOString().slice(11, 19)}${seconds}Z`;
}

// ---- round places of an axis

const SECOND_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

function timeStep(span, count) {
    const least = span / count / 1e9;
    if (least >= 86400)
        return Math.ceil(least / 86400) * 86400e9;
    if (least > 0.5)
        return SECOND_STEPS.find((step) => step >= least) * 1e9;
    const power = 10 ** Math.floor(Math.log10(Math.max(least, 1e-9)));
    return [1, 2, 5, 10].find((step) => step * power >= least * 0.999999) * power * 1e9;
}

// Round times between two, and their texts: elapsed, or of the day if `utc` is that of time 0.
export function timeTicks(from, to, count, utc) {
    const step = timeStep(to - from, count), shift = utc === null ? 0 : utc % 86400e9;
    const digits = step >= 1e9 ? 0 : Math.min(9, Math.ceil(-Math.log10(step / 1e9) - 1e-9));
    const places = [], texts = [];
    for (let k = Math.ceil((from + shift) / step); k * step <= to + shift; k++) {
        const place = k * step - shift;
        places.push(place);
        if (utc !== null)
            texts.push(formatUtc(utc + place, digits));
        else if (to < 120e9)
            texts.push(`${(place / 1e9).toFixed(digits)} s`);
        else
            texts.push(formatClock(Math.floor(place / 1e9 + 1e-6)) +
                (digits ? (place / 1e9 % 1).toFixed(digits).slice(1) : ""));
    }
    return {places, texts};
}

export function bytesTicks(top, count) {
    let step = 1;
    for (let k = 0; top / step > count; k++) // 1, 2, 4, 8; of powers of ten 1, 2, 5, 10
        step *= units !== "iec" && k % 3 === 1 ? 2.5 : 2;
    const places = [];
    for (let at = 0; at <= top; at += step)
        places.push(at);
    return places;
}
