// /setup/sleep: the way of putting the server to sleep, the box's access to it, and the check.

import {
	all,
	at,
	button,
	fill,
	get,
	h,
	has,
	icon,
	notice,
	one,
	pause,
	post,
	put,
	refusal,
	t,
} from "../../kit/core.js";
import { copier } from "../../kit/copy.js";
import { refused, toast } from "../../kit/dialog.js";
import { busy, onPress, showErrors, values } from "../../kit/form.js";
import { follow } from "../../kit/jobs.js";
import { services } from "../../kit/services.js";
import { about, onward } from "./flow.js";

const form = at("form");
/** @type {string | null} */
let saved = null;
let turn = Promise.resolve();

/** Each way, and the settings that the page asks for it. @type {Record<string, string[]>} */
const WAYS = JSON.parse(form.dataset.keys ?? "{}");

/** The chosen way, with its settings; undefined where another way is configured. */
function wanted() {
	const given = values(form);
	const driver = given.card === "linux" ? given.reach : given.card;
	const settings = (WAYS[driver] ?? []).map((key) => [key, given[key] ?? ""]);
	return { driver, ...Object.fromEntries(settings) };
}

/** Write the choice if it is another; one after the other. */
function save() {
	turn = turn
		.catch(() => {})
		.then(async () => {
			const now = JSON.stringify(wanted());
			if (now === saved) return;
			await post("/api/setup/sleep", about(wanted()));
			saved = now;
		});
	return turn;
}

function arrange() {
	const { driver } = wanted();
	for (const each of all("[data-only]")) {
		each.hidden = !(each.dataset.only ?? "").split(" ").includes(driver);
	}
	for (const each of all("[data-not]")) each.hidden = each.dataset.not === driver;
	at("more").hidden = !(WAYS[driver] ?? []).length;
	if (driver === "login") one("details#more").open = true;
}

let changes = 0;

async function changed() {
	changes += 1;
	const change = changes;
	arrange();
	try {
		await save();
		if (!at("ssh").hidden) await Promise.all([key(), hostKey()]);
		// A later choice does the rest: another code would make the one that is shown worthless.
		if (change !== changes) return;
		agentWaits = false;
		if (wanted().driver === "agent") await agent();
	} catch (error) {
		const problem = refusal(error);
		one("details#more").open = true;
		showErrors(form, problem);
	}
}

/** A script to copy. @param {string} label @param {string} text @param {string} id */
const script = (label, text, id) => [
	h(
		"pre.setup-code",
		{ tabindex: "0", role: "region", "aria-label": label },
		h("code", { id }, text),
	),
	h("div.row", copier(text)),
];

// 1. What to paste

/** The words for the line of authorized_keys. */
const lined = () => (wanted().driver === "login" ? "line_login" : "line_words");

async function key() {
	try {
		const made = await post("/api/setup/key", about());
		const byHand = [
			h("p.small", t(`setup.sleep.${lined()}`, { user: made.user })),
			h("pre.setup-code.wrap", h("code", { id: "key-line" }, made.line)),
			h("div.row", copier(made.line)),
		];
		if (!made.script) return fill(at("paste"), byHand);
		return fill(
			at("paste"),
			script(t("setup.sleep.paste"), made.script, "key-script"),
			h(
				"details.details.plain",
				h("summary", t("setup.sleep.by_hand")),
				h("div.stack.tight", byHand),
			),
		);
	} catch (error) {
		return fill(at("paste"), notice("bad", h("p", refusal(error).message)));
	}
}

// 2. Whose key it is

/** @param {object} body */
async function hostKey(body = about()) {
	fill(at("pin"), h("p.loading", t("setup.sleep.asking_key")));
	try {
		const { result } = await follow("/api/setup/host-key", {
			body,
			query: about(),
			fresh: true,
		});
		showKey(result);
	} catch (error) {
		const { message } = refusal(error);
		const retry = button(".small", [icon("refresh-cw"), t("setup.try_again")]);
		onPress(retry, () => hostKey());
		fill(
			at("pin"),
			notice("warn", h("p", message), h("p", t("setup.sleep.no_key_do"))),
			h("div.row", retry),
		);
	}
}

/** Kind of a host key -> the name of its file. @type {Record<string, string>} */
const FILES = { "ssh-ed25519": "ed25519", "ecdsa-sha2-nistp256": "ecdsa" };

/** @param {Loose} found */
function showKey({ shown, pinned, same }) {
	at("pin-command").textContent =
		`ssh-keygen -lf /etc/ssh/ssh_host_${FILES[shown.kind] ?? "rsa"}_key.pub`;
	const mark = h("code.setup-fingerprint", { id: "fingerprint" }, shown.fingerprint);
	if (same) return fill(at("pin"), notice("good", h("p", t("setup.sleep.pinned")), mark));
	const other = pinned.length > 0;
	const words = [icon("check"), t(other ? "setup.sleep.replaced" : "setup.sleep.same")];
	const yes = button(other ? ".danger" : ".primary", words, null, { id: "same" });
	onPress(yes, async () => {
		await put("/api/setup/host-key", about({ fingerprint: shown.fingerprint, replace: other }));
		toast(t("kit.saved"));
		showKey({ shown, pinned, same: true });
	});
	const before =
		other &&
		notice(
			"bad",
			h("p", t("setup.sleep.other_key")),
			h("code.setup-fingerprint", pinned[0].fingerprint),
		);
	return fill(at("pin"), before, h("p", t("setup.sleep.shows")), mark, h("div.row", yes));
}

// The agent: what to paste, until the server has fetched its key

const AGENT_LOOK_MS = 3000;
const AGENT_START_MS = 2000;
let agentWaits = false;

