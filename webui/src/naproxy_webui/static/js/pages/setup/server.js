// /setup/server: the machine that is to sleep, out of a scan or by its address.

import { ApiError, at, fill, get, h, icon, notice, one, post, refusal, t } from "../../kit/core.js";
import { refused } from "../../kit/dialog.js";
import { onPress, onSubmit } from "../../kit/form.js";
import { follow } from "../../kit/jobs.js";
import { about, again, onward, server } from "./flow.js";

/** @type {Loose | null} */
let chosen = null;
let offered = 0;

/** @param {Loose | null} host @param {number} [port] */
function choose(host, port) {
	chosen = host && { ...host, port };
	at("forward").disabled = !chosen?.mac;
}

// A machine's description of itself. It is untrusted: insert it as text, never as HTML.

/** @param {Loose} host */
function hints({ http, https }) {
	if (http.meter) return [t("setup.server.is_meter")];
	if (http.status !== null) {
		const what = [http.server, http.title && t("setup.server.quoted", { title: http.title })]
			.filter(Boolean)
			.join(", ");
		return [what ? t("setup.server.web", { what }) : t("setup.server.web_plain")];
	}
	if (https === "open") return [t("setup.server.only_https")];
	if (http.state === "open") return [t("setup.server.open")];
	return [t("setup.server.no_web")];
}

/** @param {Loose} host */
const likely = (host) => host.http.status !== null && !host.http.meter;

/** @param {Loose} host */
function option(host, port = 80) {
	const input = h("input", {
		type: "radio",
		name: "host",
		value: host.address,
		id: `host-${offered++}`,
	});
	input.addEventListener("change", () => choose(host, port));
	const said = [host.name && host.address, ...hints(host)];
	const card =
		t("setup.server.card", { mac: host.mac }) + (host.vendor ? ` (${host.vendor})` : "");
	return h(
		"label.choice",
		input,
		h(
			"span.setup-host",
			h("b", host.name || host.address),
			h("span.hint", said.filter(Boolean).join(" · ")),
			h("span.hint", card),
		),
	);
}

// The scan

/** @param {SetupJob} status */
function progress({ state, progress: { done, of, part } }) {
	at("scanning").hidden = state !== "running";
	const bar = at("scan-bar");
	if (of) Object.assign(bar, { max: of, value: done });
	else bar.removeAttribute("value");
	at("scan-words").textContent =
		part === "machines" ? t("setup.server.asking", { count: of }) : t("setup.server.scanning");
}

/** @param {SetupJob} status */
function show({ result }) {
	/** @type {{ hosts: Loose[], networks: Loose[] }} */
	const { hosts, networks } = result;
	const web = hosts.filter(likely),
		rest = hosts.filter((host) => !likely(host));
	const first = one("legend", at("hosts"));
	fill(
		at("hosts"),
		first,
		web.map((host) => option(host)),
		!web.length && h("p.soft", t("setup.server.none")),
	);
	fill(
		at("other-hosts"),
		rest.map((host) => option(host)),
	);
	at("others").hidden = !rest.length;
	if (!web.length) at("typed").open = true;
	fill(
		at("scan-where"),
		networks
			.map((net) =>
				t(net.whole ? "setup.server.where" : "setup.server.where_part", {
					network: net.network,
				}),
			)
			.join(" "),
	);
	choose(null);
}

/** @param {object | null} body */
async function scan(body) {
	at("scanning").hidden = false;
	try {
		show(await follow("/api/setup/scan", { body, show: progress }));
	} catch (error) {
		const { message } = refusal(error);
		fill(at("hosts"), one("legend", at("hosts")), notice("warn", h("p", message)));
		at("typed").open = true;
	} finally {
		at("scanning").hidden = true;
	}
}

onPress(at("scan"), () => scan({}));

// A typed address

/** @param {Loose} found */
function advice({ mac_missing: why, http, https, address, gateway }) {
	const said = [];
	if (why)
		said.push(notice("bad", h("p", t(`setup.server.missing_${why}`, { address, gateway }))));
	if (http.state !== "open" && https === "open")
		said.push(notice("warn", h("p", t("setup.server.https_words"))));
	else if (http.state !== "open" && !why)
		said.push(
			notice("warn", h("p", t(`setup.server.port_${http.state}`, { port: http.port }))),
		);
	return said;
}

onSubmit(
	at("look"),
	async ({ address, port }) => {
		fill(at("looked"), h("p.loading", t("setup.server.looking")));
		try {
			const { result } = await follow("/api/setup/look", {
				body: { address: address ?? "", port: port ?? 80 },
				fresh: true,
			});
			return { result, port: port ?? 80 };
		} catch (error) {
			fill(at("looked"));
			// The message is about the typed address.
			if (error instanceof ApiError && "code" in error && error.code)
				error.problems = [{ where: "address", error: error.message }];
			throw error;
		}
	},
	({ result, port }) => {
		const choice = result.mac ? option(result, port) : null;
		fill(at("looked"), choice, advice(result));
		if (choice) one("input", choice).click();
	},
);

onPress(at("forward"), async () => {
	if (!chosen) return;
	const { address, mac, port, interface: wire, name } = chosen;
	const machine = { address, mac, port, interface: wire, name: name.slice(0, 100) };
	await post("/api/setup/server", again && !server ? { ...machine, new: true } : about(machine));
	await onward();
});

// The results stay as long as the box is on; only the first scan starts by itself.
get("/api/setup/scan")
	.then((status) => {
		if (status.state === "done") show(status);
		else if (status.state === "running") scan(null);
		else if (!again && !server) scan({});
		else
			fill(
				at("hosts"),
				one("legend", at("hosts")),
				h("p.soft", icon("info"), " ", t("setup.server.not_scanned")),
			);
	})
	.catch(refused);
