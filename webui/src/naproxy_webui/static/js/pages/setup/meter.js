// /setup/meter: a meter that was found, or estimated watts until there is one.

import { ApiError, at, fill, get, h, notice, post, refusal, t } from "../../kit/core.js";
import { refused } from "../../kit/dialog.js";
import { field, onPress, onSubmit } from "../../kit/form.js";
import { number, watts } from "../../kit/format.js";
import { follow } from "../../kit/jobs.js";
import { picos } from "../../kit/pico.js";
import { about, onward } from "./flow.js";

const form = at("form");

/** @param {string} value @param {string} title @param {(string | false | null)[]} hints */
const option = (value, title, ...hints) =>
	h(
		"label.choice",
		h("input", { type: "radio", name: "choice", value }),
		h(
			"span.setup-host",
			h("b", title),
			hints.filter(Boolean).map((hint) => h("span.hint", hint)),
		),
	);

/** @param {Loose} found */
function meter({ driver, name, where, power_w: power, problem }) {
	if (power === null)
		return notice(
			"warn",
			h("p", t("setup.meter.mute", { name, where })),
			h("p.small", problem),
		);
	return option(
		`found:${where}`,
		name,
		t("setup.meter.reads", { power: watts(power), driver, where }),
		t("setup.meter.plugged"),
	);
}

/** @param {SetupJob} status */
function found({ result }) {
	fill(at("meters"), result.meters.map(meter));
	at("searching").hidden = true;
	at("none-found").hidden = result.meters.length > 0;
	if (result.unknown_ports.length) {
		at("meters").append(
			h("p.hint", t("setup.meter.unknown_ports", { ports: result.unknown_ports.join(", ") })),
		);
	}
	arrange();
}

/** @param {object | null} body */
async function search(body) {
	at("searching").hidden = false;
	at("none-found").hidden = true;
	try {
		found(await follow("/api/setup/meters", { body }));
	} catch (error) {
		fill(at("meters"), notice("warn", h("p", refusal(error).message)));
	} finally {
		at("searching").hidden = true;
	}
}

/** Meters on the network are among the machines of the scan: without one there are none. */
async function everywhere() {
	at("searching").hidden = false;
	try {
		if ((await get("/api/setup/scan")).state === "never")
			await follow("/api/setup/scan", { body: {} });
	} catch (error) {
		at("searching").hidden = true;
		throw error;
	}
	await search({});
}

onPress(at("search"), everywhere);
picos(at("picos"), everywhere).catch(refused);

// Without a meter

/** @param {Loose} said */
function typical({ typical: rows, asleep_source: asleep, boards }) {
	at("board").append(
		...boards.map((/** @type {Loose} */ each) =>
			h(
				"option",
				{
					value: String(each.w),
					title: [each.source, each.year].filter(Boolean).join("; "),
				},
				t(`setup.meter.board_${each.name}`, { watts: watts(each.w) }),
			),
		),
	);
	fill(
		at("typical"),
		rows.map((/** @type {Loose} */ row) =>
			option(
				`typical:${row.on_w}:${row.off_w}`,
				t(`setup.meter.typical_${row.name}`),
				t("setup.meter.typical_watts", {
					on: number(row.on_w, 1),
					off: number(row.off_w, 1),
				}),
				[
					row.source,
					row.year,
					!row.off_measured && t("setup.meter.asleep_of", { source: asleep }),
				]
					.filter(Boolean)
					.join("; "),
			),
		),
	);
}

function arrange() {
	at("own").hidden = field(form, "choice")?.value !== "own";
}

form.addEventListener("change", arrange);

/** @param {Record<string, any>} values */
function wanted({ choice = null, on_w: on, off_w: off }) {
	const [kind, ...rest] = (choice ?? "").split(":");
	if (kind === "found") return { kind, where: rest.join(":") };
	if (kind === "typical")
		return { kind: "estimate", on_w: Number(rest[0]), off_w: Number(rest[1]) };
	if (kind === "own") return { kind: "estimate", on_w: on ?? "", off_w: off ?? "" };
	if (kind === "none") return { kind };
	return null;
}

onSubmit(
	form,
	async (values) => {
		const keeps = values.choice === "keep";
		const body = wanted(values);
		if (!body && !keeps) throw new ApiError(400, { error: t("setup.meter.choose") });
		const board = at("board").value;
		if (board !== "") await post("/api/setup/box", { proxy_w: Number(board) });
		return keeps ? null : post("/api/setup/meter", about(body ?? {}));
	},
	onward,
);

get("/api/setup/typical").then(typical).catch(refused);
get("/api/setup/meters")
	.then((status) => {
		if (status.state === "done") found(status);
		else if (status.state === "running") search(null);
		else everywhere().catch(refused);
	})
	.catch((error) => {
		at("searching").hidden = true;
		refused(error);
	});
