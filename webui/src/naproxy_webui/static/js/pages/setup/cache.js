// /setup/cache: the pages that the box may answer while the server sleeps, after a look at the
// website.

import { all, ApiError, at, fill, h, notice, one, post, t } from "../../kit/core.js";
import { onPress, onSubmit, sentence } from "../../kit/form.js";
import { share as percent } from "../../kit/format.js";
import { follow } from "../../kit/jobs.js";
import { about, onward } from "./flow.js";

const form = at("form");
/** @type {Record<string, string>} */
const NAMES = {
	wordpress: "WordPress",
	nextcloud: "Nextcloud",
	joomla: "Joomla",
	drupal: "Drupal",
	typo3: "TYPO3",
	synology: "Synology",
};

/** @param {Loose} found */
function facts({ asked, found, made_with: made, personal, cookies, redirects }) {
	const set = cookies.map((/** @type {Loose} */ each) => each.name).join(", ");
	return [
		t("setup.cache.looked", { ...asked, of: found.pages + found.files }),
		made in NAMES && t("setup.cache.made_with", { name: NAMES[made] }),
		personal.pages > 0 &&
			t("setup.cache.personal", { count: personal.pages, pages: asked.pages }),
		set && t("setup.cache.cookies", { names: set }),
		asked.pages === 0 && redirects > 0 && t("setup.cache.redirects"),
	];
}

/** @param {SetupJob} status */
function show({ result }) {
	const lines = facts(result).filter(Boolean);
	const kind = result.asked.pages ? "good" : "warn";
	fill(
		at("seen"),
		notice(
			kind,
			h(
				"ul.list",
				lines.map((line) => h("li", line)),
			),
			again(),
		),
	);
	for (const place of all("[data-share]", form)) {
		const of = place.dataset.share ?? "";
		const share = of === "allowed" && !result.rules.length ? null : result.asleep[of];
		place.hidden = share === null;
		const text = place.dataset.text ?? "share";
		if (share !== null) place.textContent = t(`setup.cache.${text}`, { share: percent(share) });
	}
	fill(at("rules"), result.rules.map(part));
	// Pages that were the same for everybody: the box can go on checking that.
	if (result.rules.length && !chosen) at("pages").checked = true;
	showParts();
}

let chosen = false;
/** Rules are for pages that are not to be checked. */
function showParts() {
	at("parts").hidden = at("pages").checked || !one("#rules").childElementCount;
}
at("pages").addEventListener("change", () => {
	chosen = true;
	showParts();
});

/** @param {Loose} rule */
const part = ({ path, pages }) =>
	h(
		"label.check",
		h("input", { type: "checkbox", name: "paths", value: path }),
		h(
			"span",
			path === "/" ? t("setup.cache.all_pages") : [h("span.mono", path), " "],
			h("span.hint", t("setup.cache.part", { count: pages })),
		),
	);

const again = () =>
	h("p", onPress(h("button.button.small", { type: "button" }, t("setup.cache.again")), look));

async function look() {
	fill(at("seen"), h("p.loading", t("setup.cache.looking")));
	try {
		show(await follow("/api/setup/site", { body: about(), query: about(), fresh: true }));
	} catch (error) {
		if (!(error instanceof ApiError)) throw error;
		fill(at("seen"), notice("warn", h("p", sentence(error.message)), again()));
	}
}

onSubmit(
	form,
	() =>
		post(
			"/api/setup/cache",
			about({
				mode: one("input[name=mode]:checked", form).value,
				pages: at("pages").checked ? "verified" : "rules",
				paths: at("parts").hidden
					? []
					: all("input[name=paths]:checked", form).map((each) => each.value),
			}),
		),
	onward,
);
look();
