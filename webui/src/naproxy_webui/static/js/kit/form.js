// Forms: values out of them, refusals beside the fields they are about.

import { all, ApiError, h, one, refusal, t } from "./core.js";
import { refused, toast } from "./dialog.js";

let next = 0;
/** Something that takes longer says so: a turning circle alone looks as if nothing happened. */
const SLOW_MS = 1500;

/**
 * A field of a form, or its radio buttons, by name.
 * @param {HTMLFormElement} form @param {string} name
 */
export const field = (form, name) => /** @type {Field} */ (form.elements.namedItem(name));

/**
 * The values of a form by name: numbers, true or false, lists for several of a name; empty: null.
 * @param {HTMLFormElement} form @returns {Record<string, any>}
 */
export function values(form) {
	/** @type {Record<string, any>} */
	const found = {};
	for (const field of /** @type {Iterable<Field>} */ (form.elements)) {
		if (!field.name || field.disabled || field.type === "submit" || field.type === "button")
			continue;
		if (field.type === "radio") {
			if (field.checked) found[field.name] = field.value;
		} else if (field.type === "checkbox" && field.hasAttribute("value")) {
			found[field.name] = [
				...(found[field.name] ?? []),
				...(field.checked ? [field.value] : []),
			];
		} else found[field.name] = value(field);
	}
	return found;
}

/** @param {Field} field */
function value(field) {
	if (field.type === "checkbox") return field.checked;
	if (field.multiple && field.selectedOptions)
		return [...field.selectedOptions].map((each) => each.value);
	if (field.type === "password") return field.value;
	const text = field.value.trim();
	if (text === "") return null;
	return field.type === "range" || ["numeric", "decimal"].includes(field.inputMode)
		? decimal(text)
		: text;
}

/** An amount with its currency: 0,31 €, CHF 0.31, 31 ct/kWh. */
const UNITS = "[€$£¥]|zł|euros?|EUR|CHF|GBP|USD|PLN|SFr\\.?|Fr\\.?";
const CENTS = "ct|cents?|rp\\.?|rappen|centimes?|gr|p";
const MONEY = new RegExp(
	`^(?:${UNITS})?\\s*(-?[\\d.,'’\\s]*\\d)\\s*(?:(${CENTS})|${UNITS})?` +
		"\\s*(?:(?:/|per|pro|je|par|por|za)\\s*kWh)?$",
	"i",
);

/**
 * Read a number as people write it, even 0,29 €. Any other text stays, and the box rejects it.
 * @param {string} text
 */
