// Forms of settings: changes are counted, saved together, and rejected beside their fields.

import { all, ApiError, one, put, t } from "../../kit/core.js";
import { confirm, toast } from "../../kit/dialog.js";
import { date } from "../../kit/format.js";
import { clearErrors, onPress, onSend, showErrors } from "../../kit/form.js";
import { saveSettings } from "../../kit/saving.js";
import {
	changesOf,
	chosen,
	fieldNamed,
	fieldsOf,
	isHidden,
	valueIn,
	wholeSection,
} from "./values.js";

const SAVED = "naproxy-settings-saved";
/** @type {{ form: HTMLFormElement, adds: boolean, leaving: boolean, dirty: boolean }[]} */
const forms = [];

/** Show the message from before the page was reloaded. */
export function sayWhatWasSaved() {
	const words = sessionStorage.getItem(SAVED);
	sessionStorage.removeItem(SAVED);
	if (words) toast(words);
}

/** Reload a page and show a message there. @param {string} words @param {string} place */
export function again(words, place = location.href) {
	for (const form of forms) form.leaving = true;
	sessionStorage.setItem(SAVED, words);
	if (new URL(place, location.href).href === location.href) location.reload();
	else location.assign(place);
}

/**
 * Show a refusal beside its fields; if others changed the settings meanwhile, offer to reload.
 * @param {HTMLFormElement} form @param {unknown} error
 */
export function refuse(form, error) {
	if (!(error instanceof ApiError)) throw error;
	if (error.status === 409 && error.where === "version") {
		toast(error.message, "bad", {
			words: t("settings.look_again"),
			press: () => again(t("settings.looked_again")),
		});
		return;
	}
	error.problems = error.problems.map((each) => ({
		...each,
		where: fieldNamed(form, each.where),
	}));
	showErrors(form, error);
	const wrong = one('[aria-invalid="true"]', form);
	for (let each = wrong?.closest("details"); each; ) {
		each.open = true;
		each = each.parentElement?.closest("details") ?? null;
	}
	wrong?.focus();
}

/** Save the text of a file that was refused. @param {HTMLFormElement} form */
export function mendForm(form) {
	const save = async () => {
		const text = one("textarea", form).value;
		await put("/api/settings/refused", { text, version: form.dataset.version });
		again(t("settings.saved"), "/settings");
	};
	onSend(form, save, (error) => refuse(form, error));
}

/**
 * Have changes saved. Null: not yet, because something else on the page is not added yet.
 * @param {HTMLElement} form @param {Change[]} changes
 */
export async function send(form, changes) {
	const other = forms.find((each) => each.adds && each.dirty && each.form !== form);
	if (other) {
		toast(t("settings.add_first"), "warn");
		one("input, select", other.form)?.focus();
		return null;
	}
	return saveSettings(changes, form.dataset.version ?? "");
}

/** @param {HTMLFormElement} form */
function choices(form) {
	for (const part of all("[data-alternative]", form)) {
		const show = () => {
			for (const each of /** @type {HTMLFieldSetElement[]} */ (
				all(":scope > [data-choice]", part)
			)) {
				each.hidden = each.disabled = each.dataset.choice !== chosen(part);
			}
		};
		part.addEventListener("change", (event) => {
			if (/** @type {Element} */ (event.target).matches("[data-choose]")) show();
		});
		show();
	}
}

/** A form whose fields are settings that there are. @param {HTMLFormElement} form */
export function settingsForm(form) {
	const state = { form, adds: false, leaving: false, dirty: false };
	const bar = one("[data-save-bar]", form);
	const count = one("[data-save-count]", form);
	forms.push(state);
	form.noValidate = true;
	choices(form);
	const look = () => {
		const length = changesOf(form).length + all("[data-pending]", form).length;
		state.dirty = length > 0;
		bar.hidden = !length;
		count.textContent = length ? t("settings.unsaved", { count: length }) : "";
	};
	for (const kind of ["input", "change", "naproxy:pending"]) form.addEventListener(kind, look);
	one("[data-discard]", bar).addEventListener("click", () => again(t("settings.discarded")));
	const save = async () => {
		// Add hours that were typed but not added: the user meant them.
		for (const each of all("[data-pending]", form))
			each.dispatchEvent(new Event("naproxy:add"));
		if (one("[data-pending]", form)) return;
		const changes = changesOf(form);
		if (!changes.length) return;
		const answer = await send(form, changes);
		if (!answer) return;
		clearErrors(form);
		saved(form, changes, answer);
		look();
	};
	onSend(form, save, (error) => refuse(form, error));
	look();
}

