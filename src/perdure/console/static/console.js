// The pages work without this script. With it, a page reads itself again when something has changed, keys decide,
// and what a model writes appears while it is written. Text is only ever set as text.
"use strict";

const served = new WeakMap(); // each part, with the HTML that the service sent for it
const dirty = new WeakSet(); // forms in which something was typed or chosen

function remember(root) {
  for (const one of root.querySelectorAll("[data-part]")) served.set(one, one.outerHTML);
}

function isBusy(part) {
  const forms = [...part.querySelectorAll("form")];
  return part.contains(document.activeElement) && document.activeElement.matches("input, textarea, select")
    || forms.some((form) => dirty.has(form));
}

function replace(have, want) {
  if (served.get(have) === want.outerHTML || isBusy(have)) return;
  const html = want.outerHTML;
  for (const one of have.querySelectorAll("details[open][id]")) {
    const same = want.querySelector("#" + CSS.escape(one.id));
    if (same) same.open = true;
  }
  const pick = want.querySelector("input[name=pick]");
  if (pick) pick.checked = have.querySelector("input[name=pick]").checked;
  const focused = have.contains(document.activeElement);
  have.replaceWith(want);
  served.set(want, html);
  if (focused) want.focus();
}

function say(text) {
  document.getElementById("announcement").textContent = text;
}

function title(item) {
  const heading = item.querySelector("h2, h3, th");
  return heading ? heading.textContent.trim().replace(/\s+/g, " ") : "";
}

// Focus never moves from an entry that left to another one: the next key would decide about what was not chosen.
function leave(one) {
  const focused = one.contains(document.activeElement), was = one.matches(".need") && title(one);
  one.remove();
  if (was) say(`Decided elsewhere: ${was}`);
  if (!focused) return;
  const heading = document.querySelector("h1");
  heading.tabIndex = -1;
  heading.focus();
}

function keepTyped(one) { // what a person typed about an entry that has left stays, and cannot be sent
  if (one.dataset.stale) return;
  one.dataset.stale = "yes";
  const note = document.createElement("p");
  note.className = "problem";
  note.textContent = "This was decided elsewhere. What you typed is still here.";
  one.querySelector("form").prepend(note);
  for (const button of one.querySelectorAll("button")) button.disabled = true;
  say(`Decided elsewhere: ${title(one)}`);
}

function merge(list, fresh) {
  const wanted = new Map([...fresh.children].map((one) => [one.id, one]));
  for (const one of [...list.children]) {
    if (!wanted.has(one.id)) isBusy(one) ? keepTyped(one) : leave(one);
  }
  let place = null;
  for (const one of [...wanted.values()]) {
    const have = one.id && document.getElementById(one.id);
    if (have) replace(have, one);
    else served.set(one, one.outerHTML);
    const kept = have && have.isConnected ? have : one;
    const follows = place ? place.nextElementSibling === kept : list.firstElementChild === kept;
    if (!follows && !(kept.isConnected && kept.contains(document.activeElement))) place ? place.after(kept) : list.prepend(kept);
    place = kept;
  }
}

async function refresh(address = location.href) {
  const answer = await fetch(address, { credentials: "same-origin" });
  if (answer.redirected && new URL(answer.url).pathname !== new URL(address, location.href).pathname) location.reload();
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const atEnd = window.innerHeight + window.scrollY >= document.body.scrollHeight - 120;
  document.title = page.title;
  for (const list of document.querySelectorAll("[data-list]")) {
    const fresh = page.getElementById(list.id);
    if (fresh) merge(list, fresh);
  }
  for (const part of document.querySelectorAll("[data-part]:not([data-list] [data-part])")) {
    const fresh = page.getElementById(part.id);
    if (fresh) replace(part, fresh);
  }
  const live = document.getElementById("live-text");
  if (live && live.dataset.over) clearText(live);
  if (atEnd && document.getElementById("timeline")) window.scrollTo(0, document.body.scrollHeight);
}

