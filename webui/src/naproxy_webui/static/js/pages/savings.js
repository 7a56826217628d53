// Savings: which time is shown, and the parts of the page that show it.

import { alarm, all, at, fill, get, h, notice, refusal, t } from "../kit/core.js";
import { date, dayInput, unknown } from "../kit/format.js";
import { calendarTitle, fromAddress, toAddress } from "../kit/range.js";
import { showExact, showSaved } from "./savings/saved.js";
import { showPaid } from "./savings/paid.js";
import { showMore } from "./savings/more.js";
import { showIf } from "./savings/if.js";

const views = all("[data-view]");
const server = at("server");
/** @type {Saved | null} */
let range = null;
let turn = 0;

function wanted() {
	const { view = "month", day } = fromAddress(server);
	return { view, day };
}

/** @param {Asked} query @param {{ replace?: boolean }} [options] */
function go(query, options) {
	toAddress(query, server, options);
	show(query);
}

/** @param {Asked} query @returns {Promise<void>} */
async function show(query) {
	const mine = ++turn;
	const asked = { server: server.value, ...query };
	if (!asked.server) return failed(t("savings.nothing"));
	let found;
	try {
		found = await get("/api/savings", asked);
	} catch (error) {
		const { status, message } = refusal(error);
		if (mine !== turn) return;
		if (status === 400 && query.day) return go({}, { replace: true });
		return failed(message);
	}
	if (mine !== turn) return;
	range = found;
	tell(found);
	const scope = {
		server: asked.server,
		view: found.view,
		...(found.day ? { day: found.day } : {}),
	};
	const told = { scope, saved: found, current: () => mine === turn };
	showSaved(told);
	showExact(told);
	showIf(told);
	for (const work of [showPaid(told), showMore(told)]) {
		work.catch((error) => failed(refusal(error).message));
	}
}

/** @param {string} words */
const failed = (words) => fill(at("problem"), alarm(h("p", words)));

/** @param {Saved} range */
function title({ view, from_s, end_s, first_s }) {
	if (view !== "all") return calendarTitle(view, from_s, end_s);
	return t("savings.all_title", { date: first_s === null ? unknown : date(first_s) });
}

/** @param {Saved} range */
function tell(range) {
	const empty = range.total.measured_s + range.total.modelled_s === 0;
	const words = empty ? "savings.nothing" : range.early ? "savings.early" : null;
	fill(at("problem"), words && notice("info", h("p", t(words))));
	for (const button of views)
		button.setAttribute("aria-pressed", String(button.dataset.view === range.view));
	at("range-title").textContent = title(range);
	for (const button of [at("back"), at("forward")]) button.hidden = range.view === "all";
	at("back").disabled =
		range.previous === null || (range.first_s !== null && range.from_s <= range.first_s);
	at("forward").disabled = range.next === null;
	at("today").hidden = range.view === "all" || range.next === null;
	const query = {
		server: server.value,
		view: range.view,
		...(range.day ? { day: range.day } : {}),
	};
	at("download").href = `/api/savings/export?${new URLSearchParams(query)}`;
}

/** The day that a view opens with: the one that is shown, but not one still to come. */
function dayShown() {
	if (!range?.day) return null;
	return dayInput(Math.max(Math.min(range.end_s, range.to_s) - 1, range.from_s));
}

for (const button of views)
	button.addEventListener("click", () =>
		go({ view: button.dataset.view, day: button.dataset.view === "all" ? null : dayShown() }),
	);
at("back").addEventListener("click", () => go({ view: range?.view, day: range?.previous }));
at("forward").addEventListener("click", () => go({ view: range?.view, day: range?.next }));
at("today").addEventListener("click", () => go({ view: range?.view }));
server.addEventListener("change", () => go({ view: range?.view, day: range?.day }));
addEventListener("popstate", () => show(wanted()));
show(wanted());
