// The history: which time is shown, and the parts of the page that show it.

import { ApiError, get, h, t } from "../kit/core.js";
import { clock, date, dateTime, dayInput, toInput } from "../kit/format.js";
import { calendarTitle, fromAddress, toAddress } from "../kit/range.js";
import { showChanges, showDecisions } from "./history/changes.js";
import { showEnergy } from "./history/energy.js";
import { showLedger } from "./history/ledger.js";
import { showPower } from "./history/power.js";
import { showRules } from "./history/rules.js";
import { showWakers } from "./history/wakers.js";

const at = (id) => document.getElementById(id);
const views = [...document.querySelectorAll("[data-view]")];
const server = at("server");
let range = null,
	turn = 0;

function wanted() {
	const { from, to, view = "day", day } = fromAddress(server);
	return from && to ? { from, to } : { view, day };
}

function go(query, options) {
	toAddress(query, server, options);
	show(query);
}

/** Show a range of one's own, in epoch seconds. */
export const zoom = (from_s, to_s) =>
	go({ from: toInput(from_s), to: toInput(Math.max(to_s, from_s + 60)) });

async function show(query) {
	const mine = ++turn;
	let found;
	try {
		found = await get("/api/history/range", query);
	} catch (error) {
		if (!(error instanceof ApiError)) throw error;
		if (mine !== turn) return undefined;
		// No such time: an address that somebody typed.
		if (error.status === 400 && Object.keys(query).length) return go({}, { replace: true });
		return failed(at("power"), error);
	}
	if (mine !== turn) return undefined;
	range = found;
	tell();
	const told = {
		server: server.value,
		from_s: range.from_s,
		to_s: range.to_s,
		now_s: range.now_s,
		zoom,
		current: () => mine === turn,
	};
	told.follow = (place, work) => follow(place, work, told.current);
	if (!told.server) return undefined;
	for (const [place, part] of [
		[at("power"), showPower],
		[at("energy"), showEnergy],
		[at("wakers"), showWakers],
		[at("ledger"), showLedger],
		[at("changes"), showChanges],
		[at("decisions"), showDecisions],
	]) {
		told.follow(place, part(place, told));
	}
	return undefined;
}

/** Show what came of a part: if it was not read, what stands there is of another time. */
async function follow(place, work, current) {
	try {
		await work;
		if (current()) well(place);
	} catch (error) {
		if (!current() && error instanceof ApiError) return;
		failed(place, error);
		partOf(place).classList.add("not-read");
	}
}

const partOf = (place) => place.closest("details, section");

function well(place) {
	const part = partOf(place);
	part.classList.remove("not-read");
	part.querySelector(":scope > [data-failed]")?.remove();
}

function failed(place, error) {
	if (!(error instanceof ApiError)) throw error;
	well(place);
	const words = h(
		"p.hint",
		{ "data-failed": true, role: "alert" },
		t("history.failed", { error: error.message }),
	);
	partOf(place).querySelector(":scope > header, :scope > summary").after(words);
}

// What is shown, in words

function title({ view, from_s, to_s }) {
	if (view !== null) return calendarTitle(view, from_s, to_s);
	return t("history.free_title", {
		from: dateTime(from_s),
		to: date(from_s) === date(to_s) ? clock(to_s) : dateTime(to_s),
	});
}

function tell() {
	const free = range.view === null;
	for (const button of views)
		button.setAttribute("aria-pressed", String(button.dataset.view === (range.view ?? "free")));
	at("range-title").textContent = title(range);
	at("free").hidden = !free;
	document.querySelector('[data-view="free"]').setAttribute("aria-expanded", String(free));
	at("free-from").value = toInput(range.from_s);
	at("free-to").value = toInput(
		Math.min(range.to_s, free ? Infinity : Math.max(range.now_s, range.from_s + 60)),
	);
	at("day").value = range.day ?? dayInput(range.from_s);
	at("forward").disabled = range.next === null && (!free || range.to_s >= range.now_s);
	at("today").hidden =
		range.view !== null && range.from_s <= range.now_s && range.now_s < range.to_s;
	const hours = (range.to_s - range.from_s) / 3600;
	at("range-note").hidden = range.view !== "day" || hours === 24;
	at("range-note").textContent = t("history.long_day", { hours: String(hours) });
	for (const link of document.querySelectorAll("#exports [data-what]"))
		link.href = exportOf(link.dataset.what);
}

function exportOf(what) {
	const query = { what, from_s: range.from_s, to_s: range.to_s };
	// Meters have names of their own: theirs are all of them.
	if (!["power", "energy"].includes(what) && server.value) query.name = server.value;
	return `/api/history/export?${new URLSearchParams(query)}`;
}

// Moving about

function step(by) {
	if (range.view !== null)
		return go({ view: range.view, day: by < 0 ? range.previous : range.next });
	const length_s = (range.to_s - range.from_s) * by;
	return zoom(range.from_s + length_s, range.to_s + length_s);
}

for (const button of views) {
	button.addEventListener("click", () => {
		if (button.dataset.view !== "free")
			return go({
				view: button.dataset.view,
				day: dayInput(Math.min(range.now_s, range.to_s - 1)),
			});
		at("free").hidden = false;
		button.setAttribute("aria-expanded", "true");
		at("free-from").focus();
		return undefined;
	});
}
at("back").addEventListener("click", () => step(-1));
at("forward").addEventListener("click", () => step(1));
at("today").addEventListener("click", () => go({ view: range.view ?? "day" }));
at("day").addEventListener(
	"change",
	(event) => event.target.value && go({ view: range.view ?? "day", day: event.target.value }),
);
at("free").addEventListener("submit", (event) => {
	event.preventDefault();
	go({ from: at("free-from").value, to: at("free-to").value });
});
server.addEventListener("change", () =>
	go(
		range.view === null
			? { from: toInput(range.from_s), to: toInput(range.to_s) }
			: { view: range.view, day: range.day },
	),
);
addEventListener("popstate", () => show(wanted()));

show(wanted());
showRules(at("rules")).catch((error) => failed(at("rules"), error));
