// The meaning of a setting in words, updated with each change.

import { co2, duration, money, number, watts } from "../../kit/format.js";
import { all, h, icon, one, t } from "../../kit/core.js";
import { hoursInWords, readLines } from "./hours.js";
import { chosen, valueIn } from "./values.js";

const YEAR_H = 8766;
/** How long past its time an answer is used in aggressive mode. */
const GRACE_S = 3600;
/** @param {string} where @returns {Field} */
const field = (where) => /** @type {any} */ (one(`[data-where="${where}"]`));
/** @param {string} where @returns {number | null} */
const number_at = (where) => {
	const found = field(where);
	const value = found ? valueIn(found) : null;
	return typeof value === "number" ? value : null;
};

/** A share as people say it: 1 in 100, 1 in 20, 3 in 200. @param {number} fraction */
export function inWords(fraction) {
	if (fraction >= 0.995) return t("settings.says.all");
	for (const of of [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000]) {
		const many = fraction * of;
		if (many >= 0.95 && Math.abs(many - Math.round(many)) < 0.02)
			return t("settings.says.in", { many: Math.round(many), of: number(of) });
	}
	return t("settings.says.percent", { percent: number(fraction * 100, 3) });
}

/** @param {DOMStringMap} told */
function promise({ server, wake }) {
	const policy = chosen(one(`[data-alternative="${server}.policy"]`));
	const fraction = number_at(`${server}.promise.fraction`);
	const delta = number_at(`${server}.promise.delta_s`);
	if (fraction === null || delta === null) return "";
	if (policy !== "teacher")
		return t(`settings.says.promise_${policy}`, { share: inWords(fraction) });
	if (fraction === 0) return t("settings.says.promise_none");
	const share = inWords(fraction);
	const usually = wake
		? t("settings.says.usually", { time: duration(Number(wake)) })
		: t("settings.says.not_measured");
	return `${t("settings.says.promise", { share, delta: duration(delta) })} ${usually}`;
}

/** @param {DOMStringMap} told */
function who({ server }) {
	/** @type {string[]} */
	const classes = valueIn(field(`${server}.wake_classes`));
	if (!classes.length) return t("settings.says.nobody");
	if (!classes.includes("person")) return t("settings.says.no_people");
	const more = classes.filter((each) => each !== "person" && each !== "api");
	return more.length
		? t("settings.says.robots_wake", {
				who: more.map((each) => t(`kit.class.${each}`)).join(", "),
			})
		: t("settings.says.people_wake");
}

/** @param {DOMStringMap} told */
function power({ server, price }) {
	const [on, off, extra] = ["on_w", "off_w", "switch_j"].map((key) =>
		number_at(`${server}.power.${key}`),
	);
	if (on === null || off === null || extra === null || on <= off) return "";
	const pays = extra / (on - off);
	const words = t("settings.says.power", { watts: watts(on - off), time: duration(pays) });
	if (!Number(price)) return words;
	const cost = ((on - off) / 1000) * YEAR_H * Number(price);
	return `${words} ${t("settings.says.power_price", { money: money(cost) })}`;
}

/** @param {string} name @returns {(told: DOMStringMap) => string} */
function hours(name) {
	return ({ server }) => {
		const { spans, wrong } = readLines(valueIn(field(`${server}.${name}`)));
		if (wrong.length) return t("settings.says.not_readable", { line: wrong[0] });
		return spans.length
			? t(`settings.says.${name}`, { when: hoursInWords(spans) })
			: t(`settings.says.no_${name}`);
	};
}

/**
 * @param {string} where @param {string} key @param {(amount: number) => string} show
 * @returns {(told: DOMStringMap) => string}
 */
function perYear(where, key, show) {
	return ({ watts: drawn, mean, recorded }) => {
		// For a value that changes by the hour, the box sends the mean of a year.
		const said = mean ? Number(mean) : number_at(where);
		const each = said || Number(recorded ?? 0);
		if (!each) return t(`settings.says.no_${key}`);
		return t(`settings.says.${key}${said ? "" : "_recorded"}`, {
			watts: watts(Number(drawn)),
			year: show((Number(drawn) / 1000) * YEAR_H * each),
		});
	};
}

/** @param {DOMStringMap} told */
function cache({ server }) {
	const mode = valueIn(field(`${server}.cache.mode`) ?? field(`${server}.mode`));
	return t(`settings.says.cache_${mode}`, { time: duration(GRACE_S) });
}

const keep = () => {
	const days = number_at("box.keep_days");
	return days === null ? "" : t("settings.says.keep", { count: days });
};

/**
 * Ways to tell whose token goes by plain HTTP: as typed, or as `saved`, since the page knows no
 * secret.
 * @param {DOMStringMap} told
 */
function in_clear({ saved, ways }) {
	/** @param {string} key */
	const kept = (key) => one(`input[data-forget="notify.${key}"]`)?.checked === false;
	const found = (ways ?? "").split(" ").map((each) => each.split(":"));
	const told = found.filter(([way, to, secret]) => {
		const address = valueIn(field(`notify.${to}`)) ?? "";
		if (!valueIn(field(`notify.${secret}`)) && !kept(secret)) return false;
		return address ? address.startsWith("http:") : kept(to) && saved?.split(" ").includes(way);
	});
	const names = told.map(([way]) => t(`settings.notify_way_${way}`)).join(", ");
	return names && t("settings.says.in_clear", { ways: names });
}

/** Does the key of the API for carbon dioxide go by plain HTTP? */
function co2_in_clear() {
	const key = field("office.co2_key_file");
	const removed = one('input[data-forget="office.co2_key_file"]')?.checked ?? false;
	const has = key.value !== "" || ("given" in key.dataset && !removed);
	const address = valueIn(field("office.co2_url"));
	return has && address.startsWith("http:") ? t("settings.says.co2_in_clear") : "";
}

/** @type {Record<string, (told: DOMStringMap) => string>} */
const SAYS = {
	co2_in_clear,
	in_clear,
	promise,
	who,
	power,
	cache,
	keep,
	hours: hours("hours"),
	quiet: hours("quiet"),
	price: perYear("office.price_per_kwh", "price", (amount) => money(amount)),
	co2: perYear("office.co2_g_per_kwh", "co2", co2),
};

/** Show settings that apply to some modes of the cache only with these modes. */
export function modes() {
	const mode = /** @type {Field | null} */ (one("[data-mode]"));
	if (!mode) return;
	const look = () => {
		for (const part of all("[data-only-mode]"))
			part.hidden = !part.dataset.onlyMode?.split(" ").includes(valueIn(mode));
	};
	mode.addEventListener("change", look);
	look();
}

/** Keep all consequences on the page true while fields change. */
export function consequences() {
	const places = all("[data-consequence]");
	const look = () => {
		for (const place of places) {
			const words = SAYS[place.dataset.consequence ?? ""](place.dataset);
			if (place.dataset.said === words) continue;
			place.dataset.said = words;
			place.replaceChildren(...(words ? [icon("arrow-right"), h("span", words)] : []));
		}
	};
	for (const kind of ["input", "change"]) document.addEventListener(kind, look);
	look();
	for (const place of all("[data-duration]"))
		place.textContent = duration(Number(place.dataset.duration));
}
