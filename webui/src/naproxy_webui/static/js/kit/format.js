// Numbers, watts, times: in the language of the page and the time zone of the office.

import { knownZone, t } from "./core.js";

const root = document.documentElement;

/** Language tag for Intl: day before month in English too, as in most of the world's offices. */
export const locale = { en: "en-GB" }[root.lang] ?? (root.lang || "en-GB");
export const zone = knownZone(root.dataset.timeZone);
export const currency = root.dataset.currency || "EUR";

/** Between a figure and its unit: they stay on one line. */
const NBSP = "\u00a0";
const DAY_S = 86400;
const made = new Map();

/**
 * Making a formatter costs more than using it a thousand times.
 * @template T
 * @param {{ new (locale: string, options: any): T, name: string }} Kind @param {object} options
 * @returns {T}
 */
function intl(Kind, options) {
	const key = Kind.name + JSON.stringify(options);
	if (!made.has(key)) made.set(key, new Kind(locale, options));
	return made.get(key);
}

/** @param {Maybe} value @returns {value is number} */
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** An unknown value is a dash, never 0. */
export const unknown = "–";

/** A number with at most so many digits after the point. @param {Maybe} value */
export function number(value, digits = 0, least = 0) {
	if (!isNumber(value)) return unknown;
	const options = {
		maximumFractionDigits: digits,
		minimumFractionDigits: Math.min(least, digits),
	};
	return intl(Intl.NumberFormat, options).format(withoutMinusZero(value, digits));
}

/**
 * A loss that rounds to 0 is 0: "−0.00" says that something was lost.
 * @param {number} value @param {number} digits
 */
const withoutMinusZero = (value, digits) =>
	Math.abs(value) < 0.5 * 10 ** -digits ? Math.abs(value) : value;

/** Digits after the point that show about three digits in all. @param {Maybe} value */
function digitsOf(value) {
	const size = Math.abs(value ?? 0);
	return size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
}

/**
 * Three digits, as many as a meter deserves, with a unit.
 * @param {Maybe} value @param {string} unit
 */
export function quantity(value, unit, digits = digitsOf(value)) {
	return isNumber(value) ? `${number(value, digits, digits)}${NBSP}${unit}` : unknown;
}

/** Power: watts. @param {Maybe} w */
export const watts = (w) => quantity(w, "W", Math.abs(w ?? 0) >= 99.95 ? 0 : 1);

/** Energy from joules, as Wh or kWh. @param {Maybe} j */
export function energy(j) {
	if (!isNumber(j)) return unknown;
	const wh = j / 3600;
	return Math.abs(wh) >= 1000 ? quantity(wh / 1000, "kWh") : quantity(wh, "Wh");
}

/** Money in the office's currency. @param {Maybe} amount */
export function money(amount, digits = 2) {
	if (!isNumber(amount)) return unknown;
	const options = {
		style: "currency",
		currency,
		maximumFractionDigits: digits,
		minimumFractionDigits: digits,
	};
	try {
		return intl(Intl.NumberFormat, options).format(withoutMinusZero(amount, digits));
	} catch {
		return `${number(amount, digits, digits)}${NBSP}${currency}`;
	}
}

/** CO2 from grams, as g, kg or t. @param {Maybe} g */
export function co2(g) {
	if (!isNumber(g)) return unknown;
	if (Math.abs(g) >= 1e6) return quantity(g / 1e6, "t");
	return Math.abs(g) >= 1000 ? quantity(g / 1000, "kg") : quantity(g, "g", 0);
}

/** A share (0 to 1) as percent. @param {Maybe} value @param {number} digits */
export function share(value, digits = Math.abs(value ?? 0) < 0.0995 ? 1 : 0) {
	if (!isNumber(value)) return unknown;
	return intl(Intl.NumberFormat, { style: "percent", maximumFractionDigits: digits }).format(
		withoutMinusZero(value, digits + 2),
	);
}

