// Robots and programs by name. Names come from the network: they are text and nothing else.

import { h, t } from "../../kit/core.js";
import { number, share } from "../../kit/format.js";

const FIRST = matchMedia("(max-width: 52rem)").matches ? 6 : 15;

/**
 * Show what `/api/traffic/agents` said; `choice` is the select of their kind.
 * @param {HTMLElement} place @param {Agents} said @param {HTMLSelectElement} choice
 */
export function showAgents(place, { agents, more }, choice) {
	let all = false;
	const show = () => {
		const found = agents.filter(
			(each) => choice.value === "all" || each.class === choice.value,
		);
		const shown = all ? found : found.slice(0, FIRST);
		const rest = found.length - shown.length;
		const button =
			rest > 0 &&
			h(
				"button.button.small",
				{
					type: "button",
					onclick: () => {
						all = true;
						show();
					},
				},
				t("traffic.agents.more", { count: number(found.length) }),
			);
		place.replaceChildren(
			h(
				"div.stack.tight",
				found.length ? table(shown) : h("p.soft", t("traffic.agents.none")),
				button,
				more > 0 &&
					!rest &&
					choice.value === "all" &&
					h("p.hint", t("traffic.agents.rest", { count: number(more) })),
			),
		);
	};
	choice.onchange = show;
	show();
}

/** @param {Agents["agents"]} rows */
function table(rows) {
	const head = ["name", "kind", "requests", "memory", "away", "server"].map((each, n) =>
		h(n > 1 ? "th.end" : "th", { scope: "col" }, t(`traffic.agents.${each}`)),
	);
	return h(
		"div.table-wrap",
		{ tabindex: "0", role: "group", "aria-label": t("traffic.agents.title") },
		h("table.table.cards.agents", h("thead", h("tr", head)), h("tbody", rows.map(row))),
	);
}

/** @param {Agents["agents"][number]} agent */
function row({ name, class: kind, requests, ends }) {
	/** @param {string} key @param {string} value */
	const cell = (key, value) => h("td.end", { "data-label": t(`traffic.agents.${key}`) }, value);
	/** @param {number} value */
	const part = (value) => (requests ? share(value / requests, 0) : "–");
	return h(
		"tr",
		h("th", { scope: "row" }, name || h("span.soft", t("traffic.agents.unnamed"))),
		h("td", { "data-label": t("traffic.agents.kind") }, t(`kit.class.${kind}`)),
		cell("requests", number(requests)),
		cell("memory", part(ends.fresh + ends.older)),
		cell("away", part(ends.away)),
		cell("server", part(ends.server + ends.waited)),
	);
}
