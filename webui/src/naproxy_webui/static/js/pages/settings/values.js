// What the fields say, as values of the configuration, and what is different from what holds.

import { decimal } from "../../kit/form.js";

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
const parsed = (text) => (text === undefined ? null : JSON.parse(text));

export const fieldsOf = (root) => [...root.querySelectorAll("[data-where]")];
export const isUsed = (field) => !field.closest("fieldset[disabled]");
export const initial = (field) => parsed(field.dataset.initial);
export const standard = (field) => parsed(field.dataset.default);

const READ = {
	boolean: (field) => field.checked,
	choice: (field) => field.value,
	choices: (field) => [...field.querySelectorAll("input:checked")].map((each) => each.value),
	radio: (field) => field.querySelector("input:checked")?.value ?? null,
	number: (field) => numberOf(field),
	list: (field) =>
		linesOf(field.value).map((line) => ("numbers" in field.dataset ? decimal(line) : line)),
	secret: (field) => (field.value === "" ? null : field.value),
	text: (field) =>
		("oneLine" in field.dataset ? field.value.replace(/\s*\n\s*/g, " ") : field.value).trim(),
};

export const linesOf = (text) =>
	text
		.split("\n")
		.map((line) => line.trim())
		.filter(Boolean);

/** A number in the unit of the file: a field in percent is a hundred times as large. */
function numberOf(field) {
	const text = field.value.trim();
	if (text === "") return standard(field) ?? "";
	const read = decimal(text);
	if (typeof read !== "number" || !field.dataset.scale) return read;
	return Number((read / Number(field.dataset.scale)).toPrecision(12));
}

export const valueOf = (field) => READ[field.dataset.kindOf](field);

/** Put a value into a field, as by hand. */
export function put(field, value) {
	if (field.dataset.kindOf === "list") field.value = value.join("\n");
	else field.value = value;
	field.dispatchEvent(new Event("input", { bubbles: true }));
}

export function isChanged(field) {
	if (field.dataset.kindOf === "secret") return field.value !== "";
	return !same(valueOf(field), initial(field));
}

export const chosen = (part) =>
	part.querySelector("input[data-choose]:checked")?.value ??
	part.querySelector("select[data-choose]")?.value;

const ownFields = (form, where) =>
	fieldsOf(form).filter(
		(field) =>
			isUsed(field) &&
			field.dataset.where.startsWith(`${where}.`) &&
			!field.dataset.where.slice(where.length + 1).includes("."),
	);

/** A whole section: what must be given, and what is not as it is by itself. */
export function wholeSection(form, where) {
	const section = {};
	for (const field of ownFields(form, where)) {
		const value = valueOf(field);
		if (
			field.dataset.kindOf === "secret"
				? value !== null
				: "required" in field.dataset || !same(value, standard(field))
		) {
			section[field.dataset.key] = value;
		}
	}
	for (const part of form.querySelectorAll(`[data-alternative="${where}"]`))
		section[part.dataset.selector] = chosen(part);
	return section;
}

/** All changes of a form, as PATCH /api/settings takes them. */
export function changesOf(form) {
	const changes = [],
		whole = new Set();
	for (const part of form.querySelectorAll("[data-alternative]")) {
		const where = part.dataset.alternative;
		if (chosen(part) === part.dataset.chosen) continue;
		whole.add(where);
		changes.push({ op: "set", where, value: wholeSection(form, where) });
	}
	for (const field of fieldsOf(form)) {
		const where = field.dataset.where;
		if (!isUsed(field) || whole.has(where.slice(0, where.lastIndexOf(".")))) continue;
		if (isChanged(field)) changes.push({ op: "set", where, value: valueOf(field) });
	}
	for (const box of form.querySelectorAll("input[data-forget]:checked"))
		changes.push({ op: "remove", where: box.dataset.forget });
	return changes;
}

/** Where the controller says something is wrong -> the name of the field on this page. */
export function fieldNamed(form, where) {
	const plain = (where ?? "").replace(/\[\d+\]$/, "");
	const used = fieldsOf(form).filter(isUsed);
	const exact = used.find((field) => field.dataset.where === plain);
	const key = plain.split(".").at(-1);
	const found =
		exact ?? (form.dataset.add ? used.find((field) => field.dataset.key === key) : null);
	return found ? found.name || found.querySelector("input")?.name : where;
}
