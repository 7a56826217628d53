// A table that is read page by page, newest first.

import { button, fill, get, h, t, tableOf } from "../../kit/core.js";
import { announce } from "../../kit/dialog.js";
import { onPress } from "../../kit/form.js";
import { nothing } from "./words.js";

/**
 * Fill `place` from `path`: `columns` are words, `row(each)` makes a `<tr>`, `none` says that
 * there is nothing. `current()` tells whether what was asked for is still wanted.
 * @template Row
 * @param {Element} place @param {Listed<Row>} options
 */
export async function list(place, { path, query, columns, row, none, label, current }) {
	const body = h("tbody");

	const count = h("p.hint");
	const more = button(".small", t("history.older"));
	/** @type {string | null} */
	let cursor = null;
	let shown = 0;

	async function page() {
		const answer = await get(path, { ...query, cursor, limit: 50 });
		if (!current()) return;
		body.append(...answer.rows.map(row));
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
	const table = tableOf(".cards", label, columns, body);
	fill(place, h("div.stack.tight", table, h("div.row", count, more)));
}
