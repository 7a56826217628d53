// /setup/done: the finished setup, and the tasks left for a person.

import { at, fill, get, h, icon, put, say, t } from "../../kit/core.js";
import { refused } from "../../kit/dialog.js";
import { onPress } from "../../kit/form.js";
import { when } from "../../kit/format.js";
import { server } from "./flow.js";

const facts = at("summary").dataset;

/** @param {boolean} good @param {string} words */
const point = (good, words) =>
	h(
		"li",
		{ "data-kind": good ? "good" : "warn" },
		icon(good ? "circle-check" : "info"),
		h("div", words),
	);

/** Whether it may sleep, and why not. @param {Api["GET /api/setup/proof"] | null} said */
function asleep(said) {
	if (said?.server.armed) return t("setup.done.armed");
	if (facts.way === "itself") return t("setup.done.itself");
	if (facts.way === "none") return t("setup.done.no_way");
	if (said?.report?.passed) return t("setup.done.waits");
	return t("setup.done.not_armed");
}

/** @param {Api["GET /api/setup/proof"]} said */
function visitors({ live }) {
	if (live.first_s !== null)
		return point(true, t("setup.live.first", { time: when(live.first_s) }));
	if (live.confirmed_s !== null)
		return point(false, t("setup.live.confirmed", { time: when(live.confirmed_s) }));
	return null;
}

/** @param {Api["GET /api/setup/proof"] | null} said */
function show(said) {
	fill(
		at("summary"),
		point(
			Boolean(server),
			server
				? t("setup.done.server", { name: server, address: facts.address })
				: t("setup.no_server_yet"),
		),
		point(
			true,
			facts.hosts
				? t("setup.done.names", { names: facts.hosts.split(" ").join(", ") })
				: t("setup.done.all_names"),
		),
		said && visitors(said),
		point(Boolean(said?.server.armed), asleep(said)),
	);
	const waits = said?.live.waits ?? "";
	at("left").hidden = !waits;
	say(at("waits"), waits);
	at("forward").disabled = !server;
}

if (server) get("/api/setup/proof", { server }).then(show).catch(refused);
else show(null);

onPress(at("forward"), async () => {
	await put("/api/setup", { done: true });
	location.assign("/");
});
