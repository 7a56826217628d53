// /setup/done: what is set up, and what is left for a person to do.

import { at, fill, get, h, icon, put, t } from "../../kit/core.js";
import { refused } from "../../kit/dialog.js";
import { onPress } from "../../kit/form.js";
import { server } from "./flow.js";

const facts = at("summary").dataset;
const box = location.hostname;

at("box").textContent = box;
const place = `http://${box}/`;
Object.assign(at("try"), { href: place, textContent: place });

/** @param {boolean} good @param {string} words */
const point = (good, words) =>
	h(
		"li",
		{ "data-kind": good ? "good" : "warn" },
		icon(good ? "circle-check" : "info"),
		h("div", words),
	);

/** @param {Api["GET /api/setup/proof"] | null} said */
function show(said) {
	const armed = Boolean(said?.server.armed);
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
		point(
			armed,
			t(
				armed
					? "setup.done.armed"
					: facts.way === "none"
						? "setup.done.no_way"
						: "setup.done.not_armed",
			),
		),
	);
	at("forward").disabled = !server;
}

if (server) get("/api/setup/proof", { server }).then(show).catch(refused);
else show(null);

onPress(at("forward"), async () => {
	await put("/api/setup", { done: true });
	location.assign("/");
});
