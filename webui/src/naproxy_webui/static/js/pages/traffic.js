// The page Traffic. Each part asks for its own figures; one that fails does not take others away.

import { at, fill, get, h, notice, refusal, stat, t } from "../kit/core.js";
import { date, midnight, number, share } from "../kit/format.js";
import { showAgents } from "./traffic/agents.js";
import { showChecked } from "./traffic/checked.js";
import { notAsked, showDays } from "./traffic/days.js";
import { showFill } from "./traffic/fill.js";
import { showGaps } from "./traffic/gaps.js";
import { showWarm } from "./traffic/warm.js";
import { hours, showWeek } from "./traffic/week.js";

let days = 30,
	turn = 0;

function range() {
	const now_s = Date.now() / 1000;
	return {
		server: at("server").value,
		from_s: midnight(now_s, 1 - days),
		to_s: Math.ceil(now_s),
	};
}

/** Where each part is shown. @type {Record<string, (keyof Ids)[]>} */
const PLACES = {
	days: ["stats", "since", "days", "rate"],
	week: ["week"],
	gaps: ["gaps-words", "gaps-count", "gaps-time", "gaps-note"],
	agents: ["agents"],
	cache: ["fill", "warm", "checked"],
};

/**
 * Hide a part's content while it belongs to another time than the chosen one.
 * @param {string} name @param {boolean} yes
 */
function old(name, yes) {
	for (const each of PLACES[name]) at(each).classList.toggle("invisible", yes);
}

/**
 * Load one part and show it, unless another range was chosen meanwhile.
 * @template {"days" | "week" | "gaps" | "agents" | "cache"} N
 * @param {N} name @param {Query} query @param {number} mine
 * @param {(said: Answer<"GET", `/api/traffic/${N}`>) => unknown} show
 */
async function part(name, query, mine, show) {
	try {
		const said = await get(`/api/traffic/${name}`, query);
		if (mine !== turn) return;
		await show(said);
		old(name, false);
	} catch (problem) {
		const { message } = refusal(problem);
		if (mine !== turn) return;
		old(name, true);
		fill(at("trouble"), notice("bad", h("p", message)));
	}
}

function showAll() {
	const query = range(),
		mine = ++turn;
	at("trouble").replaceChildren();
	const { server, from_s, to_s } = query;
	const wanted = { what: "agents", name: server, from_s: String(from_s), to_s: String(to_s) };
	at("agents-export").href = `/api/history/export?${new URLSearchParams(wanted)}`;
	return Promise.all([
		part("days", query, mine, (said) => {
			showStats(said);
			return showDays(said);
		}),
		part("week", query, mine, week),
		part("gaps", query, mine, (said) => showGaps(said, query)),
		part("agents", query, mine, (said) => showAgents(at("agents"), said, at("agents-kind"))),
		part("cache", {}, mine, (said) => {
			showFill(at("fill"), said.cache);
			showWarm(
				at("warm"),
				said.warming.find((each) => each.server === server),
			);
			showChecked(
				at("checked"),
				said.pages.find((each) => each.server === server),
			);
		}),
	]);
}

/** @param {TrafficDays} said */
function showStats(said) {
	const span_days = Math.max(
		1,
		(range().to_s - Math.max(range().from_s, said.begins_s ?? 0)) / 86_400,
	);
	const answered = said.requests - notAsked(said.ends);
	const waiting = said.classes.person + said.classes.api;
	/** @param {number} part @param {number} whole */
	const of = (part, whole) => (whole ? share(part / whole) : "–");
	const stats = [
		[
			"requests",
			number(said.requests / span_days),
			t("traffic.stat.requests_note", { count: number(said.requests) }),
		],
		["nobody", of(said.needed_nobody, said.requests), t("traffic.stat.nobody_note")],
		["cache", of(said.from_cache, answered), t("traffic.stat.cache_note")],
		["people", of(said.classes.person, said.requests), t("traffic.stat.people_note")],
		["delayed", of(said.delayed, waiting), t("traffic.stat.delayed_note")],
	];
	at("stats").replaceChildren(
		...stats.map(([name, value, note]) => stat(t(`traffic.stat.${name}`), value, note)),
	);
	at("since").hidden = (said.begins_s ?? 0) <= range().from_s;
	if (said.begins_s) at("since").textContent = t("traffic.since", { date: date(said.begins_s) });
}

/** @param {Week} said */
function week(said) {
	const show = () => showWeek(at("week"), hours(said, at("week-who").value));
	at("week-who").onchange = show;
	show();
}

if (at("range")) {
	at("range").addEventListener("click", (event) => {
		const pressed = /** @type {Element} */ (event.target);
		const chosen = /** @type {HTMLElement | null} */ (pressed.closest("[data-days]"));
		if (!chosen) return;
		days = Number(chosen.dataset.days);
		for (const each of at("range").children)
			each.setAttribute("aria-pressed", String(each === chosen));
		showAll();
	});
	at("server").addEventListener("change", showAll);
	showAll();
}
import("./traffic/estimate.js").then(({ begin }) => begin());
