// Parts that many pages are made of.

import { h, icon, KIND_ICONS, STATE_ICONS, t } from "./core.js";

/**
 * A message in the page; `kind` is good, info, warn or bad.
 * @param {string} kind @param {Child[]} rest
 */
export const notice = (kind, ...rest) =>
	h("div.notice", { "data-kind": kind }, icon(KIND_ICONS[kind]), h("div", rest));

/** A message of what went wrong just now: it is read out. @param {Child[]} rest */
export function alarm(...rest) {
	const made = notice("bad", ...rest);
	made.setAttribute("role", "alert");
	return made;
}

/** @param {string} kind @param {string} picture @param {Child} words */
export const badge = (kind, picture, words) =>
	h("span.badge", { "data-kind": kind }, icon(picture), words);

/** What a badge of a server's state has in it. @param {string} state */
export const stateParts = (state) => [
	icon(STATE_ICONS[state] ?? "circle-help"),
	t(`kit.state.${state}`),
];

/**
 * A button that is not of a form: `looks` are classes, as ".small.danger".
 * @param {string} looks @param {Child} words @param {((event: any) => unknown) | null} [onclick]
 * @param {Attributes} more
 */
export const button = (looks, words, onclick, more = {}) =>
	h(`button.button${looks}`, { type: "button", onclick, ...more }, words);

/**
 * A figure with its name and a note.
 * @param {string} label @param {Child} value @param {Child} note
 */
export const stat = (label, value, note = "") =>
	h(
		"div.stat",
		h("span.stat-label", label),
		h("span.stat-value", value),
		h("span.stat-note", note),
	);

/** Names and values, as far as there is a value. @param {(readonly [Child, Child])[]} pairs */
export const facts = (...pairs) =>
	h(
		"dl.facts",
		pairs.filter(([, value]) => value).map(([name, value]) => [h("dt", name), h("dd", value)]),
	);

/**
 * A table that scrolls by itself where it is too wide; `looks` are classes, as ".cards".
 * @param {string} looks @param {string | undefined} label @param {Child[]} columns
 * @param {Child} rows @param {(index: number) => boolean} isFigure which columns are of figures
 */
export const tableOf = (looks, label, columns, rows, isFigure = () => false) =>
	h(
		"div.table-wrap",
		{ tabindex: "0", role: "group", "aria-label": label },
		h(
			`table.table${looks}`,
			h(
				"thead",
				h(
					"tr",
					columns.map((each, n) =>
						h(isFigure(n) ? "th.end" : "th", { scope: "col" }, each),
					),
				),
			),
			rows instanceof HTMLTableSectionElement ? rows : h("tbody", rows),
		),
	);

/**
 * A cell that names its column on a phone.
 * @param {string} label @param {string} looks @param {Child[]} rest
 */
export const cell = (label, looks, ...rest) => h(`td${looks}`, { "data-label": label }, ...rest);