/** @param {HTMLFormElement} form @param {Change[]} changes @param {Loose} answer */
function saved(form, changes, answer) {
	const whole = changes.some(
		({ value, op, where }) =>
			op !== "set" ||
			where.endsWith(".id") ||
			(value !== null && typeof value === "object" && !Array.isArray(value)),
	);
	const secret = fieldsOf(form).some((field) => isHidden(field) && field.value !== "");
	if (whole || secret || "reload" in form.dataset) {
		again(t("settings.saved"));
		return;
	}
	for (const field of fieldsOf(form)) {
		if (!isHidden(field)) field.dataset.initial = JSON.stringify(valueIn(field));
	}
	for (const each of all("[data-version]")) each.dataset.version = answer.version;
	toast(t("settings.saved"));
}

/** Passwords and keys are never shown, only since when they are there. */
export function sayWhenSet() {
	for (const each of all("[data-since]"))
		each.textContent = t("settings.held_since", { date: date(Number(each.dataset.since)) });
}

/** Viewers see the current settings, and cannot press buttons that would be refused. */
export function lockForViewers() {
	if (document.body.dataset.mayChange !== "no") return;
	const page = one(".settings-page");
	for (const each of /** @type {Field[]} */ (all("input, select, textarea, button", page)))
		each.disabled = !each.matches("[data-find], #preview-language");
	for (const each of all("table.week", page)) each.setAttribute("aria-disabled", "true");
}

/**
 * A form that adds a member to a list of sections: a rule, a meter, a server.
 * @param {HTMLFormElement} form
 */
export function addForm(form) {
	const name = form.dataset.add ?? "";
	const state = { form, adds: true, leaving: false, dirty: false };
	forms.push(state);
	form.noValidate = true;
	form.addEventListener("input", () => {
		state.dirty = fieldsOf(form).some(
			(field) => field.value && field.matches("input, textarea"),
		);
	});
	choices(form);
	const add = async () => {
		const value = wholeSection(form, `${name}.+`);
		if (value.server === "") delete value.server;
		const answer = await send(form, [{ op: "add", where: name, value }]);
		if (!answer) return;
		const place = name === "server" ? `?server=${encodeURIComponent(value.id)}` : location.href;
		again(t("settings.added"), place);
	};
	onSend(form, add, (error) => refuse(form, error));
}

/** Buttons that take a member away, after a question. */
export function removeButtons() {
	for (const button of all("[data-remove], [data-remove-rule]")) {
		onPress(button, async () => {
			const where = button.dataset.remove ?? `rule.${button.dataset.removeRule}`;
			const owner = /** @type {HTMLElement} */ (
				button.closest("[data-version]") ?? one("[data-version]")
			);
			const sure = await confirm({
				title: t("settings.remove_sure"),
				text: button.dataset.name ?? button.getAttribute("aria-label") ?? "",
				yes: t("settings.remove"),
				danger: true,
			});
			if (!sure) return;
			if (!(await send(owner, [{ op: "remove", where }]))) return;
			again(t("settings.removed"), button.dataset.then ?? location.href);
		});
	}
	for (const button of all("[data-add-way]")) {
		onPress(button, async () => {
			const form = /** @type {HTMLFormElement} */ (button.closest("form"));
			const where = button.dataset.addWay ?? "";
			const value = { driver: "udp" };
			if (!(await send(form, [{ op: "add", where, value }]))) return;
			again(t("settings.added"));
		});
	}
}

/** Let the browser ask before the user leaves with unsaved changes. */
export function warnOfUnsaved() {
	window.addEventListener("beforeunload", (event) => {
		if (forms.some((each) => each.dirty && !each.leaving)) event.preventDefault();
	});
}

/**
 * The search field over all settings; it is not a setting itself.
 * @param {HTMLInputElement} input
 */
export function findField(input) {
	input.addEventListener("input", () => {
		const wanted = input.value.trim().toLowerCase();
		for (const block of all("details[data-block]")) {
			const fields = all(".field", block).filter((each) => !one(".field", each));
			let any = false;
			for (const each of fields) {
				const fits = !wanted || each.textContent.toLowerCase().includes(wanted);
				each.classList.toggle("not-found", !fits);
				any ||= fits;
			}
			block.hidden = !any;
			if (wanted && any) {
				block.open = true;
				for (const each of all("details", block)) each.open = true;
			}
		}
	});
}
