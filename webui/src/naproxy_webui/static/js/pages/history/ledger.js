// The wake ledger: every wake, searched and page by page.

import { at, badge, button, cell, h, t } from "../../kit/core.js";
import { duration, number } from "../../kit/format.js";
import { values } from "../../kit/form.js";
import { stamp } from "./changes.js";
import { list } from "./list.js";
import { mayChange, ruleDialog } from "./rules.js";
import { whoAsked, cause, named, request, unread } from "./words.js";

const form = /** @type {HTMLFormElement} */ (at("search"));
/** @type {Record<string, string[]>} */
const OUTCOMES = {
	up: ["good", "circle-check"],
	"stayed awake": ["info", "sun"],
	trouble: ["bad", "triangle-alert"],
	waiting: ["info", "clock"],
	"controller ended": ["warn", "refresh-cw"],
};
/** @type {Told | null} */
let told = null;
let asked = 0;

form.addEventListener("submit", (event) => {
	event.preventDefault();
	again();
});
form.addEventListener("reset", () => setTimeout(again));

function again() {
	const place = at("ledger");
	if (told) showLedger(place, told).catch((error) => unread(place, error));
}

/** @param {HTMLElement} place @param {Told} options */
export async function showLedger(place, options) {
	told = options;
	const { server, from_s, to_s, current } = options,
		mine = ++asked;
	const search = Object.fromEntries(Object.entries(values(form)).filter(([, value]) => value));
	const columns = [
		t("history.col_time"),
		t("history.col_request"),
		t("history.search_class"),
		t("history.col_waited"),
		t("history.col_outcome"),
		...(mayChange ? [t("history.col_action")] : []),
	];
	await list(place, {
		path: "/api/history/wakes",
		query: { server, from_s, to_s, ...search },
		columns,
		label: t("history.ledger_title"),
		none: t(Object.keys(search).length ? "history.ledger_none_found" : "history.ledger_none"),
		current: () => current() && mine === asked,
		row: (wake) => row(wake, columns),
	});
}

/** @param {Wake} wake @param {string[]} columns */
function row(wake, [time, what, who, waited, outcome, rule]) {
	const [kind, picture] = OUTCOMES[wake.outcome] ?? ["info", "info"];
	const cells = [
		cell(time, ".nowrap", stamp(wake.t_s)),
		cell(
			what,
			".wrap",
			h(
				"div",
				h(
					wake.class ? "span.path" : "span",
					wake.class ? `${wake.method} ${wake.path}` : wake.words,
				),
				wake.class ? h("span.under", { title: wake.agent }, whoAsked(wake)) : null,
				wake.class ? h("span.under", wake.host) : null,
			),
		),
		cell(
			who,
			"",
			h(
				"div",
				wake.class ? named("kit.class.", wake.class) : null,
				h("span.under", cause(wake)),
			),
		),
		cell(
			waited,
			".end",
			wake.waited_s === null
				? "–"
				: wake.waited_s < 60
					? `${number(wake.waited_s, 1, 1)} ${t("kit.unit.s")}`
					: duration(wake.waited_s),
		),
		cell(outcome, "", badge(kind, picture, named("history.outcome_", wake.outcome))),
	];
	if (mayChange) cells.push(cell(rule, "", wake.class ? stop(wake) : null));
	return h("tr", cells);
}

/**
 * A rule from one wake: which of its page, address or program is chosen in the dialog.
 * @param {Wake} wake
 */
const stop = (wake) =>
	button(
		".small.quiet.nowrap",
		t("history.stop_it"),
		() => ruleDialog({ server: wake.server, kind: "path", from: wake }),
		{ "aria-label": `${t("history.stop_it")}: ${request(wake)}` },
	);
