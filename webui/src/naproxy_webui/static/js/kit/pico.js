// Raspberry Pi Picos on USB become our meter. The first run and the settings show them.

import { badge, button, fill, get, h, icon, notice, put, refusal, t } from "./core.js";
import { confirm, open, toast } from "./dialog.js";
import { decimal, onPress } from "./form.js";
import { number } from "./format.js";
import { follow } from "./jobs.js";
import { upload } from "./upload.js";

/** A refusal that a person may overrule. */
const FOREIGN = "pico.foreign";

/**
 * Show them in a place; `changed` is told when one has become a meter.
 * @param {HTMLElement} place @param {() => unknown} changed
 */
export async function picos(place, changed = () => {}) {
	const mayChange = document.body.dataset.mayChange !== "no";
	if (!mayChange) return;
	const list = h("div.stack.tight"),
		status = h("div.stack.tight", { role: "status" });
	const again = button(".small", [icon("refresh-cw"), t("pico.again")], null);
	fill(
		place,
		h("div.row.spread", h("h2", { id: "pico-title" }, t("pico.title")), again),
		h("p.soft", t("pico.words")),
		list,
		status,
	);
	onPress(again, look);
	await look();

	async function look() {
		const said = await get("/api/pico");
		fill(
			list,
			said.picos.length
				? said.picos.map((/** @type {Loose} */ each) => row(each, said))
				: h("p.hint", t("pico.none")),
			said.micropython === null && missing(),
		);
	}

	/** @param {Loose} pico @param {Loose} said */
	function row({ place: socket, kind, port, meter, version }, said) {
		const old = version !== null && version !== said.newest;
		const works = kind === "boot" ? said.micropython !== null : kind === "serial";
		const words = version && !old ? t("pico.install_again") : t(`pico.install_${kind}`);
		return h(
			"div.row.spread",
			{ "data-pico": socket },
			h(
				"span.setup-host",
				h("b", meter ?? t(`pico.kind_${kind}`, { place: socket })),
				port && h("span.hint.mono", port),
				version && h("span.hint", t("pico.version", { version })),
				old && badge("warn", "info", t("pico.newer", { version: said.newest })),
			),
			h(
				"span.row",
				meter && version && button(".small.quiet", t("pico.calibrate"), () => load(meter)),
				works &&
					button(".small", old ? t("pico.update") : words, () => install(socket, false)),
			),
		);
	}

	/** @param {string} socket @param {boolean} replace */
	async function install(socket, replace) {
		try {
			const body = { place: socket, replace };
			const done = await working("/api/pico/install", body);
			toast(t("pico.installed", { version: done.version }));
			await look();
			await changed();
		} catch (error) {
			if (/** @type {{ code?: string }} */ (error).code !== FOREIGN) return failed(error);
			fill(status);
			const sure = await confirm({
				title: t("pico.foreign"),
				text: t("pico.foreign_words"),
				yes: t("pico.replace"),
				danger: true,
			});
			if (sure) await install(socket, true);
		}
	}

	/** Begin a job and show how far it is. @param {string} path @param {object} body */
	async function working(path, body) {
		const words = h("p"),
			bar = h("progress", { "aria-label": t("pico.progress") });
		fill(status, words, bar);
		const { result } = await follow(path, {
			body,
			fresh: true,
			show: ({ progress }) => {
				const { part, done, of } = progress;
				words.textContent = t(`pico.part_${part || "repl"}`);
				if (of) Object.assign(bar, { max: of, value: done });
				else bar.removeAttribute("value");
			},
		});
		fill(status);
		return result;
	}

	/** @param {unknown} error */
	function failed(error) {
		fill(status, notice("warn", h("p", refusal(error).message)));
	}

	function missing() {
		const input = h("input", { type: "file", accept: ".uf2", id: "pico-file" });
		input.addEventListener("change", () => send(input).catch(failed));
		return notice(
			"info",
			h("p", t("pico.missing")),
			h("label.small", { for: "pico-file" }, t("pico.missing_file")),
			input,
		);
	}

	/** @param {HTMLInputElement} input */
	async function send(input) {
		const [file] = input.files ?? [];
		if (!file) return;
		const sent = await upload(file, { kind: "micropython" });
		const kept = await put("/api/pico/micropython", { upload: sent.id });
		toast(t("pico.kept", { version: kept.micropython }));
		await look();
	}

	/** Ask for the load, and calibrate. @param {string} meter */
	async function load(meter) {
		const input = h("input.input", {
			id: "pico-load",
			inputmode: "decimal",
			autocomplete: "off",
		});
		const dialog = h(
			"dialog.dialog",
			{ "aria-labelledby": "pico-load-title" },
			h(
				"form.stack",
				{ method: "dialog" },
				h("h2", { id: "pico-load-title" }, t("pico.calibrate")),
				h("p", t("pico.zero_words")),
				h("p", h("button.button", { value: "zero" }, t("pico.zero"))),
				h("p", t("pico.gain_words")),
				h(
					"div.field",
					h("label", { for: "pico-load" }, t("pico.load")),
					h("div.affix", input, h("span", "W")),
				),
				h(
					"div.actions",
					h("button.button.quiet", { value: "" }, t("kit.cancel")),
					h("button.button.primary", { value: "gain" }, t("pico.gain")),
				),
			),
		);
		document.body.append(dialog);
		const chosen = await open(dialog, { once: true });
		if (!chosen) return;
		const body = chosen === "zero" ? { meter } : { meter, load_w: decimal(input.value.trim()) };
		try {
			const done = await working("/api/pico/calibrate", body);
			const values = { before: number(done.before), now: number(done.now) };
			fill(status, notice("good", h("p", t(`pico.set_${done.setting}`, values))));
		} catch (error) {
			failed(error);
		}
	}
}