export function decimal(text) {
	const [, amount = text, hundredths] = MONEY.exec(text.trim()) ?? [];
	let plain = amount.replace(/[\s'’]/g, "");
	// If both marks occur, the last one is the decimal mark.
	if (/\d,.*\./.test(plain)) plain = plain.replace(/,/g, "");
	else if (/\d\..*,/.test(plain)) plain = plain.replace(/\./g, "");
	plain = plain.replace(/^(-?\d*),(\d+)$/, "$1.$2");
	if (plain === "" || !Number.isFinite(Number(plain))) return text;
	return hundredths ? Number((Number(plain) / 100).toPrecision(12)) : Number(plain);
}

/** Seconds in a unit, by its usual abbreviation. @type {Record<string, number>} */
const SECONDS = { ms: 0.001, s: 1, min: 60, h: 3600, d: 86400, w: 604800 };
/** Its other names, in the languages of the pages. @type {[RegExp, string][]} */
const NAMES = [
	[/^(ms|mil+ise.*|msec)$/, "ms"],
	[/^(s|se[cgk]s?|se[cgk][ou]nd.*)$/, "s"],
	[/^(m|mins?|minut.*)$/, "min"],
	[/^(h|hrs?|hours?|stds?|stunden?|horas?|heures?|or[ae]|uur|uren|godz.*)$/, "h"],
	[/^(d|days?|t|tage?n?|d[ií]as?|j|jours?|g|giorn[io]|dag(en)?|dni|dzie[nń])$/, "d"],
	[/^(w|weeks?|wochen?|semanas?|semaines?|settiman[ae]|weken|tyg.*)$/, "w"],
];
const ORDER = ["d", "h", "min", "s"];

/**
 * Read a length of time as people write it: 90 min, 1 h 30, 2 d, 1:30 (hours); else NaN.
 * @param {string} text
 */
export function seconds(text) {
	const clock = /^(\d+):([0-5]\d)$/.exec(text.trim());
	if (clock) return Number(clock[1]) * 3600 + Number(clock[2]) * 60;
	const parts = [...text.toLowerCase().matchAll(/(\d+(?:[.,]\d+)?)\s*(\p{L}*)\.?\s*/gu)];
	if (!parts.length || parts.map(([whole]) => whole).join("") !== text.trim().toLowerCase())
		return Number.NaN;
	let sum = 0;
	let last = "";
	for (const [, amount, word] of parts) {
		// 1 h 30: a number without a unit has the next smaller one.
		const unit = word
			? NAMES.find(([name]) => name.test(word))?.[1]
			: ORDER[ORDER.indexOf(last) + 1];
		if (!unit || (!word && !last)) return Number.NaN;
		sum += Number(amount.replace(",", ".")) * SECONDS[unit];
		last = unit;
	}
	return sum;
}

/** The controller's names of units of time. @type {Record<string, number>} */
const OF_TIME = { milliseconds: 0.001, seconds: 1, hours: 3600, days: 86400 };

/**
 * Read a number with or without its unit: a length of time in any, %, W or J as the field's.
 * @param {string} text @param {string | undefined} unit
 */
export function measured(text, unit) {
	const plain = decimal(text.trim().replace(/\s*(%|W|J|g(\/kWh)?)$/, ""));
	if (typeof plain === "number" || !unit || !(unit in OF_TIME)) return plain;
	const s = seconds(text);
	return Number.isNaN(s) ? text : Number((s / OF_TIME[unit]).toPrecision(12));
}

/**
 * Show what is wrong beside its field (found by name, `where` or its last part), the rest on top.
 * @param {HTMLFormElement} form @param {unknown} error
 */
export function showErrors(form, error) {
	clearErrors(form);
	const problems =
		error instanceof ApiError
			? error.problems
			: [{ where: null, error: /** @type {Error} */ (error).message }];
	const rest = problems.filter(({ where, error: words }) => !beside(form, where, words));
	if (rest.length) {
		form.prepend(
			h(
				"div.notice",
				{ "data-kind": "bad", role: "alert", "data-form-error": true, tabindex: "-1" },
				h(
					"div",
					rest.map(({ where, error: words }) =>
						h("p", where ? `${where}: ${words}` : words),
					),
				),
			),
		);
	}
	(one('[aria-invalid="true"]', form) ?? one("[data-form-error]", form))?.focus();
}

/** A refusal is part of a sentence: it may follow a name. @param {string} words */
export const sentence = (words) =>
	words.charAt(0).toUpperCase() + words.slice(1) + (/[.!?…]$/.test(words) ? "" : ".");

/** @param {HTMLFormElement} form @param {string | null} where @param {string} words */
function beside(form, where, words) {
	if (!where) return false;
	/** @param {string | undefined} name */
	const named = (name) =>
		/** @type {Field[]} */ ([...form.elements]).find(
			(each) => each.name === name || each.dataset.where === name,
		);
	const field = named(where) ?? named(where.split(".").at(-1));
	if (!field) return false;
	const holder = /** @type {HTMLElement} */ (field.closest(".field") ?? field.parentElement);
	const there = one(":scope > .error", holder);
	const place = there ?? h("p.error");
	if (!there) holder.append(place);
	place.id ||= `error-${next++}`;
	place.textContent = sentence(words);
	field.setAttribute("aria-invalid", "true");
	const described = (field.getAttribute("aria-describedby") ?? "").split(" ").filter(Boolean);
	if (!described.includes(place.id))
		field.setAttribute("aria-describedby", [...described, place.id].join(" "));
	return true;
}

/** Take all errors away. @param {HTMLFormElement} form */
export function clearErrors(form) {
	for (const each of all("[data-form-error]", form)) each.remove();
	for (const each of all(".error", form)) each.textContent = "";
	for (const each of all("[aria-invalid]", form)) each.removeAttribute("aria-invalid");
}

/**
 * Mark a button as busy while something runs; a second press does nothing.
 * @template T
 * @param {Element | null} button @param {() => T | Promise<T>} work
 */
export async function busy(button, work) {
	if (button?.getAttribute("aria-busy") === "true") return undefined;
	button?.setAttribute("aria-busy", "true");
	const words = h("span.hint", { role: "status" });
	const timer = setTimeout(() => {
		button?.after(words);
		words.textContent = t("kit.saving.slow");
	}, SLOW_MS);
	try {
		return await work();
	} finally {
		clearTimeout(timer);
		words.remove();
		button?.removeAttribute("aria-busy");
	}
}

/**
 * On submit, call `send(values)`, then `done(answer)`, which by default says that it was saved.
 * Show a refusal beside the fields.
 * @template T
 * @param {HTMLFormElement} form @param {(given: Record<string, any>) => T | Promise<T>} send
 * @param {(answer: T) => unknown} done
 */
export function onSubmit(form, send, done = () => toast(t("kit.saved"))) {
	form.noValidate = true;
	onSend(form, async () => {
		const answer = await send(values(form));
		clearErrors(form);
		await done(answer);
	});
}

/**
 * On submit, call `work()`. Its errors go to `refuse`, which by default shows them at the fields.
 * @param {HTMLFormElement} form @param {() => unknown} work
 * @param {(error: unknown) => unknown} refuse
 */
export function onSend(form, work, refuse = (error) => showErrors(form, refusal(error))) {
	form.addEventListener("submit", (event) => {
		event.preventDefault();
		const button = event.submitter ?? form.querySelector('[type="submit"], button:not([type])');
		busy(button, async () => {
			try {
				await work();
			} catch (error) {
				refuse(error);
			}
		});
	});
}

/**
 * Do what a button is for, its refusal as a message. Resolves to its answer, or undefined.
 * @template T
 * @param {Element | null} button @param {() => T | Promise<T>} work
 */
export const press = (button, work) =>
	busy(button, async () => {
		try {
			return await work();
		} catch (error) {
			refused(error);
			return undefined;
		}
	});

/**
 * Do it whenever the button is pressed.
 * @template {HTMLElement} B
 * @param {B} button @param {() => unknown} work
 */
export function onPress(button, work) {
	button.addEventListener("click", () => press(button, work));
	return button;
}
