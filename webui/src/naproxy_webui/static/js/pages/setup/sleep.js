// /setup/sleep: how the server is put to sleep; letting the box in; the check.

import { all, ApiError, at, get, h, has, icon, one, post, put, t } from "../../kit/core.js";
import { toast } from "../../kit/dialog.js";
import { busy, onPress, showErrors, values } from "../../kit/form.js";
import { about, copier, fill, follow, notice, onward, refused } from "./flow.js";

const form = at("form");
/** @type {string | null} */
let saved = null;
let turn = Promise.resolve();

const wanted = () => {
	const { driver, state, user } = values(form);
	return driver === "ssh"
		? { driver, state, user: user ?? "" }
		: driver === "agent"
			? { driver, state }
			: { driver };
};

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
	for (const each of all("[data-only]")) each.hidden = each.dataset.only !== driver;
	for (const each of all("[data-not]")) each.hidden = each.dataset.not === driver;
	at("more").hidden = driver === "none";
}

async function changed() {
	arrange();
	try {
		await save();
		if (wanted().driver === "ssh") await Promise.all([key(), hostKey()]);
	} catch (error) {
		if (!(error instanceof ApiError)) throw error;
		one("details#more").open = true;
		showErrors(form, error);
	}
}

// 1. What to paste

async function key() {
	try {
		const made = await post("/api/setup/key", about());
		const byHand = [
			h("p.small", t("setup.sleep.line_words", { user: made.user })),
			h("pre.setup-code.wrap", h("code", { id: "key-line" }, made.line)),
			h("div.row", copier(made.line)),
		];
		if (!made.script) return fill(at("paste"), byHand);
		return fill(
			at("paste"),
			h(
				"pre.setup-code",
				{ tabindex: "0", role: "region", "aria-label": t("setup.sleep.paste") },
				h("code", { id: "key-script" }, made.script),
			),
			h("div.row", copier(made.script)),
			h(
				"details.details.plain",
				h("summary", t("setup.sleep.by_hand")),
				h("div.stack.tight", byHand),
			),
		);
	} catch (error) {
		if (!(error instanceof ApiError)) throw error;
		return fill(at("paste"), notice("bad", h("p", error.message)));
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
		if (!(error instanceof ApiError)) throw error;
		const retry = h(
			"button.button.small",
			{ type: "button" },
			icon("refresh-cw"),
			t("setup.try_again"),
		);
		onPress(retry, () => hostKey());
		fill(
			at("pin"),
			notice("warn", h("p", error.message), h("p", t("setup.sleep.no_key_do"))),
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
	const yes = h(
		`button.button.${other ? "danger" : "primary"}`,
		{ type: "button", id: "same" },
		icon("check"),
		t(other ? "setup.sleep.replaced" : "setup.sleep.same"),
	);
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
	if (verdict === "ok")
		return h("li", { "data-kind": kind }, icon(mark), h("div", plain("ok", title)));
	if (verdict === "not seen")
		return h(
			"li",
			{ "data-kind": kind },
			icon(mark),
			h("div", t("setup.sleep.not_seen", { what: plain("ok", title) })),
		);
	return h(
		"li",
		{ "data-kind": kind },
		icon(mark),
		h(
			"div",
			h("b", plain("bad", title)),
			h("p", plain("do", mend)),
			h(
				"details.details.plain",
				h("summary", t("setup.sleep.exactly")),
				h("p.small", what, h("br"), mend),
			),
		),
	);
}

/** @param {Loose} result */
function findings({ checks, problems }) {
	const used = checks.filter((/** @type {Loose} */ { verdict }) => verdict !== "not used");
	const all = problems
		? notice("bad", h("p", t("setup.sleep.problems", { count: problems })))
		: notice("good", h("p", t("setup.sleep.no_problem")));
	fill(at("findings"), all, h("ul.setup-findings", used.map(finding)));
}

/** @param {object | null} body */
async function check(body) {
	fill(at("findings"), h("p.loading", t("setup.sleep.checking")));
	try {
		findings((await follow("/api/setup/check", { body, query: about(), fresh: true })).result);
	} catch (error) {
		if (!(error instanceof ApiError)) throw error;
		fill(at("findings"), notice("bad", h("p", error.message)));
	}
}

at("check").addEventListener("click", () =>
	busy(at("check"), async () => {
		try {
			await save();
			await check(about());
		} catch (error) {
			refused(error);
		}
	}),
);

// The server itself: what a script printed there

at("inside").addEventListener("toggle", async () => {
	if (!at("inside").open || one("code", at("facts-script"))) return;
	try {
		await save();
		const { script } = await get("/api/setup/facts-script", about(), { timeout_ms: 60_000 });
		const pasted = `sh <<'NAPROXY'\n${script}NAPROXY\n`;
		fill(
			at("facts-script"),
			h(
				"pre.setup-code",
				{ tabindex: "0", role: "region", "aria-label": t("setup.sleep.inside") },
				h("code", pasted),
			),
			h("div.row", copier(pasted)),
		);
	} catch (error) {
		if (!(error instanceof ApiError)) throw error;
		fill(at("facts-script"), notice("bad", h("p", error.message)));
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
get("/api/setup/check", about())
	.then((status) => {
		if (status.state === "done" && status.result) findings(status.result);
		else if (status.state === "running") check(null);
	})
	.catch(refused);