function span(name, text) {
  const made = document.createElement("span");
  made.className = name;
  made.textContent = text;
  return made;
}

function clearText(live) {
  live.textContent = "";
  live.hidden = true;
  delete live.dataset.over;
}

function follow(address) {
  const state = document.getElementById("live-state");
  const source = new EventSource(address);
  const live = document.getElementById("live-text");
  let due = 0;
  source.onopen = () => {
    if (live) clearText(live); // what was written before is sent again
    state.textContent = "Live.";
    document.body.dataset.state = "live";
  };
  source.onerror = () => { state.textContent = "The connection is lost; trying again."; };
  source.addEventListener("change", () => {
    if (live) live.dataset.over = "yes";
    if (!due) due = setTimeout(() => { due = 0; refresh().catch(() => {}); }, 200);
  });
  source.addEventListener("gone", () => { source.close(); location.reload(); });
  if (!live) return;
  source.addEventListener("text", (event) => {
    const { reply, pieces, is_cut } = JSON.parse(event.data);
    if (live.dataset.reply !== reply) clearText(live);
    live.dataset.reply = reply;
    delete live.dataset.over;
    live.hidden = false;
    for (const [text, isMark] of pieces) live.append(isMark ? span("mark", text) : text);
    if (is_cut) live.append(span("cut", "… the rest is shown when it is recorded"));
    live.scrollTop = live.scrollHeight;
  });
  source.addEventListener("discard", () => clearText(live));
}

function move(step) {
  const all = [...document.querySelectorAll("[data-item]")];
  const now = all.findIndex((one) => one.contains(document.activeElement));
  const next = all[Math.max(0, Math.min(all.length - 1, now + step))];
  if (next) { next.focus(); next.scrollIntoView({ block: "nearest" }); }
}

function arm(decision) { // y and n choose for the focused entry; the reason follows, and Enter sends
  const item = document.activeElement.closest("[data-item]");
  const reason = item && item.querySelector("textarea[name=because]");
  const button = item && item.querySelector(`button[value=${decision}]`);
  if (!reason || !button) return say("First choose an approval with j and k.");
  for (const one of item.querySelectorAll("button[name=decision]")) one.classList.toggle("armed", one === button);
  reason.focus();
  reason.onkeydown = (event) => {
    if (event.key === "Escape") { button.classList.remove("armed"); reason.onkeydown = null; item.focus(); }
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!button.disabled) reason.form.requestSubmit(button);
  };
}

let before = "";
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")
    || document.querySelector("dialog[open]")) return;
  const open = document.activeElement.querySelector && document.activeElement.querySelector("[data-open]");
  const key = event.key, was = before;
  before = key;
  const go = was === "g" && /^[a-z]$/.test(key) && document.querySelector(`[data-go="${key}"]`);
  if (go) go.click();
  else if (key === "j") move(1);
  else if (key === "k") move(-1);
  else if (key === "y") arm("approved");
  else if (key === "n") arm("denied");
  else if (key === "o" && open) open.click();
  else if (key === "?") document.getElementById("keys").showModal();
  else if (key === "/" && document.querySelector("[data-search]")) document.querySelector("[data-search]").focus();
  else return;
  event.preventDefault();
});
for (const kind of ["input", "change"]) {
  document.addEventListener(kind, (event) => { if (event.target.form) dirty.add(event.target.form); });
}
for (const slider of document.querySelectorAll("[data-slider]")) {
  slider.hidden = false;
  slider.addEventListener("input", () => {
    const address = slider.dataset.slider + slider.value;
    history.replaceState(null, "", address);
    clearTimeout(slider.due);
    slider.due = setTimeout(() => refresh(address).catch(() => {}), 100);
  });
}
remember(document);
document.body.dataset.script = "yes";
if (document.body.dataset.live) follow(document.body.dataset.live);
