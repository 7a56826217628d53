// The pages that the box answered with while a server slept, and the results of its checks.

import { fill, h, t } from "../../kit/core.js";
import { date, number } from "../../kit/format.js";

/** @param {HTMLElement} place @param {CachePages | undefined} pages */
export function showChecked(place, pages) {
	if (!pages?.on) {
		const link = h("a.link", { href: "/settings/cache" }, t("traffic.warm.settings"));
		fill(place, h("p", t("traffic.checked.off")), h("p", link));
		return;
	}
	const { since_s, verified, settling, answered, compared, differed, old } = pages;
	const words = [
		t("traffic.checked.now", { count: verified, number: number(verified) }),
		settling > 0 &&
			t("traffic.checked.settling", { count: settling, number: number(settling) }),
		since_s !== null &&
			t("traffic.checked.compared", { count: compared, number: number(compared) }),
		since_s !== null &&
			(differed
				? t("traffic.checked.differed", {
						count: differed,
						number: number(differed),
						old: number(old),
					})
				: t("traffic.checked.same")),
	];
	fill(
		place,
		since_s !== null &&
			h(
				"p.strong",
				t("traffic.checked.answered", {
					count: answered,
					number: number(answered),
					date: date(since_s),
				}),
			),
		words.filter(Boolean).map((text) => h("p", text)),
		excluded(pages),
	);
}

/** @param {CachePages} pages */
function excluded({ excluded: count, excluded_pages: listed }) {
	if (!listed.length) return false;
	return h(
		"details.details",
		h("summary", t("traffic.checked.excluded", { count, number: number(count) })),
		h(
			"ul.list",
			listed.map(({ url, why }) =>
				h("li", h("span.mono.wrap", url), ": ", t(`traffic.checked.why.${why}`)),
			),
		),
	);
}
