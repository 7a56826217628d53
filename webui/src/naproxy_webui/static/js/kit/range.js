// Which time a page shows: kept in its address, so that it can be kept, sent, and gone back to.

import { date, day as dayWords, monthLong, year } from "./format.js";

/**
 * The URL's parameters `view`, `day`, `from` and `to`, if present. Its `server` is selected in the
 * list of servers.
 * @param {HTMLSelectElement} server @returns {Record<string, string | undefined>}
 */
export function fromAddress(server) {
	const { server: name, ...asked } = Object.fromEntries(new URLSearchParams(location.search));
	if ([...server.options].some((each) => each.value === name)) server.value = name;
	return asked;
}

/**
 * Put into the address what is shown; the server too, where there are several.
 * @param {Record<string, string | null | undefined>} query @param {HTMLSelectElement} server
 * @param {{ replace?: boolean }} options
 */
export function toAddress(query, server, { replace = false } = {}) {
	const kept = { ...query, ...(server.options.length > 1 ? { server: server.value } : {}) };
	const known = Object.entries(kept).filter(([, value]) => value);
	history[replace ? "replaceState" : "pushState"](null, "", `?${new URLSearchParams(known)}`);
}

/**
 * A day, week, month or year of the calendar in words.
 * @param {string} view @param {number} from_s @param {number} to_s
 */
export function calendarTitle(view, from_s, to_s) {
	switch (view) {
		case "day":
			return date(from_s);
		case "week":
			// English has a comma in a day with its year: not on one side only.
			return `${dayWords(from_s)} – ${dayWords(to_s - 1)} ${year(to_s - 1)}`;
		case "month":
			return monthLong(from_s);
		default:
			return year(from_s);
	}
}
