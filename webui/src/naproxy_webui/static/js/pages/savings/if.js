// What if: another promise, server or rule over the same requests, beside what is.

import { ApiError, at, fill, h, notice, t } from "../../kit/core.js";
import { energy, money, number, share } from "../../kit/format.js";
import { clearErrors, field, onSubmit } from "../../kit/form.js";
import { table } from "../../kit/plot.js";
import { state, workOut } from "./work.js";

const YEAR_S = 365.25 * 86400;
const form = at("if-form");
const RULES = [...at("if-policy").options].map((each) => each.value);
/** @type {Savings | null} */
let told = null;

/** Fill in the form with the actual values, once for each range. @param {Savings} shown */
export function showIf(shown) {
	told = shown;
	at("if-found").replaceChildren();
	at("if-state").replaceChildren();
	asItIs(shown);
}

/** @param {Savings} told */
function asItIs(told) {
	const { values, promise, policy } = told.saved.assumed;
	clearErrors(form);
	field(form, "fraction").value = plain(100 * promise.fraction);
	field(form, "delta_s").value = plain(promise.delta_s);
	for (const name of ["on_w", "off_w", "proxy_w", "wake_s", "sleep_s"])
		field(form, name).value = plain(values[name].value);
	field(form, "policy").value = RULES.includes(policy) ? policy : "teacher";
}

/** @param {number} value */
const plain = (value) => number(value, 2).replace(/[\u00a0\u202f.,](?=\d{3}(\D|$))/g, "");

/**
 * Only what was changed is asked, so that the rest stays as it was measured.
 * @param {Record<string, any>} values @param {Savings} told
 */
function changed(values, told) {
	/** @type {Record<string, number>} */
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
		if (!mine) return null;
		const after = await workOut(
			{ ...mine.scope, ...changed(values, mine) },
			at("if-state"),
			mine.current,
		);
		if (!after?.found?.rows) return null;
		// The actual case, from the same requests; it usually has been computed before.
		/** @type {Hindsight | null} */
		let now = await state(mine.scope);
		if (!now.found?.rows) now = await workOut(mine.scope, at("if-state"), mine.current);
		if (!mine.current() || !now?.found?.rows) return null;
		const found = { now: now.found, after: after.found };
		const asked = { policy: values.policy, assumed: mine.saved.assumed };
		return /** @type {Compared} */ ({ ...found, ...asked });
	},
	(answer) => answer && show(answer),
);

at("if-reset").addEventListener("click", () => {
	if (told) asItIs(told);
	at("if-found").replaceChildren();
});

/** @param {Compared} compared */
function show({ now, after, policy, assumed }) {
	/** @param {Findings} found @param {string} name */
	const rule = (found, name) =>
		/** @type {Loose} */ (found.rows.find((each) => each.policy === name));
	const row = {
		now: rule(now, RULES.includes(assumed.policy) ? assumed.policy : "teacher"),
		after: rule(after, policy),
	};
	const bounds = [rule(now, "bound-reactive"), rule(after, "bound-reactive")];
	/** @param {Findings} found @param {Loose} row */
	const year = (found, row) => row.saving_net * found.question.power.on_w * YEAR_S;
	const price = assumed.office.price_per_kwh;
	/** @param {number} j */
	const worth = (j) => (price ? `${energy(j)}, ${money((j / 3.6e6) * price)}` : energy(j));
	/** @param {string} key @param {(found: Findings, row: Loose) => string} make */
	const line = (key, make) => [
		t(`savings.if_${key}`),
		make(now, row.now),
		make(after, row.after),
	];
	const rows = [
		[
			t("savings.if_policy"),
			t(`savings.rule.${row.now.policy}`),
			t(`savings.rule.${row.after.policy}`),
		],
		line("saved", (_, row) => share(row.saving_net, 1)),
		line("year", (found, row) => worth(year(found, row))),
		line("waited", (_, row) => share(row.delayed_fraction, 2)),
		line("naps", (_, row) => number(row.cycles_per_day, 1)),
		[t("savings.if_bound"), ...bounds.map((row) => share(row.saving_net, 1))],
	];
	// The promise holds from the second day on, where there is one.
	const waited = row.after.delayed_since_day_2 ?? row.after.delayed_fraction;
	const breaks = waited > after.question.promise.f;
	fill(
		at("if-found"),
		breaks && notice("warn", h("p", t("savings.if_breaks"))),
		table({
			label: t("savings.if_title"),
			columns: [t("savings.if_figure"), t("savings.if_now"), t("savings.if_then")],
			rows,
		}),
		h("p.hint", t("savings.if_simulated")),
	);
}
