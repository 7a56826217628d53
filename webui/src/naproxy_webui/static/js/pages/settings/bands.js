// Prices by the hour: rows of days, hours and a price, which are the lines of a field.

import { button, fill, h, icon, one, t } from "../../kit/core.js";
import { decimal } from "../../kit/form.js";
import { money } from "../../kit/format.js";
import { daysAsText, hoursInWords, read } from "./hours.js";
import { pending, times } from "./times.js";
import { linesOf, put } from "./values.js";

/** A line in words; one that cannot be read stays as it is. @param {string} line */
function inWords(line) {
	const [, hours, price] = /^(.*) ([\d.]+)$/.exec(line) ?? [];
	const span = hours ? read(hours) : null;
	if (!span) return line;
	const digits = Math.min(4, Math.max(2, (price.split(".")[1] ?? "").length));
	return `${hoursInWords([span])}: ${money(Number(price), digits)}`;
}

/** @param {HTMLElement} place */
export function bands(place) {
	const text = one("textarea", place);
	const rows = h("ul.bands");
	const show = () => {
		const lines = linesOf(text.value);
		const made = lines.map((line, index) => {
			const words = inWords(line);
			const less = button(".icon-only.quiet.small", icon("trash-2"), () =>
				put(
					text,
					lines.filter((_, other) => other !== index),
				),
			);
			less.setAttribute("aria-label", t("settings.band_remove", { hours: words }));
			return h("li", h("span", words), less);
		});
		fill(rows, made.length ? made : h("li.soft", t("settings.bands_none")));
	};
	one("legend", place).after(rows, adder(text));
	text.addEventListener("input", show);
	show();
}

/** @param {Field} text */
function adder(text) {
	const price = h("input.input.short.number", {
		id: `${text.id}-price`,
		inputmode: "decimal",
		autocomplete: "off",
	});
	const { parts, from, to, days } = times(
		text.id,
		{ ticked: 7, from: "22:00", to: "06:00" },
		h("label", { for: price.id }, t("settings.band_price")),
		price,
	);
	const take = () => {
		const on = days();
		const complete = on.length && from.value && to.value && price.value.trim();
		problem.textContent = complete ? "" : t("settings.band_incomplete");
		if (!complete) {
			(price.value.trim() ? from : price).focus();
			return false;
		}
		// Midnight at the end of a day is written so.
		const end = to.value === "00:00" ? "24:00" : to.value;
		const line = `${daysAsText(on)} ${from.value}-${end} ${decimal(price.value)}`;
		put(text, [...linesOf(text.value), line]);
		price.value = "";
		return true;
	};
	const place = h("div.week-add", parts);
	const problem = h("p.error", { role: "alert" });
	place.append(button(".small", [icon("plus"), t("settings.band_add")], pending(place, take)));
	place.append(problem);
	return place;
}
