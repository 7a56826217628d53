// /setup/sleep: how the server is put to sleep; letting the box in; the check.

import { ApiError, get, h, has, icon, post, put, t } from "../../kit/core.js";
import { toast } from "../../kit/dialog.js";
import { busy, onPress, showErrors, values } from "../../kit/form.js";
import { about, copier, fill, follow, notice, onward, refused } from "./flow.js";

const $ = (id) => document.getElementById(id);
const form = $("form");
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
	for (const each of document.querySelectorAll("[data-only]"))
		each.hidden = each.dataset.only !== driver;
	for (const each of document.querySelectorAll("[data-not]"))
		each.hidden = each.dataset.not === driver;
	$("more").hidden = driver === "none";
}

async function changed() {
	arrange();
	try {
		await save();
		if (wanted().driver === "ssh") await Promise.all([key(), hostKey()]);
	} catch (error) {
		if (!(error instanceof ApiError)) throw error;
		$("more").open = true;
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
		if (!made.script) return fill($("paste"), byHand);
		return fill(
			$("paste"),
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
		return fill($("paste"), notice("bad", h("p", error.message)));
	}
}

// 2. Whose key it is

async function hostKey(body = about()) {
	fill($("pin"), h("p.loading", t("setup.sleep.asking_key")));
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
			$("pin"),
			notice("warn", h("p", error.message), h("p", t("setup.sleep.no_key_do"))),
			h("div.row", retry),
		);
	}
}

/** Kind of a host key -> the name of its file. */
const FILES = { "ssh-ed25519": "ed25519", "ecdsa-sha2-nistp256": "ecdsa" };

function showKey({ shown, pinned, same }) {
	$("pin-command").textContent =
		`ssh-keygen -lf /etc/ssh/ssh_host_${FILES[shown.kind] ?? "rsa"}_key.pub`;
	const mark = h("code.setup-fingerprint", { id: "fingerprint" }, shown.fingerprint);
	if (same) return fill($("pin"), notice("good", h("p", t("setup.sleep.pinned")), mark));
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
	return fill($("pin"), before, h("p", t("setup.sleep.shows")), mark, h("div.row", yes));
}

// 3. The check

const KINDS = {
	ok: ["good", "circle-check"],
	problem: ["bad", "circle-x"],
	note: ["warn", "info"],
	"not seen": ["warn", "circle-help"],
};

function finding({ name, verdict, title, what, mend }) {
	const [kind, mark] = KINDS[verdict];
	const key = `setup.check.${name}`;
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

function findings({ checks, problems }) {
	const shown = checks.filter(({ verdict }) => verdict !== "not used").map(finding);
	const all = problems
		? notice("bad", h("p", t("setup.sleep.problems", { count: problems })))
		: notice("good", h("p", t("setup.sleep.no_problem")));
	fill($("findings"), all, h("ul.setup-findings", shown));
}

async function check(body) {
	fill($("findings"), h("p.loading", t("setup.sleep.checking")));
	try {
		findings((await follow("/api/setup/check", { body, query: about(), fresh: true })).result);
	} catch (error) {
		if (!(error instanceof ApiError)) throw error;
		fill($("findings"), notice("bad", h("p", error.message)));
	}
}

$("check").addEventListener("click", () =>
	busy($("check"), async () => {
		try {
			await save();
			await check(about());
		} catch (error) {
			refused(error);
		}
	}),
);

// The server itself: what a script printed there

$("inside").addEventListener("toggle", async () => {
	if (!$("inside").open || $("facts-script").querySelector("code")) return;
	try {
		await save();
		const { script } = await get("/api/setup/facts-script", about(), { timeout_ms: 60_000 });
		const pasted = `sh <<'NAPROXY'\n${script}NAPROXY\n`;
		fill(
			$("facts-script"),
			h(
				"pre.setup-code",
				{ tabindex: "0", role: "region", "aria-label": t("setup.sleep.inside") },
				h("code", pasted),
			),
			h("div.row", copier(pasted)),
		);
	} catch (error) {
		if (!(error instanceof ApiError)) throw error;
		fill($("facts-script"), notice("bad", h("p", error.message)));
	}
});

$("facts-form").addEventListener("submit", (event) => {
	event.preventDefault();
	const facts = $("facts").value.trim();
	if (facts) busy(event.submitter, () => check(about({ facts: `${facts}\n` })));
});

onPress($("forward"), async () => {
	await save();
	await onward();
});

form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("change", changed);
if (form.dataset.way === wanted().driver) saved = JSON.stringify(wanted());
changed();
get("/api/setup/check", about())
	.then((status) => {
		if (status.state === "done") findings(status.result);
		else if (status.state === "running") check(null);
	})
	.catch(refused);
