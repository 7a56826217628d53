// Decisions and changes of state, each as a line that opens.

import { facts, h, icon, t } from "../../kit/core.js";
import { list } from "./list.js";
import { full, stamp, stateBadge, stateMark, stateWords, wakeLine } from "./words.js";

/** @param {HTMLElement} place @param {Told} told */
export async function showChanges(place, { server, from_s, to_s, current }) {
	await list(place, {
		path: "/api/history/transitions",
		query: { server, from_s, to_s },
		label: t("history.changes_title"),
		none: t("history.none_changes"),
		current,
		row: (each) => ({
			head: [
				stamp(each.t_s, to_s - from_s),
				stateMark(each.to),
				h("span.line-what", `${stateWords(each.to)}: ${each.words}`),
			],
			body: () =>
				facts(
					[t("history.col_time"), full(each.t_s)],
					[
						t("history.col_change"),
						h(
							"span.row",
							stateBadge(each.from),
							icon("arrow-right"),
							stateBadge(each.to),
						),
					],
					[t("history.col_reason"), each.words],
					[t("history.col_cause"), each.wake && h("span.path", wakeLine(each.wake))],
				),
		}),
	});
}

/** @param {HTMLElement} place @param {Told} told */
export async function showDecisions(place, { server, from_s, to_s, current }) {
	/** @param {boolean} sleep */
	const said = (sleep) => t(sleep ? "history.decision_sleep" : "history.decision_awake");
	await list(place, {
		path: "/api/history/decisions",
		query: { server, from_s, to_s },
		label: t("history.decisions_title"),
		none: t("history.decisions_none"),
		current,
		row: (each) => {
			const sleep = Boolean(each.sleep);
			return {
				head: [
					stamp(each.t_s, to_s - from_s),
					stateMark(sleep ? "asleep" : "awake"),
					h("span.line-what", `${said(sleep)}: ${each.words}`),
				],
				body: () =>
					facts(
						[t("history.col_time"), full(each.t_s)],
						[t("history.col_decision"), said(sleep)],
						[t("history.col_reason"), each.words],
					),
			};
		},
	});
}
