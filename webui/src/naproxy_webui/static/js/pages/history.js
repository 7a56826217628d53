// The history: which time is shown, and the parts of the page that show it.

import { all, ApiError, at, get, h, one, refusal, t } from "../kit/core.js";
import { clock, date, dateTime, dayInput, toInput } from "../kit/format.js";
import { calendarTitle, fromAddress, toAddress } from "../kit/range.js";
import { showChanges, showDecisions } from "./history/changes.js";
import { showEnergy } from "./history/energy.js";
import { showLedger } from "./history/ledger.js";
import { showPower } from "./history/power.js";
import { showRules } from "./history/rules.js";
import { showWakers } from "./history/wakers.js";

const views = all("[data-view]");
const server = at("server");
/** @type {Period | null} */
let range = null;
let turn = 0;

function wanted() {
	const { from, to, view = "day", day } = fromAddress(server);
	return from && to ? { from, to } : { view, day };
}

/** @param {Asked} query @param {{ replace?: boolean }} [options] */
function go(query, options) {
	toAddress(query, server, options);
	show(query);
}

/** Show a range of one's own, in epoch seconds. @param {number} from_s @param {number} to_s */
export const zoom = (from_s, to_s) =>
	go({ from: toInput(from_s), to: toInput(Math.max(to_s, from_s + 60)) });

/** @param {Asked} query @returns {Promise<void>} */
async function show(query) {
	const mine = ++turn;
	let found;
	try {
		found = await get("/api/history/range", query);
	} catch (error) {
		const { status } = refusal(error);
		if (mine !== turn) return;
		// No such time: an address that somebody typed.
		if (status === 400 && Object.keys(query).length) return go({}, { replace: true });
		return failed(at("power"), error);
	}
	if (mine !== turn) return;
	range = found;
	tell(range);
	const { from_s, to_s, now_s } = range;
	const current = () => mine === turn;
	/** @type {Told} */
	const told = {
		...{ server: server.value, from_s, to_s, now_s, zoom, current },
		follow: (place, work) => follow(place, work, current),
	};
	if (!told.server) return;
	/** @type {[HTMLElement, (place: any, told: Told) => Promise<void>][]} */
	const parts = [
		[at("power"), showPower],
		[at("energy"), showEnergy],
		[at("wakers"), showWakers],
		[at("ledger"), showLedger],
		[at("changes"), showChanges],
		[at("decisions"), showDecisions],
	];
	for (const [place, show] of parts) told.follow(place, show(place, told));
}

/**
 * Show what came of a part: if it was not read, what stands there is of another time.
 * @param {HTMLElement} place @param {Promise<unknown>} work @param {() => boolean} current
 */
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

/** @param {HTMLElement} place */
const partOf = (place) => /** @type {HTMLElement} */ (place.closest("details, section"));

/** @param {HTMLElement} place */
function well(place) {
	const part = partOf(place);
	part.classList.remove("not-read");
	one(":scope > [data-failed]", part)?.remove();
}

/** @param {HTMLElement} place @param {unknown} error */
function failed(place, error) {
	const { message } = refusal(error);
	well(place);
	const words = h(
		"p.hint",
		{ "data-failed": true, role: "alert" },
		t("history.failed", { error: message }),
	);
	one(":scope > header, :scope > summary", partOf(place)).after(words);
}

// What is shown, in words

/** @param {Period} range */
function title({ view, from_s, to_s }) {
	if (view !== null) return calendarTitle(view, from_s, to_s);
	return t("history.free_title", {
		from: dateTime(from_s),
		to: date(from_s) === date(to_s) ? clock(to_s) : dateTime(to_s),
	});
}

/** @param {Period} range */
function tell(range) {
	const free = range.view === null;
	for (const button of views)
		button.setAttribute("aria-pressed", String(button.dataset.view === (range.view ?? "free")));
	at("range-title").textContent = title(range);
	at("free").hidden = !free;
	one('[data-view="free"]').setAttribute("aria-expanded", String(free));
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
	for (const link of all("#exports a[data-what]"))
		link.href = exportOf(link.dataset.what ?? "", range);
}

/** @param {string} what @param {Period} range */
function exportOf(what, { from_s, to_s }) {
	// Meters have names of their own: theirs are all of them.
	const name = !["power", "energy"].includes(what) && server.value;
	const query = { what, from_s: String(from_s), to_s: String(to_s), ...(name ? { name } : {}) };
	return `/api/history/export?${new URLSearchParams(query)}`;
}

// Moving about

/** @param {number} by */
function step(by) {
	if (!range) return;
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
				day: range && dayInput(Math.min(range.now_s, range.to_s - 1)),
			});
		at("free").hidden = false;
		button.setAttribute("aria-expanded", "true");
		at("free-from").focus();
		return undefined;
	});
}
at("back").addEventListener("click", () => step(-1));
at("forward").addEventListener("click", () => step(1));
at("today").addEventListener("click", () => go({ view: range?.view ?? "day" }));
at("day").addEventListener("change", () => {
	const { value } = at("day");
	if (value) go({ view: range?.view ?? "day", day: value });
});
at("free").addEventListener("submit", (event) => {
	event.preventDefault();
	go({ from: at("free-from").value, to: at("free-to").value });
});
server.addEventListener("change", () => {
	if (!range) go({});
	else if (range.view !== null) go({ view: range.view, day: range.day });
	else go({ from: toInput(range.from_s), to: toInput(range.to_s) });
});
addEventListener("popstate", () => show(wanted()));

show(wanted());
showRules(at("rules")).catch((error) => failed(at("rules"), error));