/** A length of time in at most two units: 45 s, 12 min, 1 h 20 min, 3 d 4 h. @param {Maybe} s */
export function duration(s) {
	if (!isNumber(s)) return unknown;
	/** @param {number} count @param {string} name */
	const unit = (count, name) => `${count}${NBSP}${t(`kit.unit.${name}`)}`;
	/**
	 * @param {number} big @param {string} bigName @param {number} small @param {string} smallName
	 */
	const two = (big, bigName, small, smallName) =>
		small ? `${unit(big, bigName)} ${unit(small, smallName)}` : unit(big, bigName);
	if (s < 9.95) return `${number(Math.max(0, s), 1)}${NBSP}${t("kit.unit.s")}`;
	if (s < 90) return unit(Math.round(s), "s");
	const minutes = Math.round(s / 60);
	if (minutes < 60) return unit(minutes, "min");
	if (s < DAY_S) return two(Math.floor(minutes / 60), "h", minutes % 60, "min");
	const hours = Math.round(s / 3600);
	return two(Math.floor(hours / 24), "d", hours % 24, "h");
}

/** @param {number} t_s @param {Intl.DateTimeFormatOptions} options */
const dates = (t_s, options) =>
	intl(Intl.DateTimeFormat, { timeZone: zone, ...options }).format(t_s * 1000);

/** Time of day: 14:03. @param {number} t_s */
export const clock = (t_s) =>
	dates(t_s, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }) + whichOfTwo(t_s);
