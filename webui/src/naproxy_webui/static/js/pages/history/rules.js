// Rules: adding one with a preview of its effect, undoing it, the list of all.

import {
	at,
	button,
	del,
	fill,
	get,
	h,
	icon,
	notice,
	one,
	post,
	refusal,
	t,
} from "../../kit/core.js";
import { confirm, open, refused, toast } from "../../kit/dialog.js";
import { busy, clearErrors, onPress, showErrors } from "../../kit/form.js";
import { date, dateTime, duration, energy } from "../../kit/format.js";
import { agentWords, price } from "./words.js";

const place = at("rules");
/** Somebody who may only look is not offered what is refused. */
export const mayChange = place.dataset.change === "true";
/** @type {By[]} */
const KINDS = ["path", "address", "agent"];
const PAUSE_MS = 300;

// The list

/** @param {Rule} rule */
const says = (rule) =>
	[
		t(`history.rule_${rule.kind}`, { text: rule.text }),
		t(`history.rule_as_${rule.treat_as}`),
	].join(" ");

/** @type {Rules} */
let shown = { rules: [], did: [], most: 0 };

/** Read the rules again, and show them. @param {HTMLElement} [where] */
export async function showRules(where = place) {
	draw(where, await get("/api/history/rules"));
}

/** The text in a wake's line about the rule that would decide now. @param {number} number */
export function ruledBy(number) {
	const words = h("p", t("history.ruled"));
	const tell = () => {
		const rule = shown.rules[number];
		if (rule) words.textContent = t("history.ruled_by", { rule: says(rule) });
	};
	if (shown.rules.length) tell();
	return words;
}

/** A line's button that adds a rule against it. @param {string} what @param {() => void} press */
export const stopButton = (what, press) =>
	button(".nowrap", t("history.stop_it"), press, {
		"aria-label": `${t("history.stop_it")}: ${what}`,
	});

/** The counted effect of a rule so far. @param {Rules["did"][number]} did */
function doneWords(did) {
	if (!did) return null;
	const since = date(did.since_s);
	if (!did.refused) return t("history.did_nothing", { since });
	const values = { since, count: did.refused, last: dateTime(did.last_s ?? did.since_s) };
	return `${t("history.did", values)} ${t("history.did_wakes", { count: did.sleeps })}`;
}

/** @param {HTMLElement} where @param {Omit<Rules, "most">} said */
function draw(where, said) {
	shown = { most: shown.most, ...said };
	if (!said.rules.length) {
		where.replaceChildren(h("p.soft", t("history.rules_none")));
		return;
	}
	fill(
		where,
		h(
			"ol.list",
			said.rules.map((rule, number) => {
				const words = h(
					"div",
					h("span.noisy-key", says(rule)),
					h(
						"span.under",
						rule.server
							? t("history.rule_server", { server: rule.server })
							: t("history.rule_every_server"),
					),
					h("span.under", doneWords(said.did[number] ?? null)),
				);
				const row = h("li.row.spread", words);
				if (mayChange) {
					const label = { "aria-label": t("history.remove_rule", { rule: says(rule) }) };
					const made = button(".small", [icon("x"), t("history.remove")], null, label);
					row.append(onPress(made, () => remove(rule)));
				}
				return row;
			}),
		),
	);
}

/** @param {Rule} rule */
async function remove(rule) {
	if (
		!(await confirm({
			title: t("history.remove_title"),
			text: h("p.noisy-key", says(rule)),
			yes: t("history.remove"),
		}))
	)
		return;
	draw(place, await del("/api/history/rules", rule));
	toast(t("history.removed"));
}

/** @param {Rule} rule */
async function undo(rule) {
	try {
		draw(place, await del("/api/history/rules", rule));
		toast(t("history.undone"));
	} catch (error) {
		refused(error);
	}
}

// The dialog

/**
 * Ask what shall not wake a server; `suggestions` are texts by kind, or come of one wake.
 * @param {{ server: string, kind: By, suggestions?: Suggestions, from?: Wake | null }} about
 */
export async function ruleDialog({ server, kind, suggestions = {}, from = null }) {
	const found = from ? await suggested(from) : suggestions;
	const kinds = KINDS.filter((each) => found[each]);
	if (!kinds.length)
		return toast(t("history.no_suggestion", { why: t("history.why_not_front_page") }), "info");
	const chosen = kinds.includes(kind) ? kind : kinds[0];
	const form = makeForm(kinds, chosen, found);
	const dialog = h("dialog", { "aria-labelledby": "rule-title" }, form.element);
	const checking = watch(form, server);
	form.element.addEventListener("submit", (event) => {
		event.preventDefault();
		const button = /** @type {HTMLButtonElement | null} */ (event.submitter);
		if (button?.value === "cancel") return dialog.close();
		return busy(button, () => make(form, server, dialog));
	});
	checking();
	await open(dialog, { once: true });
	return undefined;
}

/**
 * The possible rules against one wake: the box knows its distinctive parts.
 * @param {Wake} wake @returns {Promise<Suggestions>}
 */
