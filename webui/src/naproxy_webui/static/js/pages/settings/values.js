// The fields' contents as configuration values, and their difference from the current ones.

import { all, one } from "../../kit/core.js";
import { decimal, measured } from "../../kit/form.js";

/** @param {unknown} one @param {unknown} other */
const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
/** @param {string | undefined} text @returns {any} */
const parsed = (text) => (text === undefined ? null : JSON.parse(text));

/** @param {ParentNode} root */
export const fieldsOf = (root) => /** @type {Field[]} */ (all("[data-where]", root));
/** @param {HTMLElement} field */
const whereOf = (field) => field.dataset.where ?? "";
/** @param {Element} field */
const isUsed = (field) => !field.closest("fieldset[disabled]");
/** @param {HTMLElement} field */
export const initial = (field) => parsed(field.dataset.initial);
/** @param {HTMLElement} field */
export const standard = (field) => parsed(field.dataset.default);

/** @type {Record<string, (field: Field) => any>} */
const READ = {
	boolean: (field) => field.checked,
	choice: (field) => field.value,
	choices: (field) => all("input:checked", field).map((each) => each.value),
	radio: (field) => one("input:checked", field)?.value ?? null,
	number: (field) => numberOf(field),
	list: (field) =>
		linesOf(field.value).map((line) =>
			"numbers" in field.dataset
				? decimal(line)
				: field.dataset.key === "closed"
					? dates(line)
					: line,
		),
	secret: (field) => (field.value === "" ? null : field.value),
	held: (field) => (field.value === "" ? null : { secret: field.value }),
	file: (field) => field.value.trim(),
	text: (field) => {
		const text =
			"oneLine" in field.dataset ? field.value.replace(/\s*\n\s*/g, " ") : field.value;
		return field.dataset.key === "id" ? shortName(text.trim()) : text.trim();
	},
};

const WRITTEN = { ä: "ae", ö: "oe", ü: "ue", ß: "ss", æ: "ae", ø: "oe", å: "aa", ł: "l" };

/**
 * A short name as the box takes it: Web Server 1 -> web-server-1.
 * @param {string} text
 */
export const shortName = (text) =>
	text
		.toLowerCase()
		.replace(/[äöüßæøåł]/g, (each) => WRITTEN[/** @type {keyof typeof WRITTEN} */ (each)])
		.normalize("NFD")
		.replace(/[\u0300-\u036f]/g, "")
		.replace(/[\s_./]+/g, "-")
		.replace(/^-+|-+$/g, "");

/**
 * A day, or the first and the last, as people write them: 24.12.2026 - 1.1.2027, 24/12/2026,
 * 24 Dec 2026. Any other text stays, and the box rejects it.
 * @param {string} line
 */
export function dates(line) {
	const parts = line.split(/\s*(?:\.\.+|…|\s[-–—]\s|\s(?:to|bis|until|au|al|a|do|tot)\s)\s*/);
	const days = parts.map(isoDay);
	return days.length <= 2 && days.every(Boolean) ? days.join("..") : line;
}

/** @param {string} text @returns {string | null} */
function isoDay(text) {
	const iso = /^(\d{4})-(\d\d?)-(\d\d?)$/.exec(text);
	const typed = /^(\d\d?)(?:[./-]\s*|\.?\s+)(\d\d?|\p{L}+)\.?(?:[/-]|\s*)(\d{4})$/u.exec(text);
	const [year, month, day] = iso ? iso.slice(1) : typed ? [typed[3], typed[2], typed[1]] : [];
	const number = month && (/^\d/.test(month) ? Number(month) : monthOf(month));
	if (!number || number > 12) return null;
	return [year, ...[number, day].map((each) => String(each).padStart(2, "0"))].join("-");
}

/** The number of a month by its name, in the page's language or English. @param {string} name */
function monthOf(name) {
	const wanted = name.toLowerCase().slice(0, 3);
	for (const language of [document.documentElement.lang || "en", "en"])
		for (let month = 0; month < 12; month += 1) {
			const words = new Intl.DateTimeFormat(language, { month: "long", timeZone: "UTC" });
			const known = words.format(Date.UTC(2026, month)).toLowerCase();
			if (wanted.length === 3 && known.startsWith(wanted)) return month + 1;
		}
	return null;
}

