// The visitors who may wait: three cards with each choice's effect in a year, for the guide and
// the settings.

import { button, fill, get, h, notice, pause, post, put, refusal, t } from "./core.js";
import { onPress } from "./form.js";
import { date, duration, energy, money, number, watts } from "./format.js";

const EVERY_MS = 700;
const NAMES = ["hardly", "few", "first"];
const KWH_J = 3.6e6;
/** @typedef {Answer<"GET", "/api/settings/waiting">} Waiting */

/** @param {Loose} card */
const perYear = ({ kwh_a_year: kwh, money_a_year: worth }) =>
	worth === null
		? energy(Math.abs(kwh) * KWH_J)
		: t("waiting.worth", {
				energy: energy(Math.abs(kwh) * KWH_J),
				money: money(Math.abs(worth)),
			});

/** @param {Loose} card @param {Loose} figures */
function brings(card, figures) {
	const waits = t("waiting.waits", {
		count: number(card.waits_a_day, card.waits_a_day < 9.95 ? 1 : 0),
		mean: duration(card.mean_s),
	});
	const year = { year: perYear(card), box: watts(figures.of.proxy_w) };
	return [
		h("span.hint", card.waits_a_day > 0 ? waits : t("waiting.nobody")),
		h("span.hint", t("waiting.asleep", { hours: number(card.asleep_h_a_day, 1) })),
		card.pays
			? h("span.hint", t("waiting.saves", year))
			: h(
					"span.error",
					{ "data-loss": true },
					Math.abs(card.kwh_a_year) < 0.5
						? t("waiting.saves_nothing")
						: t("waiting.loses", year),
				),
	];
}

/** @param {Loose} figures */
function from({ source, name, days, requests, of, old }) {
	const words = {
		name,
		days: number(days, days < 9.95 ? 1 : 0),
		requests: number(requests),
		on: watts(of.on_w),
		off: watts(of.off_w),
		box: watts(of.proxy_w),
		wake: duration(of.wake_s),
	};
	const upload = h("a.link", { href: "/traffic#estimate-title" }, t("waiting.upload"));
	const assumed = h("p.small.soft", t("waiting.assumed", words));
	if (source === "example")
		return notice(
			"warn",
			h("p", h("b", t("waiting.example")), " ", t("waiting.from_example")),
			h("p", upload),
			assumed,
		);
	return notice(
		old ? "warn" : "info",
		h("p", t(`waiting.from_${source}`, words)),
		old && h("p", t("waiting.old"), " ", upload),
		assumed,
	);
}

/**
 * Show the question, the cards and the source of the figures, and have the box compute these. The
 * radio buttons are called `waiting`; `show` is called with each answer.
 * @param {HTMLElement} place @param {string} server @param {(said: Waiting) => void} show
 */
export async function waiting(place, server, show = () => {}) {
	const mayChange = document.body.dataset.mayChange !== "no";
	const question = h("p");
	const legend = h("legend.visually-hidden", t("waiting.legend"));
	const cards = h("fieldset.choices");
	const source = h("div", { role: "status" });
	fill(place, question, cards, source);

	/** @param {Waiting} said */
	function draw(said) {
		const { figures, measured, wake_s: wake } = said;
		fill(
			question,
			t(measured ? "waiting.ask" : "waiting.ask_expected", { time: duration(wake) }),
		);
		const before = /** @type {HTMLInputElement | null} */ (cards.querySelector("input:checked"))
			?.value;
		const chosen = before ?? said.chosen;
		fill(
			cards,
			legend,
			NAMES.map((name) => {
				const card = figures?.cards.find((each) => each.name === name);
				return h(
					"label.choice",
					{ "data-card": name },
					h("input", {
						type: "radio",
						name: "waiting",
						value: name,
						checked: name === chosen,
						disabled: !mayChange,
					}),
					h(
						"span",
						h("b", t(`waiting.title.${name}`)),
						h("span.hint", t(`waiting.answer.${name}`)),
						card && figures && brings(card, figures),
					),
				);
			}),
		);
		fill(
			source,
			(said.state === "running" || (said.state === "none" && mayChange)) &&
				h("p.loading", t("waiting.working")),
			said.state === "failed" && notice("warn", h("p", t("waiting.failed"))),
			figures ? from(figures) : !mayChange && h("p.soft", t("waiting.none_yet")),
		);
		show(said);
	}

	const ask = () => get("/api/settings/waiting", { server });
	let said = await ask();
	draw(said);
	for (;;) {
		const { state } = said;
		if (state === "running") {
			await pause(EVERY_MS);
			said = await ask();
		} else if (state === "none" && mayChange) {
			try {
				said = await post("/api/settings/waiting", { server });
			} catch (error) {
				fill(source, notice("warn", h("p", refusal(error).message)));
				return;
			}
		} else return;
		if (said.state !== state) draw(said);
	}
}

// Another choice, proposed once

const PROPOSAL = "/api/settings/waiting/proposal";
const DUE_MS = 3000;
/** A small box takes minutes. */
const DUE_TIMES = 200;

/** @param {Loose} card */
const year = (card) =>
	t(card.kwh_a_year < 0 ? "waiting.year_loses" : "waiting.year_saves", { year: perYear(card) });

/**
 * Show what the box proposes after two weeks, or that it was taken, with undo; have the figures
 * worked out first. `changed` is called after each answer.
 * @param {HTMLElement} place @param {string} server @param {() => unknown} changed
 */
export async function proposal(place, server, changed = () => {}) {
	const mayChange = document.body.dataset.mayChange !== "no";
	let said = await get(PROPOSAL, { server });
	for (let times = 0; said.due && mayChange && times < DUE_TIMES; times++) {
		await post("/api/settings/waiting", { server });
		await pause(DUE_MS);
		said = await get(PROPOSAL, { server });
	}
	draw();

	/** @param {string} looks @param {string} key @param {string} answer */
	function answering(looks, key, answer) {
		const made = button(looks, t(key), null);
		onPress(made, async () => {
			said = await put(PROPOSAL, { server, answer });
			draw();
			changed();
		});
		return made;
	}

	function draw() {
		const { state, now, better, at_s } = said;
		place.hidden = !state || !now || !better;
		if (!now || !better) return fill(place);
		const title = t(`waiting.title.${better.name}`);
		if (state === "taken") {
			fill(
				place,
				notice(
					"good",
					h("p", t("waiting.taken", { title, server, date: date(at_s ?? 0) })),
					mayChange && h("div.row", answering(".small", "waiting.undo", "undo")),
				),
			);
			return;
		}
		const words = {
			title,
			server,
			before: year(now),
			after: year(better),
			waits: number(better.waits_a_day, 0),
			waits_before: number(now.waits_a_day, 0),
		};
		fill(
			place,
			notice(
				now.pays ? "info" : "bad",
				!now.pays && h("p", h("b", t("waiting.pays_not"))),
				h("p", t("waiting.proposed", words)),
				mayChange &&
					h(
						"div.row",
						answering(".small.primary", "waiting.take", "take"),
						answering(".small", "waiting.decline", "decline"),
					),
			),
		);
	}
}
