// The box's own affairs: cache, log, backup, network, restart.

import {
	all,
	ApiError,
	button,
	facts,
	get,
	h,
	has,
	knownZone,
	one,
	pause,
	post,
	put as send,
	refusal,
	t,
	token,
} from "../../kit/core.js";
import { confirm, toast } from "../../kit/dialog.js";
import { dateTime, locale, number } from "../../kit/format.js";
import { clearErrors, field, onPress, onSend, showErrors, values } from "../../kit/form.js";
import { again } from "./forms.js";

const PART_BYTES = 1 << 19;
const LONG = { timeout_ms: 120_000 };

/** Empty the cache: all of it, one server's part, or the pages with an address or a tag. */
export function emptyCache() {
	const form = /** @type {HTMLFormElement | null} */ (one("form[data-empty-cache]"));
	if (!form) return;
	const chosen = () => one("input[name=what]:checked", form).value;
	const show = () => {
		for (const each of all("[data-empty-of]", form))
			each.hidden = each.dataset.emptyOf !== chosen();
	};
	form.noValidate = true;
	form.addEventListener("change", show);
	onSend(
		form,
		async () => {
			const what = chosen();
			const { server } = form.dataset;
			const named = ["path", "tag"].includes(what) ? field(form, what).value.trim() : "";
			const part =
				what === "tag"
					? { tag: named }
					: what === "path"
						? { server, path: named }
						: { server };
			const sure = await confirm({
				title: t("settings.empty_sure"),
				text: t("settings.empty_words"),
				yes: t("settings.empty"),
			});
			if (!sure) return;
			if (what === "all") await post("/api/box/cache/empty");
			else await post("/api/settings/cache/empty", part);
			clearErrors(form);
			toast(
				t(what === "path" || what === "tag" ? "settings.emptied_part" : "settings.emptied"),
			);
		},
		(error) => showErrors(form, refusal(error)),
	);
	show();
}

export function logs() {
	const card = one("[data-logs]");
	// Viewers must not see the visitors, and the log contains these.
	if (!card || document.body.dataset.mayChange === "no") return;
	const form = one("form[data-log-form]", card),
		count = one("[data-log-count]", card),
		lines = one("[data-log-lines]", card);
	let latest = 0;
	const look = async () => {
		latest += 1;
		const mine = latest; // answers to earlier requests are ignored
		const { source, contains } = Object.fromEntries(new FormData(form));
		const query = { source, contains: contains || null, limit: 500 };
		const said = await get("/api/box/logs", query, LONG).catch(refusal);
		if (mine !== latest) return;
		const found = said instanceof ApiError ? [] : said.lines;
		lines.textContent = found.join("\n");
		lines.scrollTop = lines.scrollHeight;
		count.textContent =
			said instanceof ApiError
				? said.message
				: t("settings.log_count", { count: found.length, of: number(said.of) });
	};
	form.addEventListener("submit", (event) => {
		event.preventDefault();
		look();
	});
	form.addEventListener("change", look);
	look();
}

/** Have something made, then let the browser fetch it. */
export function makers() {
	for (const form of all("form[data-make]")) {
		const make = async () => {
			const what = form.dataset.make;
			clearErrors(form);
			await post(`/api/box/${what}`, asked(form), LONG);
			const link = h("a", { href: `/api/box/${what}/file`, download: "" });
			document.body.append(link);
			link.click();
			link.remove();
			toast(t(`settings.${what}_made`));
		};
		onSend(form, make);
		if (one("[data-backup-password]", form)) backupChoices(form);
	}
}

/**
 * The request of a form: a backup has no password only if the user chooses that.
 * @param {HTMLFormElement} form
 */
function asked(form) {
	const { password, unencrypted, ...more } = values(form);
	if (unencrypted === undefined) return more;
	if (unencrypted) return more;
	if (password.length < 8)
		throw new ApiError(422, { error: t("settings.backup_no_password"), where: "password" });
	return { ...more, password };
}

/** @param {HTMLFormElement} form */
function backupChoices(form) {
	const look = () => {
		const { secrets, unencrypted } = values(form);
		one("[data-backup-incomplete]", form).hidden = secrets;
		one("[data-backup-password]", form).hidden = unencrypted;
	};
	form.addEventListener("change", look);
	look();
}

export function restore() {
	const form = one("form[data-restore]");
	if (!form) return;
	const progress = one("progress[data-restore-progress]", form);
	const found = one("[data-restore-found]", form);
	/** The file that the box has, encrypted as it is. @type {File | null} */
	let sent = null;
	onSend(form, async () => {
		const file = /** @type {HTMLInputElement} */ (field(form, "file")).files?.[0];
		if (!file) throw new ApiError(422, { error: t("settings.restore_which"), where: "file" });
		clearErrors(form);
		found.hidden = true;
		progress.hidden = false;
		const ask = one("[data-restore-password]", form);
		const password = one("input", ask);
		try {
			if (sent !== file) await upload(file, progress);
			sent = file;
			const said = await post("/api/box/restore/check", { password: password.value }, LONG);
			// The box has it decrypted, and no longer as it was sent.
			sent = null;
			show(found, said);
		} catch (error) {
			const { where } = refusal(error);
			ask.hidden &&= where !== "password";
			if (where !== "password") sent = null;
			throw error;
		} finally {
			progress.hidden = true;
		}
	});
}

