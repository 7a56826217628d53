// "Keep awake until ...": the question, as a dialog.

import { open } from "../../kit/dialog.js";
import { field } from "../../kit/form.js";
import { button, h, t } from "../../kit/core.js";
import { fromInput, fromLocal, midnight, offset_s, toInput, when } from "../../kit/format.js";

const EVENING_H = 20;
const MORNING_H = 8;

/**
 * So many hours of the office's clocks after a midnight; that is not always as many hours later.
 * @param {number} midnight_s @param {number} hours
 */
const oClock = (midnight_s, hours) => fromLocal(midnight_s + offset_s(midnight_s) + hours * 3600);

/**
 * Name -> until when. This evening is offered only while it is more than an hour away.
 * @param {number} now_s @returns {Record<string, number>}
 */
export function choices(now_s) {
	const evening_s = oClock(midnight(now_s), EVENING_H);
	return {
		hour: now_s + 3600,
		...(evening_s - now_s > 3600 ? { tonight: evening_s } : {}),
		morning: oClock(midnight(now_s, 1), MORNING_H),
	};
}

/** @param {string} name @param {boolean} checked @param {string} [hint] */
function choice(name, checked, hint) {
	return h(
		"label.choice",
		h("input", { type: "radio", name: "until", value: name, checked }),
		h("span", h("b", t(`now.keep_${name}`)), hint && h("span.hint", hint)),
	);
}

/**
 * Ask until when; resolves to epoch seconds, null for ever, undefined if it was called off.
 * @param {string} name
 */
export async function askUntil(name) {
	const now_s = Date.now() / 1000,
		until = choices(now_s);
	const time = h("input.input.middle", {
		type: "datetime-local",
		name: "when",
		id: "keep-when",
		value: toInput(Math.ceil(now_s / 3600) * 3600 + 3600),
		min: toInput(now_s),
	});
	const error = h("p.error", { id: "keep-error" });
	const own = h(
		"div.field",
		{ hidden: true },
		h("label", { for: "keep-when" }, t("now.keep_when")),
		time,
		error,
	);
	const cancel = button("", t("kit.cancel"), () => dialog.close(""));
	const form = h(
		"form.dialog",
		{ method: "dialog", novalidate: true },
		h("h2", { id: "keep-title" }, t("now.keep_title", { name })),
		h("p.soft", t("now.keep_words")),
		h(
			"div.choices",
			{ role: "radiogroup", "aria-labelledby": "keep-title" },
			Object.entries(until).map(([each, t_s], index) =>
				choice(each, index === 0, when(t_s, now_s)),
			),
			choice("choose", false),
			own,
			choice("ever", false, t("now.keep_ever_hint")),
		),
		h("footer", cancel, h("button.button.primary", { value: "yes" }, t("now.keep_yes"))),
	);
	const chosen = () => field(form, "until").value;
	const value = () =>
		chosen() === "ever"
			? null
			: chosen() === "choose"
				? fromInput(time.value)
				: until[chosen()];
	form.addEventListener("change", () => {
		own.hidden = chosen() !== "choose";
	});
	form.addEventListener("submit", (event) => {
		const t_s = value();
		if (t_s === null || t_s > Date.now() / 1000) return;
		event.preventDefault();
		error.textContent = t("now.keep_bad");
		time.setAttribute("aria-invalid", "true");
		time.setAttribute("aria-describedby", "keep-error");
		time.focus();
	});
	const dialog = h("dialog", { "aria-labelledby": "keep-title" }, form);

	return (await open(dialog, { once: true })) === "yes" ? value() : undefined;
}
