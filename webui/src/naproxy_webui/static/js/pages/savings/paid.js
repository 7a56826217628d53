// Requests that waited: how many waited, how long, and how many were allowed to.

import { at, badge, fill, get, h, t } from "../../kit/core.js";
import { date, duration, number, share } from "../../kit/format.js";
import { barChart } from "../../kit/bars.js";

/** @param {Savings} told */
export async function showPaid({ scope, current }) {
	const said = await get("/api/savings/paid", scope);
	if (!current()) return;
	fill(at("paid"), words(said));
	fill(at("paid-badge"), said.requests ? kept(said) : null);
	at("waits").hidden = !said.waits;
	if (said.waits) await barChart(at("waits"), bars(said));
}

/** Whether the promise was kept. @param {Paid} said */
const kept = ({ delayed, allowed }) =>
	delayed <= allowed
		? badge("good", "circle-check", t("savings.paid_kept"))
		: badge("warn", "triangle-alert", t("savings.paid_broken"));

/** @param {Paid} said */
function words(said) {
	if (!said.requests) return [h("p", t("savings.paid_none"))];
	const values = {
		all: number(said.requests),
		delayed: number(said.delayed),
		allowed: number(said.allowed),
		longest: said.longest_s === null ? "–" : duration(said.longest_s),
	};
	const made = [
		h(
			"p.paid-words",
			said.delayed
				? t("savings.paid", { ...values, count: said.delayed })
				: t("savings.paid_nobody", values),
		),
	];
	const more = [];
	if (said.median_s !== null && said.waits > 2)
		more.push(t("savings.paid_median", { time: duration(said.median_s) }));
	if (said.unknown) more.push(t("savings.paid_unknown", { count: said.unknown }));
	if (said.waits_since_s > said.from_s + 3600)
		more.push(t("savings.paid_since", { date: date(said.waits_since_s) }));
	if (more.length) made.push(h("p", more.join(" ")));
	const promise = t("savings.paid_promise", {
		share: share(said.promise.fraction),
		time: duration(said.promise.delta_s),
	});
	made.push(
		h("p.hint", promise, " ", h("a", { href: "/settings/sleep" }, t("savings.paid_change"))),
	);
	return made;
}

/** @param {Paid} said @returns {BarOptions} */
function bars(said) {
	/** @param {Paid["buckets"][number]} bucket */
	const label = ({ from_s, to_s }) =>
		to_s === null
			? t("savings.waits_more", { from: number(from_s, 1) })
			: t("savings.waits_between", { from: number(from_s, 1), to: number(to_s, 1) });
	return {
		title: t("savings.waits_title"),
		along: t("savings.waits_along"),
		size: "small",
		labels: said.buckets.map(label),
		series: [
			{
				name: t("savings.waits_series"),
				values: said.buckets.map((each) => each.count),
				colour: "c2",
			},
		],
		format: (value) => number(value),
		tick: (value) => (Number.isInteger(value) ? number(value) : ""),
	};
}