/** A button that makes another code. */
function anotherCode() {
	const again = button(".small", [icon("refresh-cw"), t("setup.sleep.agent_again")]);
	onPress(again, () => agent());
	return h("div.row", again);
}

async function agent() {
	try {
		const made = await post("/api/setup/agent", about());
		at("agent-sum").textContent = made.sha256;
		if (made.script === null) {
			fill(at("agent-paste"), notice("warn", h("p", t("setup.sleep.agent_no_pin"))));
			return;
		}
		const label = t("setup.sleep.agent_paste");
		fill(at("agent-paste"), script(label, made.script, "agent-script"));
		fill(at("agent-state"), h("p.soft", t("setup.sleep.agent_waiting")));
		if (!agentWaits) agentFetched().catch(refused);
	} catch (error) {
		fill(at("agent-paste"), notice("bad", h("p", refusal(error).message)), anotherCode());
	}
}

/** Wait until the key was fetched, then check the way. */
async function agentFetched() {
	agentWaits = true;
	while (agentWaits) {
		await pause(AGENT_LOOK_MS);
		if (!agentWaits) return;
		const { state } = await get("/api/setup/agent", about());
		if (state === "waiting") continue;
		agentWaits = false;
		if (state !== "used") {
			fill(at("agent-paste"));
			const over = notice("warn", h("p", t("setup.sleep.agent_over")));
			fill(at("agent-state"), over, anotherCode());
			return;
		}
		fill(at("agent-paste"), anotherCode());
		fill(at("agent-state"), notice("good", h("p", t("setup.sleep.agent_used"))));
		await pause(AGENT_START_MS);
		await check(about());
	}
}

onPress(at("agent-show"), async () => {
	await save();
	const { key: text } = await post("/api/setup/agent/key", about());
	fill(
		at("agent-key"),
		script(t("setup.sleep.agent_shown"), text, "agent-key-text"),
		h("p.small", t("setup.sleep.agent_shown")),
	);
});

// 3. The check

/** @type {Record<string, string[]>} */
const KINDS = {
	ok: ["good", "circle-check"],
	problem: ["bad", "circle-x"],
	note: ["warn", "info"],
	"not seen": ["warn", "circle-help"],
};

/** @param {Loose} check */
function finding({ name, verdict, title, what, mend }) {
	const [kind, mark] = KINDS[verdict];
	const key = `setup.check.${name}`;
	/** @param {string} part @param {string} otherwise */
	const plain = (part, otherwise) => (has(`${key}.${part}`) ? t(`${key}.${part}`) : otherwise);
	const exactly = () =>
		h(
			"details.details.plain",
			h("summary", t("setup.sleep.exactly")),
			h("p.small", what, h("br"), mend),
		);
	const words =
		verdict === "ok"
			? plain("ok", title)
			: verdict === "not seen"
				? t("setup.sleep.not_seen", { what: plain("ok", title) })
				: [h("b", plain("bad", what)), h("p", plain("do", mend)), exactly()];
	return h("li", { "data-kind": kind }, icon(mark), h("div", words));
}

const URGENT = ["problem", "note", "not seen"];
/** Failures come first. @param {Loose} check */
const urgency = ({ verdict }) => URGENT.indexOf(verdict);

/** @param {Loose} result */
function findings({ checks, problems }) {
	const used = checks.filter((/** @type {Loose} */ { verdict }) => verdict !== "not used");
	const all = problems
		? notice("bad", h("p", t("setup.sleep.problems", { count: problems })))
		: notice("good", h("p", t("setup.sleep.no_problem")));
	const passed = used.filter((/** @type {Loose} */ { verdict }) => verdict === "ok");
	const open = used.filter((/** @type {Loose} */ { verdict }) => verdict !== "ok");
	open.sort((/** @type {Loose} */ a, /** @type {Loose} */ b) => urgency(a) - urgency(b));
	fill(
		at("findings"),
		all,
		h("ul.setup-findings", open.map(finding)),
		passed.length &&
			h(
				"details.details.plain",
				h("summary", t("setup.sleep.passed", { count: passed.length })),
				h("ul.setup-findings", passed.map(finding)),
			),
	);
}

/** @param {object | null} body */
async function check(body) {
	fill(at("findings"), h("p.loading", t("setup.sleep.checking")));
	try {
		findings((await follow("/api/setup/check", { body, query: about(), fresh: true })).result);
		await services(at("services"), about());
	} catch (error) {
		fill(at("findings"), notice("bad", h("p", refusal(error).message)));
	}
}

onPress(at("check"), async () => {
	await save();
	await check(about());
});

// The server itself: the output of a script there

at("inside").addEventListener("toggle", async () => {
	if (!at("inside").open || one("code", at("facts-script"))) return;
	try {
		await save();
		const said = await get("/api/setup/facts-script", about(), { timeout_ms: 60_000 });
		const pasted = `sh <<'NAPROXY'\n${said.script}NAPROXY\n`;
		fill(at("facts-script"), script(t("setup.sleep.inside"), pasted, "facts-command"));
	} catch (error) {
		fill(at("facts-script"), notice("bad", h("p", refusal(error).message)));
	}
});

at("facts-form").addEventListener("submit", (event) => {
	event.preventDefault();
	const facts = at("facts").value.trim();
	if (facts) busy(event.submitter, () => check(about({ facts: `${facts}\n` })));
});

onPress(at("forward"), async () => {
	await save();
	await onward();
});

form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("change", changed);
if (form.dataset.way === wanted().driver) saved = JSON.stringify(wanted());
changed();
services(at("services"), about());
get("/api/setup/check", about())
	.then((status) => {
		if (status.state === "done" && status.result) findings(status.result);
		else if (status.state === "running") check(null);
	})
	.catch(refused);
