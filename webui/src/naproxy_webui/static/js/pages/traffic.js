// The page Traffic. Each part asks for its own figures; a part that fails does not take others away.

import { ApiError, get, h, icon, t } from "../kit/core.js";
import { date, midnight, number, share } from "../kit/format.js";
import { showAgents } from "./traffic/agents.js";
import { showDays } from "./traffic/days.js";
import { showGaps } from "./traffic/gaps.js";
import { hours, showWeek } from "./traffic/week.js";

const $ = (id) => document.getElementById(id);
let days = 30,
	turn = 0;

function range() {
	const now_s = Date.now() / 1000;
	return { server: $("server").value, from_s: midnight(now_s, 1 - days), to_s: Math.ceil(now_s) };
}

/** Where each part is shown. */
const PLACES = {
	days: ["stats", "since", "days", "rate"],
	week: ["week"],
	gaps: ["gaps-words", "gaps-count", "gaps-time", "gaps-note"],
	agents: ["agents"],
};

/** What stands in a part's places is not of the time that is chosen. */
function old(name, yes) {
	for (const each of PLACES[name]) $(each).classList.toggle("invisible", yes);
}

/** Ask for one part and show it, unless another range was chosen meanwhile. */
async function part(name, query, mine, show) {
	try {
		const said = await get(`/api/traffic/${name}`, query);
		if (mine !== turn) return;
		await show(said);
		old(name, false);
	} catch (problem) {
		if (!(problem instanceof ApiError)) throw problem;
		if (mine !== turn) return;
		old(name, true);
		trouble(problem.message);
	}
}

function trouble(words) {
	$("trouble").replaceChildren(
		h("div.notice", { "data-kind": "bad" }, icon("triangle-alert"), h("div", h("p", words))),
	);
}

function showAll() {
	const query = range(),
		mine = ++turn;
	$("trouble").replaceChildren();
	$("agents-export").href =
		`/api/history/export?${new URLSearchParams({ what: "agents", name: query.server, from_s: query.from_s, to_s: query.to_s })}`;
	return Promise.all([
		part("days", query, mine, (said) => {
			showStats(said);
			return showDays(said);
		}),
		part("week", query, mine, week),
		part("gaps", query, mine, (said) => showGaps(said, query)),
		part("agents", query, mine, (said) => showAgents($("agents"), said, $("agents-kind"))),
	]);
}

function showStats(said) {
	const span_days = Math.max(
		1,
		(range().to_s - Math.max(range().from_s, said.begins_s ?? 0)) / 86_400,
	);
	const answered = said.requests - said.ends.away - said.ends.box;
	const waiting = said.classes.person + said.classes.api;
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
	$("stats").replaceChildren(
		...stats.map(([name, value, note]) =>
			h(
				"div.stat",
				h("span.stat-label", t(`traffic.stat.${name}`)),
				h("span.stat-value", value),
				h("span.stat-note", note),
			),
		),
	);
	$("since").hidden = !(said.begins_s > range().from_s);
	if (said.begins_s) $("since").textContent = t("traffic.since", { date: date(said.begins_s) });
}

function week(said) {
	const show = () => showWeek($("week"), hours(said, $("week-who").value));
	$("week-who").onchange = show;
	show();
}

if ($("range")) {
	$("range").addEventListener("click", (event) => {
		const chosen = event.target.closest("[data-days]");
		if (!chosen) return;
		days = Number(chosen.dataset.days);
		for (const each of $("range").children)
			each.setAttribute("aria-pressed", String(each === chosen));
		showAll();
	});
	$("server").addEventListener("change", showAll);
	showAll();
}
import("./traffic/estimate.js").then(({ begin }) => begin());