/** @param {File} file @param {HTMLProgressElement} progress */
async function upload(file, progress) {
	for (let offset = 0; offset === 0 || offset < file.size; offset += PART_BYTES) {
		progress.value = file.size ? offset / file.size : 1;
		const answer = await fetch(`/api/box/restore/part?offset=${offset}`, {
			method: "PUT",
			body: file.slice(offset, offset + PART_BYTES),
			credentials: "same-origin",
			headers: { "Content-Type": "application/octet-stream", "X-CSRF-Token": token() },
		}).catch(() => null);
		if (!answer) throw new ApiError(0, { error: t("kit.no_answer") });
		if (!answer.ok) {
			const unread = { error: t("kit.bad_answer", { status: answer.status }) };
			throw new ApiError(answer.status, await answer.json().catch(() => unread));
		}
	}
}

/** @param {HTMLElement} place @param {Loose} said */
function show(place, said) {
	/** @param {string} name @param {boolean} allowed */
	const option = (name, allowed) =>
		h(
			"label.check",
			h("input", {
				type: "checkbox",
				name: `restore-${name}`,
				disabled: !allowed,
				checked: false,
			}),
			h(
				"span",
				t(`settings.restore_${name}`),
				h(
					"span.hint",
					t(allowed ? `settings.restore_${name}_words` : `settings.restore_no_${name}`),
				),
			),
		);
	const past = said.history_bytes
		? t("settings.found_mb", { mb: number(said.history_bytes / 1e6, 1) })
		: t("settings.found_not");
	const users = said.secrets
		? t("settings.found_users", { count: said.users })
		: t("settings.found_not");
	const begin = button(".danger", t("settings.restore_now"));
	place.replaceChildren(
		h(
			"div.card.flat",
			{ tabindex: "-1" },
			h("h3", t("settings.found")),
			facts(
				[t("settings.found_made"), `${dateTime(said.made_s)}, ${said.name}`],
				[t("settings.found_servers"), said.servers.join(", ") || "–"],
				[t("settings.found_version"), said.version],
				[t("settings.found_history"), past],
				[t("settings.found_secrets"), users],
			),
			option("history", said.history_bytes > 0),
			option("secrets", said.secrets),
			h("p.hint", t("settings.restore_then")),
			h("div.actions", begin),
		),
	);
	place.hidden = false;
	one(".card", place).focus();
	onPress(begin, async () => {
		const [history, secrets] = ["history", "secrets"].map(
			(name) => one(`input[name="restore-${name}"]`, place).checked,
		);
		const sure = await confirm({
			title: t("settings.restore_sure"),
			text: t("settings.restore_sure_words"),
			yes: t("settings.restore_now"),
			danger: true,
		});
		if (!sure) return;
		await post("/api/box/restore", { history, secrets }, LONG);
		await backAgain();
		again(t("settings.restored"));
	});
}

/** Wait until the controller answers again; it restarts half a second after this. ApiError. */
async function backAgain() {
	const end = Date.now() + 60_000;
	await pause(1500);
	while (Date.now() < end) {
		try {
			await get("/api/box/about", null, { timeout_ms: 3000 });
			return;
		} catch (error) {
			refusal(error);
			await pause(500);
		}
	}
	throw new ApiError(0, { error: t("settings.not_back") });
}

export function machine() {
	for (const form of all("form[data-box]")) boxForm(form);
	for (const button of all("[data-box-post]"))
		onPress(button, async () => {
			await post(`/api/box/${button.dataset.boxPost}`);
			again(t("settings.saved"));
		});
	for (const button of all("[data-restart]"))
		onPress(button, async () => {
			const own = `settings.restart_words.${button.dataset.restart}`;
			const sure = await confirm({
				title: t("settings.restart_sure"),
				text: t(has(own) ? own : "settings.restart_words"),
				yes: t("settings.restart"),
			});
			if (!sure) return;
			await post("/api/box/restart", { service: button.dataset.restart });
			await backAgain();
			toast(t("settings.restarted"));
		});
	for (const button of all("[data-reboot]"))
		onPress(button, async () => {
			const sure = await confirm({
				title: t("settings.reboot_sure"),
				text: t("settings.reboot_words"),
				yes: t("settings.reboot"),
				danger: true,
			});
			if (!sure) return;
			await post("/api/box/reboot");
			toast(t("settings.rebooting"), "info");
		});
	for (const place of all("[data-clock]")) {
		const format = new Intl.DateTimeFormat(locale, {
			dateStyle: "full",
			timeStyle: "short",
			timeZone: knownZone(place.dataset.zone),
		});
		place.textContent = format.format(Number(place.dataset.clock) * 1000);
	}
}

/** @param {HTMLFormElement} form */
function boxForm(form) {
	const [method, what] = (form.dataset.box ?? "").split(" ");
	const look = () => {
		for (const part of all("[data-static]", form))
			part.hidden = field(form, part.dataset.static ?? "").value !== "static";
	};
	form.addEventListener("change", look);
	look();
	const work = async () => {
		const { ask } = form.dataset;
		if (ask && !(await confirm({ title: ask, yes: t("settings.go_on"), danger: true }))) return;
		await (method === "PUT" ? send : post)(`/api/box/${what}`, said(form), LONG);
		again(t(what === "network" ? "settings.trial" : "settings.saved"));
	};
	onSend(form, work, (error) => {
		// With a new address the answer may not find its way back.
		if (what === "network" && refusal(error).status === 0)
			toast(t("settings.trial_gone"), "bad");
		else showErrors(form, refusal(error));
	});
}

/** @param {HTMLFormElement} form */
function said(form) {
	/** @type {Record<string, string | string[] | number | null>} */
	const found = {};
	for (const field of /** @type {Iterable<Field>} */ (form.elements)) {
		if (!field.name || (field.type === "radio" && !field.checked)) continue;
		if (field.closest("[hidden]")) continue;
		const text = field.value.trim();
		if ("list" in field.dataset) found[field.name] = text.split(/[\s,]+/).filter(Boolean);
		else if (field.type === "number") found[field.name] = text ? Number(text) : null;
		else found[field.name] = text;
	}
	return found;
}
