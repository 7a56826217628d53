// Certificates and their keys: out of files that somebody has, to the box. Nothing comes back.

import { all, ApiError, facts, fill, get, notice, one, post, put, t } from "./core.js";
import { confirm } from "./dialog.js";
import { date } from "./format.js";
import { clearErrors, field } from "./form.js";

const MOST_BYTES = 256 * 1024;
/** A PKCS #12 file is DER: it begins with a sequence. */
const SEQUENCE = 0x30;
const LONG = { timeout_ms: 120_000 };

/** @param {HTMLFormElement} form @param {string} name */
const filesOf = (form, name) => [
	.../** @type {FileList} */ (/** @type {HTMLInputElement} */ (field(form, name)).files),
];

/** @param {File} file @param {"text" | "base64"} as @returns {Promise<string>} */
const read = (file, as) =>
	new Promise((resolve, reject) => {
		const reader = new FileReader();
		reader.addEventListener("error", () => reject(new ApiError(0, { error: file.name })));
		reader.addEventListener("load", () => {
			const text = String(reader.result);
			resolve(as === "text" ? text : text.slice(text.indexOf(",") + 1));
		});
		if (as === "text") reader.readAsText(file);
		else reader.readAsDataURL(file);
	});

/** The values of the form, as the API takes them. @param {HTMLFormElement} form */
async function given(form) {
	if (!filesOf(form, "pem").length)
		throw new ApiError(422, { error: t("certificate.which"), where: "pem" });
	const body = { pem: "", key: "", pkcs12: "", password: field(form, "password").value };
	for (const name of /** @type {const} */ (["pem", "key"])) {
		for (const file of filesOf(form, name)) {
			if (file.size > MOST_BYTES)
				throw new ApiError(413, { error: t("certificate.large"), where: name });
			const [first] = new Uint8Array(await file.slice(0, 1).arrayBuffer());
			if (name === "pem" && first === SEQUENCE) body.pkcs12 = await read(file, "base64");
			else body[name] += `${await read(file, "text")}\n`;
		}
	}
	return body;
}

/** Show the refusal of `pkcs12` at the field `pem`. @param {unknown} error @returns {never} */
function beside(error) {
	if (error instanceof ApiError)
		for (const each of error.problems) if (each.where === "pkcs12") each.where = "pem";
	throw error;
}

/** Have the box judge it; nothing is kept. @param {HTMLFormElement} form */
async function judged(form) {
	const body = await given(form);
	const said = await post("/api/certificates/check", body, LONG).catch(beside);
	clearErrors(form);
	return { body, said };
}

/** Say in the form what the box thinks of it. @param {HTMLFormElement} form */
export async function check(form) {
	const place = one("[data-found]", form);
	fill(place);
	const { said } = await judged(form);
	fill(
		place,
		notice(
			said.notes.length ? "warn" : "good",
			t("certificate.good"),
			facts(
				[t("certificate.names"), said.names.join(", ")],
				[t("certificate.issuer"), said.issuer],
				[t("certificate.ends"), said.not_after_s && date(said.not_after_s)],
				[t("certificate.note"), said.notes.join(" ")],
			),
		),
	);
}

/**
 * Use what the form has; `id`: in the place of that one. Resolves to whether it was agreed to.
 * @param {HTMLFormElement} form @param {string} id
 */
export async function use(form, id = "") {
	fill(one("[data-found]", form));
	const { body, said } = await judged(form);
	const { certificates } = await get("/api/certificates");
	const key = (/** @type {{ names: string[], kind: string | null }} */ each) =>
		JSON.stringify([each.kind, [...each.names].sort()]);
	const there = id ? null : certificates.find((each) => key(each) === key(said));
	if (there) {
		const question = {
			title: t("certificate.there", { names: there.names.join(", ") }),
			text: t("certificate.there_words"),
			yes: t("certificate.replace"),
		};
		if (!(await confirm(question))) return false;
	}
	const taken = new Set(certificates.map((each) => each.id));
	const name = id || there?.id || freeId(said.names[0] ?? "", taken);
	await put(`/api/certificates/${encodeURIComponent(name)}`, body, LONG).catch(beside);
	return true;
}

/** @param {string} name @param {Set<string>} taken */
export function freeId(name, taken) {
	const plain = name.toLowerCase().replace(/[^a-z0-9]+/g, "-");
	const made = plain.slice(0, 27).replace(/^-+|-+$/g, "") || "main";
	let free = made;
	for (let n = 2; taken.has(free); n += 1) free = `${made}-${n}`;
	return free;
}

/** Of the ways to a certificate show the chosen one. @param {HTMLElement} root */
export function ways(root) {
	const show = () => {
		const chosen = one("input[name=way]:checked", root).value;
		for (const each of all("[data-way]", root)) each.hidden = each.dataset.way !== chosen;
	};
	root.addEventListener("change", show);
	show();
}
