// /setup/https: the machine that answers visitors over HTTPS.

import { all, ApiError, at, fill, h, notice, one, post, t } from "../../kit/core.js";
import { use, ways } from "../../kit/certificate.js";
import { clearErrors, onPress, onSend, showErrors } from "../../kit/form.js";
import { configureIssue, tryIssue } from "../../kit/issue.js";
import { about, onward, server } from "./flow.js";

const LONG = { timeout_ms: 60_000 };
const form = at("form");
const { mode } = form.dataset;

/** @param {string} value */
const choose = (value) => {
	one(`input[value=${value}]`, form).checked = true;
	show();
};
/** None before the box has looked. */
const wanted = () => one("input[name=mode]:checked", form)?.value;

function show() {
	at("certificate").hidden = wanted() !== "box";
}

/** @param {Api["POST /api/setup/https/look"]} said */
function found(said) {
	const uses = said.answers || said.leads !== null;
	const words = !uses
		? t(said.known ? "setup.https.silent" : "setup.https.unseen")
		: mode === "through"
			? t("setup.https.uses_through")
			: said.leads
				? t("setup.https.leads", { to: said.leads })
				: t("setup.https.answers");
	const kind = uses ? "info" : said.known ? "good" : "warn";
	fill(at("seen"), notice(kind, h("p", words), said.known ? null : lookAgain()));
	at("found").hidden = !said.names.length;
	fill(
		at("names"),
		said.names.map((name) =>
			h(
				"label.check",
				h("input", { type: "checkbox", name: "names", value: name, checked: true }),
				h("span.mono", name),
			),
		),
	);
	if (!wanted()) choose(uses ? "box" : said.known ? "unused" : "later");
	show();
}

const lookAgain = () =>
	h("p", onPress(h("button.button.small", { type: "button" }, t("setup.try_again")), look));

async function look() {
	try {
		found(await post("/api/setup/https/look", about(), LONG));
	} catch (error) {
		if (!(error instanceof ApiError)) throw error;
		fill(at("seen"), notice("warn", h("p", error.message), lookAgain()));
		if (!wanted()) choose("later");
	}
}

form.noValidate = true;
ways(at("certificate"));
onPress(at("try"), async () => {
	const serve = `server.${server}.https.mode`;
	try {
		await tryIssue(form, [{ op: "set", where: serve, value: "box" }]);
	} catch (error) {
		showErrors(form, error);
	}
});
form.addEventListener("change", show);
onSend(
	form,
	async () => {
		const names = all("input[name=names]:checked", form).map((each) => each.value);
		// The names come first: a certificate is judged by them.
		if (names.length) await post("/api/setup/https", about({ names }));
		clearErrors(form);
		const serves = wanted() === "box";
		const way = serves && one("input[name=way]:checked", form).value;
		if (way === "upload" && !(await use(form))) return;
		// The box then asks for it by itself, now and later: nobody need wait for it here.
		if (way === "acme") await configureIssue(form);
		const given = wanted();
		if (given) await post("/api/setup/https", about({ mode: given }));
		await onward();
	},
	(error) => showErrors(form, error),
);
show();
look();
