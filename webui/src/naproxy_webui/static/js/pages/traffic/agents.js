// Robots and programs by name. Names come from the network: they are text and nothing else.

import { button, cell, fill, h, t, tableOf } from "../../kit/core.js";
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
		const showAll = () => {
			all = true;
			show();
		};
		const words = t("traffic.agents.more", { count: number(found.length) });
		fill(
			place,
			h(
				"div.stack.tight",
				found.length ? table(shown) : h("p.soft", t("traffic.agents.none")),
				rest > 0 && button(".small", words, showAll),
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

const COLUMNS = ["name", "kind", "requests", "memory", "away", "server"];

/** @param {Agents["agents"]} rows */
function table(rows) {
	const heads = COLUMNS.map((each) => t(`traffic.agents.${each}`));
	return tableOf(".cards.agents", t("traffic.agents.title"), heads, rows.map(row), (n) => n > 1);
}

/** @param {Agents["agents"][number]} agent */
function row({ name, class: kind, requests, ends }) {
	/** @param {string} key @param {string} value */
	const figure = (key, value) => cell(t(`traffic.agents.${key}`), ".end", value);
	/** @param {number} value */
	const part = (value) => (requests ? share(value / requests, 0) : "–");
	return h(
		"tr",
		h("th", { scope: "row" }, name || h("span.soft", t("traffic.agents.unnamed"))),
		cell(t("traffic.agents.kind"), "", t(`kit.class.${kind}`)),
		figure("requests", number(requests)),
		figure("memory", part(ends.fresh + ends.older)),
		figure("away", part(ends.away)),
		figure("server", part(ends.server + ends.waited)),
	);
}
