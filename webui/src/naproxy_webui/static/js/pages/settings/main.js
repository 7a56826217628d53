// The settings: each part does something where the page has what it is for.

import { all, at, one, t } from "../../kit/core.js";
import { refused } from "../../kit/dialog.js";
import { picos } from "../../kit/pico.js";
import { nameCurrencies } from "../../kit/places.js";
import { services } from "../../kit/services.js";
import { proposal } from "../../kit/waiting.js";
import { bands } from "./bands.js";
import { carbonDioxide } from "./co2.js";
import { emptyCache, logs, machine, makers, restore } from "./box.js";
import {
	addForm,
	again,
	findField,
	lockForViewers,
	mendForm,
	removeButtons,
	sayWhatWasSaved,
	sayWhenSet,
	settingsForm,
	warnOfUnsaved,
} from "./forms.js";
import { notifications } from "./notify.js";
import { consequences, modes } from "./words.js";
import { waitingCards } from "./waiting.js";
import { week } from "./week.js";

for (const card of all("[data-week]")) week(card);
for (const place of all("[data-bands]")) bands(place);
for (const form of all("form[data-settings]")) settingsForm(form);
for (const form of all("form[data-add]")) addForm(form);
for (const form of all("form[data-mend]")) mendForm(form);
for (const input of all("input[data-find]")) findField(input);
removeButtons();
consequences();
nameCurrencies();
modes();
emptyCache();
notifications();
carbonDioxide();
logs();
makers();
restore();
machine();
preview();
bytesLeft();
warnOfUnsaved();
lockForViewers();
sayWhatWasSaved();
sayWhenSet();

for (const place of all("[data-picos]")) picos(place).catch(refused);
for (const place of all("[data-waiting]")) waitingCards(place).catch(refused);
for (const place of all("[data-proposal]")) {
	proposal(place, place.dataset.proposal ?? "", () => again(t("settings.saved"))).catch(refused);
}

for (const place of all("[data-services]")) {
	services(place, { server: place.dataset.services }, (version) => {
		for (const form of all("[data-version]")) form.dataset.version = version;
	});
}

function preview() {
	const frame = one("iframe[data-preview]");
	if (!frame) return;
	const text = one('textarea[data-where="box.notice"]');
	let timer = 0;
	const show = () => {
		const query = new URLSearchParams({
			language: at("preview-language").value,
			notice: text.value
				.replace(/\s*\n\s*/g, " ")
				.trim()
				.slice(0, 511),
		});
		frame.src = `${frame.dataset.preview}?${query}`;
	};
	text.addEventListener("input", () => {
		clearTimeout(timer);
		timer = setTimeout(show, 300);
	});
	at("preview-language").addEventListener("change", show);
}

function bytesLeft() {
	for (const place of all("[data-bytes-left]")) {
		const text = /** @type {HTMLTextAreaElement} */ (
			document.getElementById(place.dataset.bytesLeft ?? "")
		);
		const look = () => {
			place.textContent = t("settings.bytes_left", {
				count: Number(place.dataset.most) - new TextEncoder().encode(text.value).length,
			});
		};
		text.addEventListener("input", look);
		look();
	}
}
