// A certificate that a server has: what to paste there, and the first look.

import { ApiError, button, fill, h, icon, one, post, t } from "../../kit/core.js";
import { copier } from "../../kit/copy.js";
import { clearErrors, field, onPress, onSend, showErrors } from "../../kit/form.js";
import { configureFetch, renewNow } from "../../kit/issue.js";
import { again } from "./forms.js";

/** A folder that means no more than itself in a shell, as the box demands. */
const FOLDER = /^(\/[A-Za-z0-9_.+-]+)+\/?$/;

/** The form, if there is a server that the box can log in to. */
export function fetchForm() {
	const form = one("form[data-fetch-form]");
	if (!form) return;
	form.noValidate = true;
	const show = async () => {
		const folder = field(form, "folder").value.trim();
		// Before anything is written.
		if (!FOLDER.test(folder))
			throw new ApiError(422, { error: t("settings.https.folder_bad"), where: "folder" });
		const [chosen] = one("select", form).selectedOptions;
		chosen.dataset.id ||= await configureFetch(chosen.value);
		const id = chosen.dataset.id;
		const made = await post(`/api/certificates/${encodeURIComponent(id)}/key`, { folder });
		clearErrors(form);
		paste(form, id, made);
	};
	onSend(form, show, (error) => showErrors(form, error));
}

/** @param {HTMLFormElement} form @param {string} id @param {Loose} made */
function paste(form, id, made) {
	const text = made.script || made.line;
	const words = made.script ? "paste_words" : "line_words";
	const place = h("div", { role: "status" });
	const look = button("", [icon("refresh-cw"), t("settings.https.renew_server")]);
	onPress(look, async () => {
		if (await renewNow(id, place, { words: t("certificate.renewing") }))
			again(t("settings.https.kept"));
	});
	fill(
		one("[data-paste]", form),
		h("p", t(`settings.https.${words}`, { user: made.user })),
		h(
			"pre.paste",
			{ tabindex: "0", role: "region", "aria-label": t("settings.https.paste") },
			h("code", text),
		),
		h("div.row", copier(text)),
		h("p", t("settings.https.paste_then")),
		h("div.row", look),
		place,
	);
}
