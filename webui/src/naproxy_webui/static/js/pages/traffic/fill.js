// How full the cache is, the evictions of the last day, and advice.

import { fill, h, notice, t } from "../../kit/core.js";
import { duration, number } from "../../kit/format.js";

const MB = 1 << 20;

/** @param {NonNullable<CacheFill>} cache @returns {[string, string]} */
function verdict({ answers, pushed_out: pushed, no_room: cut }) {
	if (cut) return ["warn", t("traffic.fill.cut", { count: cut })];
	if (!pushed) return ["good", t("traffic.fill.room")];
	// Evicted less than its whole content in a day: the pages that people use stay.
	return pushed < answers ? ["good", t("traffic.fill.turns")] : ["warn", t("traffic.fill.tight")];
}

/** @param {HTMLElement} place @param {CacheFill} cache */
export function showFill(place, cache) {
	if (!cache) {
		fill(place, h("p", t("traffic.fill.unknown")));
		return;
	}
	const { used_bytes: used, room_bytes: room, answers, pushed_out: pushed } = cache;
	const full = t("traffic.fill.full", {
		used: number(used / MB),
		room: number(room / MB),
		answers: number(answers),
	});
	const [kind, words] = verdict(cache);
	const help =
		kind === "warn" && h("p", h("a.link", { href: "/settings/cache" }, t("traffic.fill.help")));
	fill(
		place,
		h("p.strong", full),
		h("progress.traffic-fill", { max: room, value: used, "aria-label": full }),
		h(
			"p",
			t("traffic.fill.gone", {
				time: duration(cache.seen_s),
				pushed: number(pushed),
				ran_out: number(cache.ran_out),
			}),
		),
		notice(kind, h("p", words), help || null),
	);
}
