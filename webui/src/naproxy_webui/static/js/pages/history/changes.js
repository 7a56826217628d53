// Every change of state, and every decision: tables that are read when they are opened.

import { cell, h, icon, one, t } from "../../kit/core.js";
import { dateTime, clockS, day } from "../../kit/format.js";
import { list } from "./list.js";
import { stateBadge, wakeLine } from "./words.js";

const asked = new WeakMap();

/**
 * Read a list now if its `<details>` is open, else when it is opened; what failed then again.
 * @param {HTMLDetailsElement} details @param {Told["follow"]} follow
 * @param {() => Promise<unknown>} read
 */
async function whenOpen(details, follow, read) {
	details.removeEventListener("toggle", asked.get(details));
	let done = false;
	const once = async () => {
		if (!details.open || done) return;
		done = true;
		await read().catch((error) => {
			done = false;
			throw error;
		});
	};
	const listener = () => follow(details, once());
	asked.set(details, listener);
	details.addEventListener("toggle", listener);
	await once();
}

/** @param {number} t_s */
export const stamp = (t_s) =>
	h(
		"time",
		{ datetime: new Date(t_s * 1000).toISOString(), title: dateTime(t_s) },
		`${day(t_s)}, ${clockS(t_s)}`,
	);

/** @param {HTMLDetailsElement} details @param {Told} told */
export async function showChanges(details, { server, from_s, to_s, current, follow }) {
	const columns = [
		t("history.col_time"),
		t("history.col_change"),
		t("history.col_reason"),
		t("history.col_cause"),
	];
	const [time, change, reason, by] = columns;
	await whenOpen(details, follow, () =>
		list(/** @type {Element} */ (details.lastElementChild), {
			path: "/api/history/transitions",
			query: { server, from_s, to_s },
			columns,
			label: t("history.changes_title"),
			none: t("history.none_changes"),
			current,
			row: (each) =>
				h(
					"tr",
					cell(time, ".nowrap", stamp(each.t_s)),
					cell(
						change,
						"",
						h(
							"span.row",
							stateBadge(each.from),
							icon("arrow-right"),
							stateBadge(each.to),
						),
					),
					cell(reason, ".wrap", each.words),
					cell(by, ".wrap", each.wake ? h("span.path", wakeLine(each.wake)) : null),
				),
		}),
	);
}

/** @param {HTMLDetailsElement} details @param {Told} told */
export async function showDecisions(details, { server, from_s, to_s, current, follow }) {
	const columns = [t("history.col_time"), t("history.col_decision"), t("history.col_reason")];
	const [time, decision, reason] = columns;
	await whenOpen(details, follow, () =>
		list(one("[data-rows]", details), {
			path: "/api/history/decisions",
			query: { server, from_s, to_s },
			columns,
			label: t("history.decisions_title"),
			none: t("history.decisions_none"),
			current,
			row: (each) =>
				h(
					"tr",
					cell(time, ".nowrap", stamp(each.t_s)),
					cell(
						decision,
						"",
						h(
							"span.badge",
							{ "data-state": each.sleep ? "asleep" : "awake" },
							icon(each.sleep ? "moon" : "sun"),
							t(each.sleep ? "history.decision_sleep" : "history.decision_awake"),
						),
					),
					cell(reason, ".wrap", each.words),
				),
		}),
	);
}
