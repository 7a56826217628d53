// Where the seconds of a wake went: a bar of its stages, with their names.

import { h, t } from "./core.js";
import { number } from "./format.js";

/** In their order, and the colour of each. */
const COLOURS = { power: "c2", link: "c5", network: "c1", port: "c4", answer: "c3" };

/** @param {number} s */
const seconds = (s) => `${number(s, 2, 2)}\u00a0${t("kit.unit.s")}`;

/** @param {Stage[]} stages */
export const whole = (stages) => stages.reduce((sum, each) => sum + each.took_s, 0);

/**
 * A bar; `longest_s` is the time of its whole width, so that bars can be compared.
 * @param {string} label @param {Stage[]} stages
 */
export function stageBar(label, stages, longest_s = whole(stages)) {
	const parts = stages.map(({ stage, took_s }) => {
		const part = h("span", { title: t(`kit.stage.${stage}`) });
		part.style.inlineSize = `${longest_s > 0 ? (100 * took_s) / longest_s : 0}%`;
		part.style.background = `var(--${COLOURS[stage]})`;
		return part;
	});
	const names = stages.map(({ stage, took_s }) => {
		const mark = h("span.swatch", { "aria-hidden": "true" });
		mark.style.background = `var(--${COLOURS[stage]})`;
		return h("li", mark, h("span", t(`kit.stage.${stage}`)), h("b.number", seconds(took_s)));
	});
	return h(
		"figure.stages",
		h("figcaption", label, h("b.number", seconds(whole(stages)))),
		h("div.share-bar", { "aria-hidden": "true" }, parts),
		h("ol.stages-names", names),
	);
}