async function suggested(wake) {
	const query = { path: wake.path, address: wake.who, agent: wake.agent };
	const said = await get("/api/history/suggestions", query);
	return Object.fromEntries(
		said.suggestions.filter((each) => each.text).map((each) => [each.kind, each.text]),
	);
}

/** @param {By[]} kinds @param {By} chosen @param {Suggestions} found */
function makeForm(kinds, chosen, found) {
	const radios = kinds.map((each) =>
		h(
			"label.choice",
			h("input", { type: "radio", name: "kind", value: each, checked: each === chosen }),
			h("span", h("b", t(`history.kind_${each}`)), h("span.hint.path", found[each])),
		),
	);
	const input = h("input.input.mono", {
		name: "text",
		id: "rule-text",
		maxlength: "55",
		required: true,
		autocomplete: "off",
		spellcheck: "false",
		value: found[chosen],
	});
	const label = h("label", { for: "rule-text" }, t(`history.text_${chosen}`));
	const preview = h("div.preview", { "aria-live": "polite" });
	const make = h("button.button.primary", { value: "make" }, t("history.dialog_make"));
	const element = h(
		"form.dialog",
		h("h2", { id: "rule-title" }, t("history.dialog_title")),
		h("fieldset.field", h("legend", t("history.dialog_kind")), h("div.choices", radios)),
		h("div.field", label, input),
		preview,
		h(
			"footer",
			h("button.button", { value: "cancel", formnovalidate: true }, t("kit.cancel")),
			make,
		),
	);
	const kind = () => /** @type {By} */ (one("input[name=kind]:checked", element).value);
	return { element, input, label, preview, make, kind, found };
}

/**
 * Update the preview of the rule's effect, a moment after each change.
 * @param {RuleForm} form @param {string} server
 */
function watch(form, server) {
	let turn = 0,
		timer = 0;
	async function look() {
		const mine = ++turn;
		form.preview.replaceChildren(h("p.loading", t("history.dialog_checking")));
		try {
			const said = await get("/api/history/rule", {
				server,
				kind: form.kind(),
				text: form.input.value.trim(),
			});
			if (mine !== turn) return;
			clearErrors(form.element);
			fill(form.preview, previewWords(said));
			form.make.disabled = false;
		} catch (error) {
			const { message } = refusal(error);
			if (mine !== turn) return;
			fill(form.preview, h("p", message));
			form.make.disabled = true;
		}
	}
	const later = () => {
		clearTimeout(timer);
		timer = setTimeout(look, PAUSE_MS);
	};
	form.input.addEventListener("input", later);
	form.element.addEventListener("change", (event) => {
		if (event.target === form.input) return;
		form.input.value = form.found[form.kind()] ?? "";
		form.label.textContent = t(`history.text_${form.kind()}`);
		look();
	});
	return look;
}

/** @type {Record<By, "paths" | "addresses" | "agents">} */
const NAMES = { path: "paths", address: "addresses", agent: "agents" };

/** @param {Trial} said */
function previewWords(said) {
	const words = [
		h(
			"p.strong",
			said.wakes
				? t("history.preview", { count: said.wakes, all: said.all })
				: t("history.preview_none"),
		),
	];
	if (said.wakes) words.push(h("p", cost(said)));
	if (said.persons)
		words.push(notice("warn", t("history.preview_persons", { count: said.persons })));
	for (const key of KINDS) {
		const name = NAMES[key];
		const { distinct, most } = said[name];
		if (!distinct || (key === said.kind && distinct === 1)) continue;
		const list = most
			.map((each) => (key === "agent" ? agentWords(each.key) : each.key))
			.join(", ");
		words.push(
			h(
				"p.under",
				t(`history.preview_${name}`, {
					list:
						distinct > most.length
							? `${list} ${t("history.more_of", { count: distinct - most.length })}`
							: list,
				}),
			),
		);
	}
	if (said.shadowed)
		words.push(h("p.under", t("history.preview_shadowed", { count: said.shadowed })));
	if (said.all && Date.now() / 1000 - said.since_s < 29 * 86400)
		words.push(h("p.under", t("history.preview_since", { date: date(said.since_s) })));
	words.push(
		h(
			"p",
			`${t(`history.means_${said.treat_as}`, { time: duration(said.retry_s) })} `,
			t("history.means_awake"),
		),
	);
	return words;
}

/** @param {Trial} said */
function cost({ awake_s, extra_j, cost: amount }) {
	const time = duration(awake_s);
	if (extra_j === null) return t("history.preview_time", { time });
	const values = { time, energy: energy(extra_j), money: price(amount) };
	return t(values.money ? "history.preview_cost_money" : "history.preview_cost", values);
}

/** @param {RuleForm} form @param {string} server @param {HTMLDialogElement} dialog */
async function make(form, server, dialog) {
	try {
		const { rule } = await post("/api/history/rules", {
			server,
			kind: form.kind(),
			text: form.input.value.trim(),
		});
		dialog.close();
		toast(t("history.made"), "good", { words: t("history.undo"), press: () => undo(rule) });
		await showRules();
	} catch (error) {
		showErrors(form.element, refusal(error));
	}
}
