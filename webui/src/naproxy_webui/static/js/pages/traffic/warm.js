// Cost and benefit of warming the cache before a server sleeps.

import { fill, h, t } from "../../kit/core.js";
import { date, duration, energy, number } from "../../kit/format.js";

/** @param {HTMLElement} place @param {CacheWarming | undefined} warming */
export function showWarm(place, warming) {
	if (!warming?.on) {
		const link = h("a.link", { href: "/settings/cache" }, t("traffic.warm.settings"));
		fill(place, h("p", t("traffic.warm.off")), h("p", link));
		return;
	}
	const { since_s, fetches, took_s, took_j, wakes_avoided: avoided, avoided_j } = warming;
	if (!fetches || since_s === null) {
		fill(place, h("p", t("traffic.warm.none")));
		return;
	}
	const wakes = { count: avoided, number: number(avoided), energy: energy(avoided_j) };
	const asked = { count: fetches, number: number(fetches) };
	fill(
		place,
		h("p.strong", t("traffic.warm.avoided", { ...wakes, date: date(since_s) })),
		h(
			"p",
			t("traffic.warm.cost", { ...asked, time: duration(took_s), energy: energy(took_j) }),
		),
	);
}
