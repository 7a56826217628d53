// The history: which tab, time and search are shown, all of them in the address.

import { all, along, ApiError, at, get, h, one, refusal, t } from "../kit/core.js";
import { clock, date, dateTime, dayInput, moment, toInput } from "../kit/format.js";
import { calendarTitle } from "../kit/range.js";
import { showChanges, showDecisions } from "./history/changes.js";
import { showEnergy } from "./history/energy.js";
import { showLedger } from "./history/ledger.js";
import { showPower } from "./history/power.js";
import { showRules } from "./history/rules.js";
import { showWakers } from "./history/wakers.js";

/** @type {[HTMLElement, (place: any, told: Told) => Promise<void>][]} */
const TIMELINE = [
	[at("power"), showPower],
	[at("energy"), showEnergy],
];
/** @type {typeof TIMELINE} */
const WAKES = [
	[at("wakers"), showWakers],
	[at("rules"), showRules],
	[at("ledger"), showLedger],
];
/** @type {typeof TIMELINE} */
const DECISIONS = [
	[at("decisions"), showDecisions],
	[at("changes"), showChanges],
];
/** @type {Record<string, typeof TIMELINE>} */
const TABS = { timeline: TIMELINE, wakes: WAKES, decisions: DECISIONS };
/** The URL's parameters of the time, and those of each tab. */
const OF_TIME = ["view", "day", "from", "to", "server"];
/** @type {Record<string, string[]>} */
const OF_TAB = { timeline: [], wakes: ["by", "text", "class", "cause", "outcome"], decisions: [] };
const VIEWS = ["day", "week", "month", "year"];

const views = all("[data-view]");
const tabs = all("[role=tab]");
const server = at("server");
/** The URL's parameters. @type {Record<string, string>} */
let asked = {};
/** @type {Period | null} */
let range = null;
/** The day, week, ... in which the user chose `range` as a part. @type {Period | null} */
let whole = null;
/** The parameters shown last: of the time, and of each tab. @type {Record<string, string>} */
let shown = {};
let turn = 0;

const tab = () => (asked.tab in TABS ? asked.tab : "timeline");
/** @param {string[]} names */
const key = (names) => JSON.stringify(names.map((name) => asked[name] ?? ""));

function read() {
	asked = Object.fromEntries(new URLSearchParams(location.search));
	if ([...server.options].some((each) => each.value === asked.server))
		server.value = asked.server;
}

/** @param {Asked} changes */
function query(changes) {
	const known = Object.entries({ ...asked, ...changes }).filter(([, value]) => value);
	return `?${new URLSearchParams(/** @type {[string, string][]} */ (known))}`;
}

/** @param {Asked} changes @param {{ replace?: boolean }} [options] */
function go(changes, { replace = false } = {}) {
	history[replace ? "replaceState" : "pushState"](null, "", query(changes));
	show();
}

const NO_TIME = { view: "", day: "", from: "", to: "" };
/** @param {Asked} time @param {{ replace?: boolean }} [options] */
const goTime = (time, options) =>
	go(
		{ ...NO_TIME, ...time, server: server.options.length > 1 ? server.value : asked.server },
		options,
	);

/**
 * Zoom to a part of the range, in epoch seconds; the whole range stays in the URL.
 * @param {number} from_s @param {number} to_s
 */
function zoom(from_s, to_s) {
	if (whole && from_s <= whole.from_s + 1 && to_s >= whole.to_s - 1) return back();
	const { view = null, day = null } = whole ?? {};
	const to = moment(Math.max(to_s, from_s + 60));
	return goTime({ view, day, from: moment(from_s), to });
}

/** The day, week, ... as a whole again. */
function back() {
	if (whole) goTime({ view: whole.view, day: whole.day });
}

/** Show what the address asks for, as far as it is not shown. @returns {Promise<void>} */
async function show() {
	read();
	const time = key(OF_TIME);
	choose(tab());
	if (!range || shown.time !== time) {
		const mine = ++turn;
		const found = await ranges();
		if (mine !== turn || !found) return;
		[range, whole] = found;
		shown = { time };
		tell(range);
	}
	links(range);
	const name = tab();
	const own = key(OF_TAB[name]);
	if (shown[name] === own) return;
	shown[name] = own;
	const mine = turn;
	const current = () => mine === turn && shown[name] === own;
	const { from_s, to_s, now_s } = range;
	/** @type {Told} */
	const told = {
		...{ server: server.value, from_s, to_s, now_s, whole, zoom, back, asked, go, current },
		follow: (place, work) => follow(place, work, current),
	};
	if (told.server) for (const [place, part] of TABS[name]) told.follow(place, part(place, told));
}

/**
 * The requested range, and the one it is a part of; null if reading it failed.
 * @returns {Promise<[Period, Period | null] | null>}
 */
async function ranges() {
	const mine = turn;
	const { view, day, from, to } = asked;
	/** @type {Asked} */
	const time = from && to ? { from, to } : { view: view ?? "day", day };
	try {
		const found = await get("/api/history/range", time);
		if (found.view !== null) return [found, found];
		return [found, await around(found, view, day)];
	} catch (error) {
		const { status } = refusal(error);
		if (mine !== turn) return null;
		// No such time: an address that somebody typed.
		const typed = OF_TIME.some((name) => name !== "server" && asked[name]);
		if (status === 400 && typed) goTime({}, { replace: true });
		else failed(TABS[tab()][0][0], error);
		return null;
	}
}

