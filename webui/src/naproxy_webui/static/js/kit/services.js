// What else a server does, with a choice for each: the first run's step and the settings show it.

import { fill, get, h, icon, notice, one, post, refusal, t } from "./core.js";
import { toast } from "./dialog.js";
import { onPress } from "./form.js";

const CHOICES = ["used", "never", "ignore"];

/** @param {Loose} service */
const about = ({ ports, programs }) => h("span.hint.mono", [...ports, ...programs].join(" · "));

/**
 * A hint beside a choice that the box cannot carry out.
 * @param {Loose} service @param {Loose} said
 */
function unseen({ ports, proposal, choice }, { looks, flows }) {
	if ((choice ?? proposal) !== "used") return null;
	if (!looks) return h("p.hint", t("services.no_look"));
	const udp = ports.some((/** @type {string} */ each) => each.endsWith("/udp"));
	return udp && !flows ? h("p.hint", t("services.no_flows")) : null;
}

/**
 * Show the list in a place, and write what is chosen.
 * @param {HTMLElement} place @param {{ server?: string }} of
 * @param {(version: string) => void} saved
 */
export async function services(place, of, saved = () => {}) {
	const mayChange = document.body.dataset.mayChange !== "no";
	/** @param {Loose[]} choices */
	async function choose(choices) {
		const answer = await post("/api/setup/services", { ...of, choices });
		saved(answer.version);
		toast(t("kit.saved"));
		await services(place, of, saved);
	}

	/** @param {Loose} service @param {Loose} said */
	function row(service, said) {
		const { key, name, proposal, choice } = service;
		const id = `service-${key.replace("/", "-")}`;
		const open = choice === null && proposal !== "ignore";
		const words = (/** @type {string} */ each) =>
			t(`services.do_${each}`) + (each === proposal ? ` ${t("services.proposed")}` : "");
		const select = h(
			"select.input.middle",
			{ id, disabled: !mayChange },
			choice === null && h("option", { value: "", selected: true }, t("services.choose")),
			CHOICES.filter((each) => each !== "used" || said.looks || choice === each).map((each) =>
				h("option", { value: each, selected: each === choice }, words(each)),
			),
		);
		select.addEventListener("change", () => {
			if (select.value)
				choose([{ key, choice: select.value }]).catch((error) => failed(error));
		});
		const why = open && (proposal === "never" || said.looks) && t(`services.why_${proposal}`);
		return h(
			"li.row.spread.service",
			{ "data-service": key, "data-open": open && proposal },
			h("div", h("label.strong", { for: id }, name), h("div", about(service)), [
				why && h("p.hint", why),
				unseen(service, said),
			]),
			select,
		);
	}

	/** @param {unknown} error */
	function failed(error) {
		one(".service-problem", place)?.remove();
		place.prepend(h("div.service-problem", notice("bad", h("p", refusal(error).message))));
	}

	try {
		const said = await get("/api/setup/services", of);
		/** @type {Loose[]} */
		const found = said.services;
		const plain = found.filter((each) => each.proposal === "ignore" && each.choice === null);
		const shown = found.filter((each) => !plain.includes(each));
		const open = shown.filter((each) => each.choice === null);
		const take = h("button.button", { type: "button" }, icon("check"), t("services.take"));
		onPress(take, () =>
			choose(
				open
					.filter((each) => each.proposal !== "used" || said.looks)
					.map(({ key, proposal }) => ({ key, choice: proposal })),
			),
		);
		const mayTake = mayChange && open.some((each) => each.proposal !== "used" || said.looks);
		fill(
			place,
			open.some(({ proposal }) => proposal === "never") &&
				notice("warn", h("p", t("services.before"))),
			!said.told && h("p.hint", t("services.not_told")),
			shown.length
				? h(
						"ul.services",
						shown.map((each) => row(each, said)),
					)
				: h("p.soft", t("services.none")),
			mayTake && h("div.row", take),
			plain.length > 0 &&
				h(
					"details.details.plain",
					h("summary", t("services.system", { count: plain.length })),
					h(
						"ul.services",
						plain.map((each) => row(each, said)),
					),
				),
		);
	} catch (error) {
		fill(place, notice("bad", h("p", refusal(error).message)));
	}
}
