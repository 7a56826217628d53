// The box's own affairs: cache, log, backup, network, restart.

import { all, ApiError, get, h, has, one, post, put as send, t, token } from "../../kit/core.js";
import { confirm, toast } from "../../kit/dialog.js";
import { dateTime, locale, number } from "../../kit/format.js";
import { busy, clearErrors, field, onPress, showErrors } from "../../kit/form.js";
import { again } from "./forms.js";

const PART_BYTES = 1 << 19;
const LONG_MS = 120_000;

export function emptyCache() {
	for (const button of all("[data-empty-cache]")) {
		onPress(button, async () => {
			const sure = await confirm({
				title: t("settings.empty_sure"),
				text: t("settings.empty_words"),
				yes: t("settings.empty"),
			});
			if (!sure) return;
			await post("/api/box/cache/empty");
			toast(t("settings.emptied"));
		});
	}
}

export function logs() {
	const card = one("[data-logs]");
	// Who may look only may not see who visited, and the log says that.
	if (!card || document.body.dataset.mayChange === "no") return;
	const form = one("form[data-log-form]", card),
		count = one("[data-log-count]", card),
		lines = one("[data-log-lines]", card);
	const look = () =>
		busy(one("button", form), async () => {
			try {
				const { source, contains } = Object.fromEntries(new FormData(form));
				const said = await get(
					"/api/box/logs",
					{ source, contains: contains || null, limit: 500 },
					{ timeout_ms: LONG_MS },
				);
				lines.textContent = said.lines.join("\n");
				lines.scrollTop = lines.scrollHeight;
				count.textContent = t("settings.log_count", {
					count: said.lines.length,
					of: number(said.of),
				});
			} catch (error) {
				if (!(error instanceof ApiError)) throw error;
				lines.textContent = "";
				count.textContent = error.message;
			}
		});
	form.addEventListener("submit", (event) => {
		event.preventDefault();
		look();
	});
	form.addEventListener("change", look);
	look();
}

/** Have something made, then let the browser fetch it. */
export function makers() {
	for (const form of all("[data-make]")) {
		form.addEventListener("submit", (event) => {
			event.preventDefault();
			busy(event.submitter, async () => {
				try {
					const what = form.dataset.make;
					const asked = Object.fromEntries(
						all("input[type=checkbox]", form).map((each) => [each.name, each.checked]),
					);
					await post(`/api/box/${what}`, asked, { timeout_ms: LONG_MS });
					const link = h("a", { href: `/api/box/${what}/file`, download: "" });
					document.body.append(link);
					link.click();
					link.remove();
					toast(t(`settings.${what}_made`));
				} catch (error) {
					if (!(error instanceof ApiError)) throw error;
					toast(error.message, "bad");
				}
			});
		});
	}
}

export function restore() {
	const form = one("form[data-restore]");
	if (!form) return;
	const progress = one("progress[data-restore-progress]", form);
	const found = one("[data-restore-found]", form);
	form.addEventListener("submit", (event) => {
		event.preventDefault();
		const file = /** @type {HTMLInputElement} */ (field(form, "file")).files?.[0];
		if (!file) {
			const error = t("settings.restore_which");
			showErrors(form, new ApiError(422, { error, where: "file" }));
			return;
		}
		busy(event.submitter, async () => {
			clearErrors(form);
			found.hidden = true;
			progress.hidden = false;
			try {
				await upload(file, progress);
				show(found, await post("/api/box/restore/check", {}, { timeout_ms: LONG_MS }));
			} catch (error) {
				if (!(error instanceof ApiError)) throw error;
				showErrors(form, error);
			} finally {
				progress.hidden = true;
			}
		});
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
	/** @param {string} key @param {string} value */
	const fact = (key, value) => [h("dt", t(`settings.found_${key}`)), h("dd", value)];
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
	const button = h("button.button.danger", { type: "button" }, t("settings.restore_now"));
	place.replaceChildren(
		h(
			"div.card.flat",
			{ tabindex: "-1" },
			h("h3", t("settings.found")),
			h(
				"dl.facts",
				fact("made", `${dateTime(said.made_s)}, ${said.name}`),
				fact("servers", said.servers.join(", ") || "–"),
				fact("version", said.version),
				fact(
					"history",
					said.history_bytes
						? t("settings.found_mb", { mb: number(said.history_bytes / 1e6, 1) })
						: t("settings.found_not"),
				),
				fact(
					"secrets",
					said.secrets
						? t("settings.found_users", { count: said.users })
						: t("settings.found_not"),
				),
			),
			option("history", said.history_bytes > 0),
			option("secrets", said.secrets),
			h("p.hint", t("settings.restore_then")),
			h("div.actions", button),
		),
	);
	place.hidden = false;
	one(".card", place).focus();
	onPress(button, async () => {
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
		await post("/api/box/restore", { history, secrets }, { timeout_ms: LONG_MS });
		await backAgain();
		again(t("settings.restored"));
	});
}

/** Wait until the controller answers again: it begins anew half a second after this; ApiError. */
async function backAgain() {
	const end = Date.now() + 60_000;
	await new Promise((done) => setTimeout(done, 1500));
	while (Date.now() < end) {
		try {
			await get("/api/box/about", null, { timeout_ms: 3000 });
			return;
		} catch (error) {
			if (!(error instanceof ApiError)) throw error;
			await new Promise((done) => setTimeout(done, 500));
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
			timeZone: place.dataset.zone,
		});
		place.textContent = format.format(Number(place.dataset.clock) * 1000);
	}
}

/** @param {HTMLFormElement} form */
function boxForm(form) {
	const [method, what] = (form.dataset.box ?? "").split(" ");
	const shown = one("[data-static]", form);
	const look = () => {
		if (shown) shown.hidden = field(form, "method").value !== "static";
	};
	form.addEventListener("change", look);
	look();
	form.addEventListener("submit", (event) => {
		event.preventDefault();
		busy(event.submitter, async () => {
			if (
				form.dataset.ask &&
				!(await confirm({
					title: form.dataset.ask,
					yes: t("settings.go_on"),
					danger: true,
				}))
			)
				return;
			try {
				await (method === "PUT" ? send : post)(`/api/box/${what}`, said(form), {
					timeout_ms: LONG_MS,
				});
				again(t(what === "network" ? "settings.trial" : "settings.saved"));
			} catch (error) {
				if (!(error instanceof ApiError)) throw error;
				// With a new address the answer may not find its way back.
				if (what === "network" && error.status === 0)
					toast(t("settings.trial_gone"), "bad");
				else showErrors(form, error);
			}
		});
	});
}

/** @param {HTMLFormElement} form */
function said(form) {
	/** @type {Record<string, string | string[]>} */
	const found = {};
	for (const field of /** @type {Iterable<Field>} */ (form.elements)) {
		if (!field.name || (field.type === "radio" && !field.checked)) continue;
		if (field.closest("[hidden]")) continue;
		found[field.name] =
			"list" in field.dataset
				? field.value.split(/[\s,]+/).filter(Boolean)
				: field.value.trim();
	}
	return found;
}
