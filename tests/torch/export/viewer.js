// SPDX-License-Identifier: Apache-2.0
// A reader of PyTorch's memory snapshots by the rules of its own viewer, as the format's description has them, but strict: where
// that would show nonsense or stop, this one says what is wrong. Runs in node and in a browser.
//
// What it keeps to: opcodes of pickle that the viewer knows; one APPENDS adds at most 1000 elements; integers have at most 8
// bytes and are exact in JavaScript; `segments` are what there is at the end, their blocks tile them; the traces are gone
// through backwards from there, each entry fits what there is, and at the beginning there is nothing.
'use strict';

function fail(text) {
  throw new Error(text);
}

function unpickle(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = new TextDecoder('utf-8', {fatal: true});
  const stack = [], marks = [], memo = new Map();
  let at = 0;
  const string = n => { at += n; return text.decode(bytes.subarray(at - n, at)); };
  const long = n => {
    if (n > 8) fail('an integer of ' + n + ' bytes');
    let value = 0n;
    for (let i = n - 1; i >= 0; i--) value = value << 8n | BigInt(bytes[at + i]);
    if (n && bytes[at + n - 1] >= 128) value -= 1n << BigInt(8 * n);
    at += n;
    const number = Number(value);
    if (BigInt(number) !== value) fail('an integer that JavaScript has not: ' + value);
    return number;
  };
  const above = () => stack.splice(marks.pop());
  const keep = id => { if (memo.has(id)) fail('memo ' + id + ' twice'); memo.set(id, stack[stack.length - 1]); };
  const get = id => { if (!memo.has(id)) fail('no memo ' + id); stack.push(memo.get(id)); };
  const items = (to, list) => { for (let i = 0; i < list.length; i += 2) to[list[i]] = list[i + 1]; };
  const ops = {
    0x80: () => { const v = bytes[at++]; if (v < 2 || v > 4) fail('protocol ' + v); },
    0x28: () => marks.push(stack.length),
    0x4e: () => stack.push(null),
    0x88: () => stack.push(true),
    0x89: () => stack.push(false),
    0x4a: () => { stack.push(view.getInt32(at, true)); at += 4; },
    0x4b: () => stack.push(bytes[at++]),
    0x4d: () => { stack.push(view.getUint16(at, true)); at += 2; },
    0x8a: () => { const n = bytes[at++]; stack.push(long(n)); },
    0x58: () => { const n = view.getUint32(at, true); at += 4; stack.push(string(n)); },
    0x7d: () => stack.push({}),
    0x5d: () => stack.push([]),
    0x86: () => stack.push(stack.splice(-2)),
    0x65: () => {
      const list = above();
      if (list.length > 1000) fail('APPENDS of ' + list.length);
      stack[stack.length - 1].push(...list);
    },
    0x73: () => { const [key, value] = stack.splice(-2); stack[stack.length - 1][key] = value; },
    0x75: () => { const list = above(); items(stack[stack.length - 1], list); },
    0x71: () => keep(bytes[at++]),
    0x72: () => { keep(view.getUint32(at, true)); at += 4; },
    0x68: () => get(bytes[at++]),
    0x6a: () => { get(view.getUint32(at, true)); at += 4; },
  };
  for (;;) {
    const op = bytes[at++];
    if (op === 0x2e) break;
    (ops[op] || (() => fail('opcode ' + op + ' at ' + (at - 1))))();
  }
  if (stack.length !== 1 || marks.length || at !== bytes.length) fail('something is left over');
  return stack[0];
}

function number(value, what) {
  if (!Number.isSafeInteger(value) || value < 0) fail(what + ' is ' + value);
  return value;
}

function frames(list) {
  for (const f of list)
    if (typeof f.name !== 'string' || typeof f.filename !== 'string' || !Number.isSafeInteger(f.line))
      fail('a frame is ' + JSON.stringify(f));
}

// The final state of one device: segments sorted by address, blocks by address.
function final(snapshot, device) {
  const segments = [], blocks = new Map();
  for (const s of snapshot.segments.filter(s => s.device === device)) {
    let at = number(s.address, 'address'), active = 0;
    for (const b of s.blocks) {
      if (b.address !== at) fail('a block at ' + b.address + ' where ' + at + ' is next');
      if (b.state === 'active_allocated') {
        blocks.set(b.address, number(b.size, 'size'));
        active += b.size;
      } else if (b.state !== 'inactive') {
        fail('state ' + b.state);
      }
      frames(b.frames);
      at += b.size;
    }
    frames(s.frames);
    if (at !== s.address + s.total_size) fail('blocks do not fill segment ' + s.address);
    if (active !== s.allocated_size || active !== s.active_size) fail('allocated_size of ' + s.address);
    segments.push({addr: s.address, size: s.total_size, stream: s.stream});
  }
  segments.sort((a, b) => a.addr - b.addr);
  for (let i = 1; i < segments.length; i++)
    if (segments[i - 1].addr + segments[i - 1].size > segments[i].addr) fail('segments overlap');
  return {segments, blocks};
}

