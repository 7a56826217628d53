// The wake ledger: every wake, searched and page by page, each as a line that opens.

import { at, facts, h, icon, t } from "../../kit/core.js";
import { duration, number } from "../../kit/format.js";
import { values } from "../../kit/form.js";
import { stageBar } from "../../kit/stages.js";
import { list } from "./list.js";
import { mayChange, ruledBy, ruleDialog, stopButton } from "./rules.js";
import { agentWords, cause, full, named, request, stamp } from "./words.js";

const form = /** @type {HTMLFormElement} */ (at("search"));
const FIELDS = ["text", "class", "cause", "outcome"];
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

form.addEventListener("submit", (event) => {
	event.preventDefault();
	told?.go({ ...values(form) });
});
form.addEventListener("reset", (event) => {
	// The browser's reset would restore the initial values, which may be a search, too.
	event.preventDefault();
	told?.go(Object.fromEntries(FIELDS.map((name) => [name, ""])));
});

/** @param {HTMLElement} place @param {Told} options */
export async function showLedger(place, options) {
	told = options;
	const { server, from_s, to_s, current, asked } = options;
	for (const name of FIELDS) {
		const field = form.elements.namedItem(name);
		if (field && "value" in field) field.value = asked[name] ?? "";
	}
	const search = Object.fromEntries(
		FIELDS.filter((name) => asked[name]).map((name) => [name, asked[name]]),
	);
	await list(place, {
		path: "/api/history/wakes",
		query: { server, from_s, to_s, ...search },
		label: t("history.ledger_title"),
		none: t(Object.keys(search).length ? "history.ledger_none_found" : "history.ledger_none"),
		current,
		row: (wake) => ({
			head: [
				stamp(wake.t_s, to_s - from_s),
				h("span.line-who", wake.class ? named("kit.class.", wake.class) : cause(wake)),
				h(
					wake.class ? "span.line-what.path" : "span.line-what",
					wake.class ? wake.path : wake.words,
				),
				outcome(wake),
			],
			body: () => body(wake),
		}),
	});
}

/** The outcome, as a mark with words for screen readers. @param {Wake} wake */
function outcome(wake) {
	const [kind, picture] = OUTCOMES[wake.outcome] ?? ["info", "info"];
	const words = named("history.outcome_", wake.outcome);
	return h(
		"span.mark",
		{ "data-kind": kind, title: words },
		icon(picture),
		h("span.visually-hidden", words),
	);
}

/** @param {Wake} wake */
const waited = ({ waited_s }) =>
	waited_s === null
		? null
		: waited_s < 60
			? `${number(waited_s, 1, 1)} ${t("kit.unit.s")}`
			: duration(waited_s);

/** @param {LedgerRow} wake */
function body(wake) {
	const known = facts(
		[t("history.col_time"), full(wake.t_s)],
		[t("history.col_request"), request(wake) && h("span.path", request(wake))],
		[t("history.by_address"), wake.class && wake.who],
		[
			t("history.by_agent"),
			wake.class && h("span", { title: wake.agent }, agentWords(wake.agent)),
		],
		[t("history.search_class"), wake.class && named("kit.class.", wake.class)],
		[t("history.search_cause"), wake.class ? cause(wake) : wake.words || cause(wake)],
		[t("history.col_waited"), waited(wake)],
		[t("history.col_outcome"), named("history.outcome_", wake.outcome)],
	);
	const went = wake.stages?.length ? stageBar(t("kit.stage.title"), wake.stages) : null;
	if (!wake.class) return [known, went];
	if (wake.ruled !== null) return [known, went, ruledBy(wake.ruled)];
	// Which of its page, address or program the rule is about is chosen in the dialog.
	const about = { server: wake.server, kind: /** @type {const} */ ("path"), from: wake };
	return [
		known,
		went,
		mayChange ? stopButton(request(wake) ?? "", () => ruleDialog(about)) : null,
	];
}
