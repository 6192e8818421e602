"use strict";
// Speaks while it is still being made: bare 16-bit samples, one sentence after another.

const RATE = 24000; // of response_format pcm
const at = (id) => document.getElementById(id);
let context = null; // of the browser's sound
let going = null; // what stops the request under way

function say(words, isWrong = false) {
  at("told").textContent = words;
  at("told").classList.toggle("wrong", isWrong);
}

function headers() {
  const token = at("token").value.trim();
  return token ? { Authorization: `Bearer ${token}` } : {};
}

async function problemOf(answer) {
  try {
    return (await answer.json()).error.message;
  } catch {
    return `The server answered ${answer.status}.`;
  }
}

async function loadVoices() {
  const answer = await fetch("v1/voices", { headers: headers() });
  if (answer.status === 401) {
    at("token-row").hidden = false;
    say("This server wants its token.");
    return;
  }
  if (!answer.ok) return say(await problemOf(answer), true);
  const { voices } = await answer.json();
  at("voice").replaceChildren(...voices.map(({ id }) => new Option(id, id)));
  say("");
}

// 16-bit samples to floats; an odd byte waits for the next part.
function floatsOf(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const samples = new Float32Array(bytes.length >> 1);
  for (let i = 0; i < samples.length; i++) samples[i] = view.getInt16(2 * i, true) / 32768;
  return samples;
}

function playAt(samples, when) {
  const buffer = context.createBuffer(1, samples.length, RATE);
  buffer.copyToChannel(samples, 0);
  const source = context.createBufferSource();
  source.buffer = buffer;
  source.connect(context.destination);
  const start = Math.max(when, context.currentTime + 0.02);
  source.start(start);
  return start + buffer.duration;
}

function wavOf(parts) {
  const size = parts.reduce((sum, part) => sum + part.length, 0);
  const head = new DataView(new ArrayBuffer(44));
  const text = (place, words) => [...words].forEach((c, i) => head.setUint8(place + i, c.charCodeAt(0)));
  text(0, "RIFF"); head.setUint32(4, 36 + size, true); text(8, "WAVEfmt ");
  head.setUint32(16, 16, true); head.setUint16(20, 1, true); head.setUint16(22, 1, true);
  head.setUint32(24, RATE, true); head.setUint32(28, 2 * RATE, true);
  head.setUint16(32, 2, true); head.setUint16(34, 16, true);
  text(36, "data"); head.setUint32(40, size, true);
  return new Blob([head.buffer, ...parts], { type: "audio/wav" });
}

async function speak() {
  going = new AbortController();
  context = new AudioContext({ sampleRate: RATE });
  const begun = performance.now();
  const answer = await fetch("v1/audio/speech", {
    method: "POST",
    headers: { ...headers(), "Content-Type": "application/json" },
    signal: going.signal,
    body: JSON.stringify({
      input: at("text").value, voice: at("voice").value || null, response_format: "pcm",
      speed: Number(at("speed").value), pitch: Number(at("pitch").value), stream: true,
    }),
  });
  if (!answer.ok) {
    if (answer.status === 401) at("token-row").hidden = false;
    throw new Error(await problemOf(answer));
  }
  const reader = answer.body.getReader();
  const parts = [];
  let odd = new Uint8Array(0), until = 0, first = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const bytes = new Uint8Array(odd.length + value.length);
    bytes.set(odd);
    bytes.set(value, odd.length);
    const even = bytes.length & ~1;
    odd = bytes.slice(even);
    if (!even) continue;
    if (!parts.length) first = `first sound after ${((performance.now() - begun) / 1000).toFixed(2)} s`;
    parts.push(bytes.slice(0, even));
    until = playAt(floatsOf(bytes.subarray(0, even)), until);
    say(`Speaking; ${first}.`);
  }
  const sound = wavOf(parts);
  URL.revokeObjectURL(at("again").src);
  at("again").src = at("save").href = URL.createObjectURL(sound);
  at("heard").hidden = false;
  say(`${((sound.size - 44) / 2 / RATE).toFixed(1)} s of speech; ${first}.`);
}

async function asked(event) {
  event.preventDefault();
  if (going) return;
  at("speak").disabled = true;
  at("stop").disabled = false;
  say("Asking…");
  try {
    if (!at("voice").options.length) await loadVoices();
    await speak();
  } catch (error) {
    if (error.name !== "AbortError") say(error.message, true);
  } finally {
    going = null;
    at("speak").disabled = false;
  }
}

function stopped() {
  if (going) going.abort();
  if (context) context.close();
  context = null;
  at("stop").disabled = true;
  say("");
}

for (const name of ["speed", "pitch"]) {
  at(name).addEventListener("input", () => {
    at(`${name}-shown`).textContent = Number(at(name).value).toFixed(name === "speed" ? 1 : 0);
  });
}
at("ask").addEventListener("submit", asked);
at("stop").addEventListener("click", stopped);
at("token").addEventListener("change", () => loadVoices().catch((error) => say(error.message, true)));
loadVoices().catch((error) => say(error.message, true));
