// /setup/live: visitors are led through the box, which says when the first has come.

import { at, h, notice, one, poll, post, redraw, say, t } from "../../kit/core.js";
import { confirm } from "../../kit/dialog.js";
import { onPress } from "../../kit/form.js";
import { when } from "../../kit/format.js";
import { about, again, onward, server } from "./flow.js";

const EVERY_S = 2;
const box = location.hostname;

at("box").textContent = box;
Object.assign(at("try"), { href: `http://${box}/`, textContent: `http://${box}/` });

/** @param {Api["GET /api/setup/live"]} said */
function show(said) {
	at("word").hidden = said.last_s !== null || said.confirmed_s !== null;
	const forward = at("forward");
	const live = !said.waits;
	forward.classList.toggle("primary", live);
	if (!again) say(forward, t(live ? "setup.next" : "setup.live.later"));
	redraw(at("seen"), said, words);
}

/** @param {Api["GET /api/setup/live"]} said */
function words({ first_s, confirmed_s, waits, past }) {
	if (first_s !== null)
		return [
			notice(
				waits ? "bad" : "good",
				h("p", h("b", t("setup.live.first", { time: when(first_s) }))),
				waits ? h("p", waits) : null,
			),
			notice(past === 0 ? "good" : past ? "warn" : "info", h("p", pastWords(past))),
		];
	if (confirmed_s !== null)
		return notice("info", h("p", t("setup.live.confirmed", { time: when(confirmed_s) })));
	return waits ? notice("info", h("p", waits)) : null;
}

/** Whether others go past the box. @param {number | null} past */
const pastWords = (past) =>
	past === null
		? t("setup.live.around_unknown")
		: past
			? t("setup.live.around_some", { count: past })
			: t("setup.live.around_none");

const watch = () =>
	poll("/api/setup/live", {
		every_s: EVERY_S,
		query: () => about(),
		data: show,
		error: ({ message }) => redraw(at("seen"), message, () => notice("warn", h("p", message))),
	});

onPress(at("forward"), onward);
onPress(at("confirm"), async () => {
	if (
		!(await confirm({
			title: t("setup.live.confirm_title"),
			text: t("setup.live.confirm_words"),
			yes: t("setup.live.confirm"),
		}))
	)
		return;
	await post(`/api/servers/${encodeURIComponent(server ?? "")}/live`, {});
	stop?.();
	stop = watch();
	one("#forward")?.focus();
});
/** @type {ReturnType<typeof poll> | undefined} */
let stop = server ? watch() : undefined;