// As the viewer: a mapping that goes (backwards: comes) is joined to its neighbours of the same stream, others never. (It
// joins one to what was allocated in one piece, too; only a trace made of random events has both side by side.)
function add(list, addr, size, stream, join) {
  let i = list.findIndex(s => s.addr > addr);
  if (i < 0) i = list.length;
  if (i > 0 && list[i - 1].addr + list[i - 1].size > addr || i < list.length && addr + size > list[i].addr)
    fail('segment ' + addr + ' overlaps');
  list.splice(i, 0, {addr, size, stream, whole: !join});
  const joins = at => join && list[at] && list[at + 1] && list[at].addr + list[at].size === list[at + 1].addr &&
                      list[at].stream === list[at + 1].stream && !list[at].whole && !list[at + 1].whole;
  for (const at of [i, i - 1])
    if (joins(at)) {
      list[at].size += list[at + 1].size;
      list.splice(at + 1, 1);
    }
}

function take(list, addr, size, part) {
  if (!part) {
    const i = list.findIndex(s => s.addr === addr);
    if (i < 0 || list[i].size !== size) fail('no segment of ' + size + ' at ' + addr);
    list.splice(i, 1);
    return;
  }
  const i = list.findIndex(s => s.addr <= addr && addr + size <= s.addr + s.size);
  if (i < 0) fail('no segment around ' + addr);
  const s = list[i], end = s.addr + s.size;
  const rest = [{...s, size: addr - s.addr}, {...s, addr: addr + size, size: end - addr - size}];
  list.splice(i, 1, ...rest.filter(r => r.size));
}

function inside(list, addr, size) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = low + high >> 1;
    if (list[middle].addr + list[middle].size <= addr) low = middle + 1; else high = middle;
  }
  return low < list.length && list[low].addr <= addr && addr + size <= list[low].addr + list[low].size;
}

// Goes back to the beginning of a trace; the most that was allocated and reserved on the way.
function replay(snapshot, device) {
  const {segments, blocks} = final(snapshot, device);
  const sum = list => list.reduce((n, s) => n + s.size, 0);
  let allocated = [...blocks.values()].reduce((a, b) => a + b, 0), reserved = sum(segments);
  const found = {segments: segments.length, reserved, blocks: blocks.size, allocated, peak_allocated: 0, peak_reserved: 0};
  const trace = snapshot.device_traces[device];
  for (let i = trace.length - 1; i >= 0; i--) {
    const e = trace[i];
    found.peak_allocated = Math.max(found.peak_allocated, allocated);
    found.peak_reserved = Math.max(found.peak_reserved, reserved);
    frames(e.frames);
    number(e.size, 'size');
    number(e.time_us, 'time_us');
    if (e.action === 'oom') number(e.device_free, 'device_free'); else number(e.addr, 'addr');
    switch (e.action) {
      case 'free_completed': {
        const before = trace[i - 1];
        if (blocks.has(e.addr) || !inside(segments, e.addr, e.size)) fail('free_completed of ' + e.addr);
        if (!before || before.action !== 'free_requested' || before.addr !== e.addr) fail('free_completed alone');
        blocks.set(e.addr, e.size);
        allocated += e.size;
        break;
      }
      case 'free_requested':
        if (!blocks.has(e.addr)) fail('free_requested of ' + e.addr);
        break;
      case 'alloc':
        if (blocks.get(e.addr) !== e.size || !inside(segments, e.addr, e.size)) fail('alloc of ' + e.addr);
        blocks.delete(e.addr);
        allocated -= e.size;
        break;
      case 'segment_free':
      case 'segment_unmap':
        add(segments, e.addr, e.size, e.stream, e.action === 'segment_unmap');
        reserved += e.size;
        break;
      case 'segment_alloc':
      case 'segment_map':
        take(segments, e.addr, e.size, e.action === 'segment_map');
        reserved -= e.size;
        break;
      case 'snapshot':
      case 'oom':
        break;
      default:
        fail('action ' + e.action);
    }
  }
  if (segments.length || blocks.size) fail('something was there before the beginning');
  return found;
}

function read(bytes) {
  const snapshot = unpickle(bytes);
  const categories = [...new Set(snapshot.device_traces.flat().filter(e => 'category' in e).map(e => e.category))];
  if (categories.length && !categories.includes('unknown')) fail('categories without unknown');
  for (const s of snapshot.segments)
    if (!snapshot.device_traces[s.device]) fail('a segment of device ' + s.device);
  return {
    devices: snapshot.device_traces.map((_, device) => replay(snapshot, device)),
    entries: snapshot.device_traces.map(t => t.length),
    categories,
    settings: snapshot.allocator_settings,
  };
}

if (typeof module !== 'undefined')
  module.exports = {unpickle, read};
if (typeof process !== 'undefined' && typeof require !== 'undefined' && require.main === module)
  console.log(JSON.stringify(read(new Uint8Array(require('fs').readFileSync(process.argv[2])))));
