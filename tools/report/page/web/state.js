// SPDX-License-Identifier: Apache-2.0
// What the page shows: which device of which trace, the moment, the range of time, the units of the axis. Figures draw
// themselves anew when it changes.

export function createState(traces, shown) {
    let now = shown;
    const listeners = [];
    const state = {
        get: () => now,
        trace: () => traces[now.trace],
        device: () => traces[now.trace].devices[now.device],
        set(change) {
            const before = now;
            now = {...now, ...change};
            if (Object.keys(change).some((key) => before[key] !== now[key]))
                listeners.forEach((listener) => listener(now, before));
        },
        listen(listener) {
            listeners.push(listener);
        },
    };
    return state;
}
