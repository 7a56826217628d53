// What if: another promise, server or rule over the same requests, beside what is.

import { ApiError, h, icon, t } from "../../kit/core.js";
import { energy, money, number, share } from "../../kit/format.js";
import { clearErrors, onSubmit } from "../../kit/form.js";
import { table } from "../../kit/plot.js";
import { state, workOut } from "./work.js";

const YEAR_S = 365.25 * 86400;
const at = (id) => document.getElementById(id);
const form = at("if-form");
const RULES = [...form.elements.policy.options].map((each) => each.value);
let told = null;

/** Fill the form in with what is, once for each range. */
export function showIf(shown) {
	told = shown;
	at("if-found").replaceChildren();
	at("if-state").replaceChildren();
	asItIs();
}

function asItIs() {
	const { values, promise, policy } = told.saved.assumed;
	clearErrors(form);
	form.elements.fraction.value = plain(100 * promise.fraction);
	form.elements.delta_s.value = plain(promise.delta_s);
	for (const name of ["on_w", "off_w", "proxy_w", "wake_s", "sleep_s"])
		form.elements[name].value = plain(values[name].value);
	form.elements.policy.value = RULES.includes(policy) ? policy : "teacher";
}

const plain = (value) => number(value, 2).replace(/[\u00a0\u202f.,](?=\d{3}(\D|$))/g, "");

/** Only what was changed is asked, so that the rest stays as it was measured. */
function changed(values) {
	const asked = {};
	for (const [name, value] of Object.entries(values)) {
		if (name === "policy") continue;
		if (typeof value !== "number")
			throw new ApiError(400, { error: t("savings.number"), where: name });
		const now =
			name === "fraction"
				? 100 * told.saved.assumed.promise.fraction
				: name === "delta_s"
					? told.saved.assumed.promise.delta_s
					: told.saved.assumed.values[name].value;
		if (Math.abs(value - now) > 0.005 + 1e-9)
			asked[name] = name === "fraction" ? value / 100 : value;
	}
	return asked;
}

onSubmit(
	form,
	async (values) => {
		const mine = told;
		const then = await workOut(
			{ ...mine.scope, ...changed(values) },
			at("if-state"),
			mine.current,
		);
		if (!then?.found?.rows) return null;
		// What is, from the same requests; most often it was worked out before.
		let now = await state(mine.scope);
		if (!now.found?.rows) now = await workOut(mine.scope, at("if-state"), mine.current);
		return mine.current() && now?.found?.rows
			? {
					now: now.found,
					then: then.found,
					policy: values.policy,
					assumed: mine.saved.assumed,
				}
			: null;
	},
	(answer) => answer && show(answer),
);

at("if-reset").addEventListener("click", () => {
	asItIs();
	at("if-found").replaceChildren();
});

function show({ now, then, policy, assumed }) {
	const rule = (found, name) => found.rows.find((each) => each.policy === name);
	const before = rule(now, RULES.includes(assumed.policy) ? assumed.policy : "teacher"),
		after = rule(then, policy);
	const bounds = [rule(now, "bound-reactive"), rule(then, "bound-reactive")];
	const year = (found, row) => row.saving_net * found.question.power.on_w * YEAR_S;
	const price = assumed.office.price_per_kwh;
	const worth = (j) => (price ? `${energy(j)}, ${money((j / 3.6e6) * price)}` : energy(j));
	const line = (key, make) => [
		t(`savings.if_${key}`),
		make(now, before, 0),
		make(then, after, 1),
	];
	const rows = [
		[
			t("savings.if_policy"),
			t(`savings.rule.${before.policy}`),
			t(`savings.rule.${after.policy}`),
		],
		line("saved", (_, row) => share(row.saving_net, 1)),
		line("year", (found, row) => worth(year(found, row))),
		line("waited", (_, row) => share(row.delayed_fraction, 2)),
		line("naps", (_, row) => number(row.cycles_per_day, 1)),
		[t("savings.if_bound"), ...bounds.map((row) => share(row.saving_net, 1))],
	];
	// The promise holds from the second day on, where there is one.
	const broken = (after.delayed_since_day_2 ?? after.delayed_fraction) > then.question.promise.f;
	at("if-found").replaceChildren(
		...[
			broken &&
				h(
					"div.notice",
					{ "data-kind": "warn" },
					icon("triangle-alert"),
					h("div", h("p", t("savings.if_breaks"))),
				),
			...table({
				label: t("savings.if_title"),
				columns: [t("savings.if_figure"), t("savings.if_now"), t("savings.if_then")],
				rows,
			}),
			h("p.hint", t("savings.if_simulated")),
		].filter(Boolean),
	);
}
