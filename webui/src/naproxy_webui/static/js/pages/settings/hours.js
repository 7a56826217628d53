// Times of the week as the box writes them, `mon-fri 07:30-18:00`, as minutes, and as words.

import { weekday } from "../../kit/format.js";
import { t } from "../../kit/core.js";

export const DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const SPAN = /^(\S+) +([01]\d|2[0-3]):([0-5]\d)-(?:([01]\d|2[0-3]):([0-5]\d)|24:00)$/;
const DATE = /^\d{4}-\d\d-\d\d$/;

/**
 * One line -> {days, date, begin, end} in minutes, end past 1440 on the next day; null: cannot be
 * read.
 * @param {string} line @returns {Hours | null}
 */
export function read(line) {
	const found = SPAN.exec(line.trim());
	if (!found) return null;
	const begin = Number(found[2]) * 60 + Number(found[3]);
	let end = found[4] === undefined ? 1440 : Number(found[4]) * 60 + Number(found[5]);
	if (begin === end) return null;
	if (end < begin) end += 1440;
	if (DATE.test(found[1])) return { days: [], date: found[1], begin, end };
	const days = new Set();
	for (const part of found[1].split(",")) {
		const [first, last = first] = part.split("-").map((each) => DAYS.indexOf(each));
		if (first < 0 || last < 0) return null;
		for (let day = first; ; day = (day + 1) % 7) {
			days.add(day);
			if (day === last) break;
		}
	}
	return { days: [...days].sort(), date: null, begin, end };
}

/** @param {string[]} lines */
export function readLines(lines) {
	const spans = [],
		wrong = [];
	for (const line of lines) {
		const span = read(line);
		if (span) spans.push(span);
		else wrong.push(line);
	}
	return { spans, wrong };
}

/** @param {number} value */
const two = (value) => String(value).padStart(2, "0");
/** @param {number} minutes */
export const clock = (minutes) =>
	minutes === 1440 ? "24:00" : `${two(Math.floor((minutes % 1440) / 60))}:${two(minutes % 60)}`;

/** Runs of days: [0,1,2,3,4] -> [[0,4]]. @param {number[]} days */
function runs(days) {
	/** @type {[number, number][]} */
	const found = [];
	for (const day of days) {
		const last = found.at(-1);
		if (last && last[1] === day - 1) last[1] = day;
		else found.push([day, day]);
	}
	return found;
}

/** @param {number[]} days */
export const daysAsText = (days) =>
	runs(days)
		.map(([a, b]) => (a === b ? DAYS[a] : `${DAYS[a]}-${DAYS[b]}`))
		.join(",");

/** Spans -> words: Mon to Fri 07:30 to 18:00, Sat 09:00 to 12:00. @param {Hours[]} spans */
export function hoursInWords(spans) {
	const said = spans.map(({ days, date, begin, end }) => {
		const on =
			date ??
			(days.length === 7
				? t("settings.says.every_day")
				: runs(days)
						.map(([a, b]) =>
							a === b
								? weekday(a)
								: t(b === a + 1 ? "settings.says.and" : "settings.says.to", {
										from: weekday(a),
										to: weekday(b),
									}),
						)
						.join(", "));
		const at =
			begin === 0 && end === 1440
				? t("settings.says.all_day")
				: t("settings.says.to", { from: clock(begin), to: clock(end) });
		return `${on} ${at}`;
	});
	return said.join("; ");
}

/**
 * Minutes of each day of the week that are in one of the spans, as [begin, end] a day.
 * @param {Hours[]} spans
 */
export function perDay(spans) {
	/** @type {Minutes[][]} */
	const days = DAYS.map(() => []);
	for (const { days: on, begin, end } of spans) {
		for (const day of on) {
			days[day].push([begin, Math.min(end, 1440)]);
			if (end > 1440) days[(day + 1) % 7].push([0, end - 1440]);
		}
	}
	return days.map(merged);
}

/** @param {Minutes[]} parts */
function merged(parts) {
	/** @type {Minutes[]} */
	const found = [];
	for (const [begin, end] of parts.sort((a, b) => a[0] - b[0])) {
		const last = found.at(-1);
		if (last && begin <= last[1]) last[1] = Math.max(last[1], end);
		else found.push([begin, end]);
	}
	return found;
}

/**
 * Minutes a day -> lines, days with the same hours together; dates stay as they were.
 * @param {Minutes[][]} days @param {string[]} dates
 */
export function asLines(days, dates) {
	/** @type {Map<string, number[]>} */
	const by = new Map();
	for (const [day, parts] of days.entries()) {
		for (const [begin, end] of parts) {
			const key = `${clock(begin)}-${clock(end)}`;
			by.set(key, [...(by.get(key) ?? []), day]);
		}
	}
	return [...[...by].map(([hours, on]) => `${daysAsText(on)} ${hours}`), ...dates];
}

/**
 * Put a part of a day in, or take it out.
 * @param {Minutes[]} parts @param {number} begin @param {number} end @param {boolean} on
 */
export function painted(parts, begin, end, on) {
	if (on) return merged([...parts, [begin, end]]);
	return parts.flatMap(([from, to]) => {
		/** @type {Minutes[]} */
		const left = [
			[from, Math.min(to, begin)],
			[Math.max(from, end), to],
		];
		return left.filter(([a, b]) => a < b);
	});
}
