// Days, from, to: fields to add hours to a week, or to a price.

import { h, t } from "../../kit/core.js";
import { weekday } from "../../kit/format.js";
import { DAYS } from "./hours.js";

/**
 * Fields that are not settings themselves, such as hours to add: their values are pending until
 * they are added. Saving the form adds them first.
 * @param {HTMLElement} place @param {() => boolean} add whether it could be added
 */
export function pending(place, add) {
	/** @param {boolean} is */
	const mark = (is) => {
		place.toggleAttribute("data-pending", is);
		place.dispatchEvent(new Event("naproxy:pending", { bubbles: true }));
	};
	for (const kind of ["input", "change"])
		place.addEventListener(kind, (event) => {
			event.stopPropagation();
			mark(true);
		});
	place.addEventListener("naproxy:add", () => {
		if (add()) mark(false);
	});
	return () => place.dispatchEvent(new Event("naproxy:add"));
}

/**
 * The fields, as `parts` of a page; `more` is put beside them. `days()` are the ticked days.
 * @param {string} id @param {{ ticked: number, from: string, to: string }} first initial values:
 * the first so many days from Monday on are ticked
 * @param {...HTMLElement} more
 */
export function times(id, { ticked, from, to }, ...more) {
	const boxes = DAYS.map((_, day) =>
		h("input", { type: "checkbox", value: String(day), checked: day < ticked }),
	);
	const days = boxes.map((box, day) => h("label.day", box, h("span", weekday(day))));
	const [begin, end] = [
		["from", from],
		["to", to],
	].map(([name, value]) =>
		h("input.input", { type: "time", id: `${id}-${name}`, value, "data-week-time": name }),
	);
	const parts = [
		h("fieldset.days", h("legend.visually-hidden", t("settings.week.days")), days),
		h(
			"span.row",
			h("label", { for: begin.id }, t("settings.week.from")),
			begin,
			h("label", { for: end.id }, t("settings.week.to")),
			end,
			more,
		),
	];
	return {
		parts,
		from: begin,
		to: end,
		days: () => boxes.filter((each) => each.checked).map((each) => Number(each.value)),
	};
}