/**
 * The day, week, month or year that contains a range: the one in the URL, else the shortest.
 * @param {Period} part @param {string | undefined} view @param {string | undefined} day
 */
async function around(part, view, day) {
	const first = VIEWS.findIndex(
		(_, n) => part.to_s - part.from_s <= [1.05, 7.1, 31.1, 367][n] * 86400,
	);
	for (const each of view ? [view] : first < 0 ? [] : VIEWS.slice(first)) {
		const asking = { view: each, day: view ? day : dayInput(part.from_s) };
		const found = await get("/api/history/range", asking);
		if (found.from_s <= part.from_s && part.to_s <= found.to_s) return found;
	}
	return null;
}

/**
 * Show the result of reading a part: after a failure its old content belongs to another time.
 * @param {HTMLElement} place @param {Promise<unknown>} work @param {() => boolean} current
 */
async function follow(place, work, current) {
	try {
		await work;
		if (current()) well(place);
	} catch (error) {
		if (!current() && error instanceof ApiError) return;
		// Read a failed part again when it is shown again.
		delete shown[tab()];
		failed(place, error);
		partOf(place).classList.add("not-read");
	}
}

/** @param {HTMLElement} place */
const partOf = (place) => /** @type {HTMLElement} */ (place.closest("section"));

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
	one(":scope > header", partOf(place)).after(words);
}

// The range in words

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
	const pressed = range.view ?? (asked.view ? "" : "free");
	for (const button of views)
		button.setAttribute("aria-pressed", String(button.dataset.view === pressed));
	at("range-title").textContent = title(range);
	at("free").hidden = pressed !== "free";
	one('[data-view="free"]').setAttribute("aria-expanded", String(pressed === "free"));
	at("free-from").value = toInput(range.from_s);
	at("free-to").value = toInput(
		Math.min(range.to_s, free ? Infinity : Math.max(range.now_s, range.from_s + 60)),
	);
	at("day").value = range.day ?? dayInput(range.from_s);
	at("forward").disabled = range.next === null && (!free || range.to_s >= range.now_s);
	at("today").classList.toggle(
		"invisible",
		range.view !== null && range.from_s <= range.now_s && range.now_s < range.to_s,
	);
	const hours = (range.to_s - range.from_s) / 3600;
	at("range-note").hidden = range.view !== "day" || hours === 24;
	at("range-note").textContent = t("history.long_day", { hours: String(hours) });
}

/** Let the tabs and the downloads link to the shown range. @param {Period} range */
function links({ from_s, to_s }) {
	for (const each of tabs) each.setAttribute("href", query({ tab: each.id.slice(4) }));
	const search = OF_TAB.wakes.filter((name) => name !== "by" && asked[name]);
	for (const link of all(".downloads a")) {
		const { what = "", format = "" } = link.dataset;
		const values = { what, format, from_s, to_s, server: server.value };
		const more = what === "wakes" ? search.map((name) => [name, asked[name]]) : [];
		const words = [...Object.entries(values), ...more].map(([k, v]) => [k, String(v)]);
		link.setAttribute("href", `/api/history/export?${new URLSearchParams(words)}`);
	}
}

// The tabs

/** @param {string} name */
function choose(name) {
	for (const each of tabs) {
		const is = each.id === `tab-${name}`;
		each.setAttribute("aria-selected", String(is));
		each.tabIndex = is ? 0 : -1;
		at(/** @type {"panel-wakes"} */ (`panel-${each.id.slice(4)}`)).hidden = !is;
	}
}

for (const [number, each] of tabs.entries()) {
	each.addEventListener("click", (event) => {
		if (event.ctrlKey || event.metaKey || event.shiftKey) return;
		event.preventDefault();
		if (tab() !== each.id.slice(4)) go({ tab: each.id.slice(4) });
	});
	each.addEventListener("keydown", (event) => {
		/** @type {Record<string, number>} */
		const steps = { ArrowRight: number + 1, ArrowLeft: number - 1, Home: 0, End: -1 };
		const key = along(event.key);
		if (key === " ") each.click();
		else if (key in steps) tabs.at(steps[key] % tabs.length)?.focus();
		else return;
		event.preventDefault();
	});
}

// Moving about

/** @param {number} by */
function step(by) {
	if (!range) return;
	if (range.view !== null)
		return goTime({ view: range.view, day: by < 0 ? range.previous : range.next });
	const length_s = (range.to_s - range.from_s) * by;
	const [from_s, to_s] = [range.from_s + length_s, range.to_s + length_s];
	const beside = whole && from_s >= whole.from_s && to_s <= whole.to_s;
	const { view = null, day = null } = (beside && whole) || {};
	return goTime({ view, day, from: moment(from_s), to: moment(to_s) });
}

for (const button of views) {
	button.addEventListener("click", () => {
		if (button.dataset.view !== "free")
			return goTime({
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
at("today").addEventListener("click", () => goTime({ view: range?.view ?? "day" }));
at("day").addEventListener("change", () => {
	const { value } = at("day");
	if (value) goTime({ view: range?.view ?? "day", day: value });
});
at("free").addEventListener("submit", (event) => {
	event.preventDefault();
	goTime({ from: at("free-from").value, to: at("free-to").value });
});
server.addEventListener("change", () => go({ server: server.value }));
addEventListener("popstate", show);

show();