/** Time of day with seconds. @param {number} t_s */
export const clockS = (t_s) =>
	dates(t_s, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" }) +
	whichOfTwo(t_s);
/** Day: Mon 5 Jan 2026. @param {number} t_s */
export const date = (t_s) =>
	dates(t_s, { weekday: "short", day: "numeric", month: "short", year: "numeric" });
/** Day without its year. @param {number} t_s */
export const day = (t_s) => dates(t_s, { weekday: "short", day: "numeric", month: "short" });
/** Month and year. @param {number} t_s */
export const month = (t_s) => dates(t_s, { month: "short", year: "numeric" });
/** Month and year: January 2026. @param {number} t_s */
export const monthLong = (t_s) => dates(t_s, { month: "long", year: "numeric" });
/** Year. @param {number} t_s */
export const year = (t_s) => dates(t_s, { year: "numeric" });
/** Day and time. @param {number} t_s */
export const dateTime = (t_s) => `${date(t_s)}, ${clock(t_s)}`;

/**
 * A time as people say it: 14:03, yesterday 14:03, Mon 5 Jan 14:03.
 * @param {number} t_s @param {number} now_s
 */
export function when(t_s, now_s = Date.now() / 1000) {
	const days = dayNumber(t_s) - dayNumber(now_s);
	if (days === 0) return clock(t_s);
	if (days === -1) return t("kit.yesterday", { time: clock(t_s) });
	if (days === 1) return t("kit.tomorrow", { time: clock(t_s) });
	return Math.abs(days) < 300 ? `${day(t_s)}, ${clock(t_s)}` : dateTime(t_s);
}

/** How long ago: 12 min ago. @param {number} t_s @param {number} now_s */
export function ago(t_s, now_s = Date.now() / 1000) {
	return now_s - t_s < 1.5 ? t("kit.just_now") : t("kit.ago", { time: duration(now_s - t_s) });
}

/**
 * The name of a day of the week, 0 for Monday: 5 January 2026 was one.
 * @param {number} number_ @param {"short" | "long"} length
 */
export const weekday = (number_, length = "short") =>
	intl(Intl.DateTimeFormat, { weekday: length, timeZone: "UTC" }).format(
		Date.UTC(2026, 0, 5 + number_),
	);

/**
 * Times that clocks show twice, when summer ends, have their zone: " CEST", " CET"; others nothing.
 * @param {number} t_s
 */
function whichOfTwo(t_s) {
	const key = `twice ${Math.floor(t_s / 900)}`;
	if (!made.has(key)) {
		/** @type {Intl.DateTimeFormatOptions} */
		const options = { timeZone: zone, hour: "numeric", timeZoneName: "short" };
		const parts = isShownTwice(t_s)
			? intl(Intl.DateTimeFormat, options).formatToParts(t_s * 1000)
			: [];
		const name = parts.find(
			(/** @type {Intl.DateTimeFormatPart} */ each) => each.type === "timeZoneName",
		)?.value;
		made.set(key, name ? ` ${name}` : "");
	}
	return made.get(key);
}

/** Whether clocks show this time once more, before or after. @param {number} t_s */
export function isShownTwice(t_s) {
	const local_s = t_s + offset_s(t_s);
	return [-DAY_S, DAY_S].some((near_s) => {
		const other_s = local_s - offset_s(t_s + near_s);
		return other_s !== t_s && other_s + offset_s(other_s) === local_s;
	});
}

/**
 * A range of the calendar as people name it: October 2026, 2026, Thu 1 Oct 2026, Thu 1 Oct 2026 to
 * Mon 5 Oct 2026. Its end is excluded. Ends other than midnight are shown with their time.
 * @param {number} from_s @param {number} to_s
 */
export function span(from_s, to_s) {
	const last_s = to_s - 1;
	const whole = [from_s, to_s].every((each) => midnight(each) === each);
	if (!whole) return t("kit.from_to", { from: dateTime(from_s), to: dateTime(to_s) });
	const [first, end] = [from_s, to_s].map(dayInput);
	if (first.endsWith("-01-01") && end.endsWith("-01-01") && year(from_s) === year(last_s))
		return year(from_s);
	if (first.endsWith("-01") && end.endsWith("-01") && monthLong(from_s) === monthLong(last_s))
		return monthLong(from_s);
	if (date(from_s) === date(last_s)) return date(from_s);
	return t("kit.from_to", { from: date(from_s), to: date(last_s) });
}

// The office's zone in numbers: for axes, and for days that begin at its midnight

/** Seconds that the office's clocks are ahead of UTC at a time. @param {number} t_s */
export function offset_s(t_s) {
	/** @type {Intl.DateTimeFormatOptions} */
	const options = {
		timeZone: zone,
		hourCycle: "h23",
		year: "numeric",
		month: "numeric",
		day: "numeric",
		hour: "numeric",
		minute: "numeric",
		second: "numeric",
	};
	const key = "offset";
	if (!made.has(key)) made.set(key, new Intl.DateTimeFormat("en-US", options));
	/** @type {Intl.DateTimeFormatPart[]} */
	const parts = made.get(key).formatToParts(t_s * 1000);
	const part = Object.fromEntries(parts.map((p) => [p.type, Number(p.value)]));
	return (
		Date.UTC(part.year, part.month - 1, part.day, part.hour, part.minute, part.second) / 1000 -
		Math.floor(t_s)
	);
}

/**
 * The epoch time at which the office's clocks show `local_s` (seconds since 1970 as if it were
 * UTC).
 * @param {number} local_s
 */
export function fromLocal(local_s) {
	const guess_s = local_s - offset_s(local_s);
	return local_s - offset_s(guess_s);
}

/** @param {number} t_s */
const dayNumber = (t_s) => Math.floor((t_s + offset_s(t_s)) / DAY_S);

/**
 * The midnight that begins the day of `t_s`, or that of some days later.
 * @param {number} t_s @param {number} later
 */
export const midnight = (t_s, later = 0) => fromLocal((dayNumber(t_s) + later) * DAY_S);

/** For `<input type="datetime-local">`. @param {number} t_s */
export const toInput = (t_s) => new Date((t_s + offset_s(t_s)) * 1000).toISOString().slice(0, 16);
/** For `<input type="date">`, and as the API names a day. @param {number} t_s */
export const dayInput = (t_s) => toInput(t_s).slice(0, 10);
/** A moment as the API takes it: with its offset where clocks show it twice. @param {number} t_s */
export function moment(t_s) {
	if (!isShownTwice(t_s)) return toInput(t_s);
	const offset = Math.round(offset_s(t_s) / 60);
	const two = (/** @type {number} */ part) => String(part).padStart(2, "0");
	const [hours, minutes] = [Math.floor(Math.abs(offset) / 60), Math.abs(offset) % 60].map(two);
	return `${toInput(t_s)}${offset < 0 ? "-" : "+"}${hours}:${minutes}`;
}
/** From `<input type="datetime-local">`; NaN if there is nothing in it. @param {string} text */
export const fromInput = (text) => fromLocal(Date.parse(`${text}Z`) / 1000);
