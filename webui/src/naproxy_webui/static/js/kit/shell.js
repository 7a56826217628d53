// The frame around every page's content: light or dark, the menu of a phone, signing out, and the
// state of the box, at the top.

import {
	all,
	h,
	icon,
	lastReached,
	notice,
	noteReached,
	one,
	poll,
	post,
	redraw,
	redrawList,
	t,
} from "./core.js";

const EVERY_S = 10;
const root = document.documentElement;

// Light or dark: kept in a cookie, so that the box sends the page as it will look, without a flash

function theme() {
	return (
		root.dataset.theme ??
		(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")
	);
}

/** @param {string} wanted */
function choose(wanted) {
	root.dataset.theme = wanted;
	// biome-ignore lint/suspicious/noDocumentCookie: the other way is not in every browser
	document.cookie = `naproxy_theme=${wanted}; path=/; max-age=31536000; SameSite=Strict`;
	told();
}

/** Charts are drawn with colours that they have to read again. */
function told() {
	for (const button of all("[data-theme-switch]")) {
		button.setAttribute("aria-pressed", String(theme() === "dark"));
	}
	document.dispatchEvent(new CustomEvent("naproxy:theme"));
}

for (const query of ["(prefers-color-scheme: dark)", "print"])
	matchMedia(query).addEventListener("change", told);

// How the box is

/**
 * Show what `/api/box` said, or that there was no answer; the page Now has it more often.
 * @param {Box | null} box
 */
export function showBox(box) {
	const troubles = troublesOf(box);
	const kind =
		box === null || !box.controller || troubles.some((each) => each.kind === "bad")
			? "bad"
			: troubles.length
				? "warn"
				: "good";
	const words =
		box === null ? silent() : !box.controller ? t("kit.box.no_controller") : serversIn(box);
	const state = document.getElementById("box-state");
	if (state) {
		state.dataset.kind = kind;
		const picture =
			kind !== "good" ? "triangle-alert" : box?.servers.length ? "circle-check" : "info";
		redraw(state, [picture, words], () => [icon(picture), h("span", words)]);
	}
	showBanners(troubles);
}

function silent() {
	const time = lastReached();
	return time ? t("kit.box.silent_since", { time }) : t("kit.box.silent");
}

/** @param {Box} box */
function serversIn(box) {
	const bad = box.servers.filter((each) => each.state === "trouble" || each.alert);
	if (bad.length) return t("kit.box.trouble", { count: bad.length });
	if (!box.servers.length) return t("kit.box.none");
	const asleep = box.servers.filter((each) => each.state === "asleep").length;
	if (box.servers.length === 1) return t(`kit.state.${box.servers[0].state}`);
	return asleep
		? t("kit.box.asleep", { count: asleep, all: box.servers.length })
		: t("kit.box.awake", { count: box.servers.length });
}

/** @param {Box | null} box */
function troublesOf(box) {
	if (box === null) return [trouble("bad", "silent")];
	if (!box.controller) return [trouble("bad", "controller")];
	const found = box.servers
		.filter((each) => each.state === "trouble" || each.alert)
		.map((each) => ({
			...trouble("bad", "server", { name: each.id }),
			words: each.alert || t("kit.banner.server_words"),
		}));
	if (box.front_door) {
		found.push({ kind: "bad", title: t("kit.banner.front_door"), words: box.front_door });
	}
	if (box.settings_refused) {
		const title = t("kit.banner.settings");
		found.push({ kind: "warn", title, words: box.settings_refused });
	}
	if (box.history_error) found.push(trouble("warn", "history", { error: box.history_error }));
	return found;
}

/** @param {string} kind @param {string} key @param {Words} values */
const trouble = (kind, key, values = {}) => ({
	kind,
	title: t(`kit.banner.${key}`, values),
	words: t(`kit.banner.${key}_words`, values),
});

/** @param {{ kind: string, title: string, words: string }[]} troubles */
function showBanners(troubles) {
	const place = document.getElementById("banners");
	if (!place) return;
	redrawList(place, troubles, ({ kind, title, words }) =>
		notice(kind, h("p.strong", title), h("p", words)),
	);
}

function watch() {
	if (!document.getElementById("box-state") || document.body.dataset.box === "page") return;
	poll("/api/box", {
		every_s: EVERY_S,
		data: showBox,
		error: (problem) => problem.status !== 401 && showBox(null),
	});
}

// Menu and signing out

async function signOut() {
	try {
		await post("/api/logout");
	} catch (error) {
		const { refused } = await import("./dialog.js");
		refused(error);
		return;
	}
	location.assign("/login");
}

document.addEventListener("click", (event) => {
	const menu = one("details.more[open]");
	const pressed = /** @type {Element} */ (event.target);
	if (menu && !menu.contains(pressed)) menu.open = false;
	if (pressed.closest("[data-theme-switch]")) choose(theme() === "dark" ? "light" : "dark");
	if (pressed.closest("[data-sign-out]")) signOut();
});
document.addEventListener("keydown", (event) => {
	const menu = one("details.more[open]");
	if (event.key !== "Escape" || !menu) return;
	menu.open = false;
	one("summary", menu).focus();
});

for (const button of all("[data-theme-switch]"))
	button.setAttribute("aria-pressed", String(theme() === "dark"));
watch();

// The page for a box that does not answer (worker.js). A browser that does not trust the box's
// certificate refuses the worker, and shows its own error page instead.

function install() {
	const { lang, dataset } = root;
	const version = new URL(import.meta.url).pathname.split("/")[2];
	const shell = [lang, dataset.timeZone, dataset.theme ?? ""].join(" ");
	const query = new URLSearchParams({ version, shell });
	navigator.serviceWorker?.register(`/worker.js?${query}`).catch(() => {});
}

noteReached();
if (document.readyState === "complete") install();
else addEventListener("load", install, { once: true });