/** @param {string} text */
export const linesOf = (text) =>
	text
		.split("\n")
		.map((line) => line.trim())
		.filter(Boolean);

/**
 * A number in the unit of the file: a field in percent is a hundred times as large.
 * @param {Field} field
 */
function numberOf(field) {
	const text = field.value.trim();
	if (text === "") return standard(field) ?? "";
	const read = measured(text, field.dataset.unit);
	if (typeof read !== "number" || !field.dataset.scale) return read;
	return Number((read / Number(field.dataset.scale)).toPrecision(12));
}

/** @param {Field} field @returns {any} */
export const valueIn = (field) => READ[field.dataset.kindOf ?? "text"](field);

/** Put a value into a field, as by hand. @param {Field} field @param {any} value */
export function put(field, value) {
	if (field.dataset.kindOf === "list") field.value = value.join("\n");
	else field.value = value;
	field.dispatchEvent(new Event("input", { bubbles: true }));
}

/** Is it a field whose value is never shown? @param {HTMLElement} field */
export const isHidden = (field) => ["secret", "held"].includes(field.dataset.kindOf ?? "");

/** @param {Field} field */
function isChanged(field) {
	if (isHidden(field)) return field.value !== "";
	return !same(valueIn(field), initial(field));
}

/** @param {ParentNode} part */
export const chosen = (part) =>
	one("input[data-choose]:checked", part)?.value ?? one("select[data-choose]", part)?.value;

/** @param {HTMLFormElement} form @param {string} where */
const ownFields = (form, where) =>
	fieldsOf(form).filter(
		(field) =>
			isUsed(field) &&
			whereOf(field).startsWith(`${where}.`) &&
			!whereOf(field)
				.slice(where.length + 1)
				.includes("."),
	);

/**
 * A whole section: its required values, and those that differ from their default.
 * @param {HTMLFormElement} form @param {string} where
 */
export function wholeSection(form, where) {
	/** @type {Record<string, any>} */
	const section = {};
	for (const field of ownFields(form, where)) {
		const [key, value] = [field.dataset.key ?? "", valueIn(field)];
		// The name of a file comes after what may be given in its place, and is left out if empty.
		const named = field.dataset.kindOf === "file";
		if (named && (value === "" || key in section)) continue;
		if (
			isHidden(field)
				? value !== null
				: "required" in field.dataset || !same(value, standard(field))
		) {
			section[key] = value;
		}
	}
	for (const part of all(`[data-alternative="${where}"]`, form))
		section[part.dataset.selector ?? ""] = chosen(part);
	return section;
}

/** All changes of a form, as PATCH /api/settings takes them. @param {HTMLFormElement} form */
export function changesOf(form) {
	/** @type {Change[]} */
	const changes = [];
	const whole = new Set();
	for (const part of all("[data-alternative]", form)) {
		const where = part.dataset.alternative ?? "";
		if (chosen(part) === part.dataset.chosen) continue;
		whole.add(where);
		changes.push({ op: "set", where, value: wholeSection(form, where) });
	}
	for (const field of fieldsOf(form)) {
		const where = whereOf(field);
		if (!isUsed(field) || whole.has(where.slice(0, where.lastIndexOf(".")))) continue;
		if (isChanged(field) && changes.at(-1)?.where !== where)
			changes.push({ op: "set", where, value: valueIn(field) });
	}
	for (const box of all("input[data-forget]:checked", form))
		changes.push({ op: "remove", where: box.dataset.forget ?? "" });
	return changes;
}

/**
 * Where the controller says something is wrong -> the name of the field on this page.
 * @param {HTMLFormElement} form @param {string | null} where
 */
export function fieldNamed(form, where) {
	const plain = (where ?? "").replace(/\[\d+\]$/, "");
	const used = fieldsOf(form).filter(isUsed);
	const exact = used.find((field) => field.dataset.where === plain);
	const key = plain.split(".").at(-1);
	const found =
		exact ?? (form.dataset.add ? used.find((field) => field.dataset.key === key) : null);
	return found ? found.name || one("input", found)?.name : where;
}
