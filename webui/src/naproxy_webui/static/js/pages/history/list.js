// Rows of one line that open, read page by page, newest first. One stop of the tab key: the arrow
// keys go from row to row.

import { all, button, fill, get, h, t } from "../../kit/core.js";
import { announce } from "../../kit/dialog.js";
import { onPress } from "../../kit/form.js";
import { nothing } from "./words.js";

const ROWS = 20;

/**
 * Fill `place` from `path`: `row(each)` makes the content of a line, closed and open; `none` is the
 * text for an empty list. `current()` tells whether the answer is still wanted.
 * @template Row
 * @param {Element} place @param {Listed<Row>} options
 */
export async function list(place, { path, query, row, none, label, current }) {
	const body = lines(label);
	const count = h("p.hint");
	const more = button("", t("history.older"));
	/** @type {string | null} */
	let cursor = null;
	let shown = 0;

	async function page() {
		const answer = await get(path, { ...query, cursor, limit: ROWS });
		if (!current()) return;
		for (const each of answer.rows) body.append(line(row(each), !body.childElementCount));
		shown += answer.rows.length;
		cursor = answer.next;
		more.hidden = cursor === null;
		count.textContent = t(cursor === null ? "history.shown" : "history.shown_more", {
			count: shown,
		});
	}

	await page();
	if (!current()) return;
	if (!shown) {
		place.replaceChildren(nothing(none));
		return;
	}
	onPress(more, async () => {
		await page();
		announce(count.textContent);
	});
	fill(place, h("div.stack.tight", body, h("div.row", count, more)));
}

/** A list of lines, empty as yet. @param {string} label */
export function lines(label) {
	const made = h("ul.lines", { "aria-label": label });
	made.addEventListener("keydown", (event) => move(made, event));
	made.addEventListener("focusin", (event) => {
		const now = /** @type {HTMLElement} */ (event.target);
		if (now.localName !== "summary") return;
		for (const each of all("summary[tabindex='0']", made)) each.tabIndex = -1;
		now.tabIndex = 0;
	});
	return made;
}

/** @param {Line} shown @param {boolean} first the one that the tab key stops at */
export function line({ head, body, looks = "" }, first) {
	const summary = h("summary", { tabindex: first ? "0" : "-1" }, head);
	const details = h(`details.line${looks}`, summary);
	details.addEventListener("toggle", () => {
		if (details.open && details.childElementCount === 1)
			details.append(h("div.line-body", body()));
	});
	return h("li", details);
}

/** @param {HTMLElement} list @param {KeyboardEvent} event */
function move(list, event) {
	if (/** @type {HTMLElement} */ (event.target).localName !== "summary") return;
	const rows = all("summary", list);
	const now = rows.indexOf(/** @type {any} */ (event.target));
	/** @type {Record<string, number>} */
	const keys = { ArrowDown: now + 1, ArrowUp: now - 1, Home: 0, End: rows.length - 1 };
	if (!(event.key in keys)) return;
	event.preventDefault();
	rows[Math.min(rows.length - 1, Math.max(0, keys[event.key]))].focus();
}
