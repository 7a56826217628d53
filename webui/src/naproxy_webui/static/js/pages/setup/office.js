// /setup/office: language, name, time zone, prices. What the browser knows is offered, not decided.

import { h, post } from "../../kit/core.js";
import { onSubmit } from "../../kit/form.js";
import { onward } from "./flow.js";

const form = document.getElementById("form");
const zone = form.elements.time_zone;
const zones = Intl.supportedValuesOf?.("timeZone") ?? [];
document.getElementById("zones").append(...zones.map((value) => h("option", { value })));
if (!zone.value) zone.value = Intl.DateTimeFormat().resolvedOptions().timeZone ?? "";

for (const button of document.querySelectorAll("[data-co2]")) {
	button.addEventListener("click", () => {
		form.elements.co2_g_per_kwh.value = button.dataset.co2;
		form.elements.co2_g_per_kwh.focus();
	});
}

onSubmit(
	form,
	(values) =>
		post("/api/setup/office", { ...values, currency: values.currency?.toUpperCase() ?? null }),
	onward,
);
