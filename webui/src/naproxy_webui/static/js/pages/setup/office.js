// /setup/office: language, name, time zone, prices. The browser's values are only suggestions.

import { all, at, post } from "../../kit/core.js";
import { field, onSubmit } from "../../kit/form.js";
import { browserZone, currencyOf, nameCurrencies } from "../../kit/places.js";
import { onward } from "./flow.js";

const form = at("form");
const zone = field(form, "time_zone");
nameCurrencies();
if (!zone.value) {
	zone.value = browserZone();
	field(form, "currency").value = currencyOf(zone.value);
}

for (const button of all("[data-co2]")) {
	button.addEventListener("click", () => {
		const price = field(form, "co2_g_per_kwh");
		price.value = button.dataset.co2 ?? "";
		price.focus();
	});
}

onSubmit(
	form,
	(values) =>
		post("/api/setup/office", { ...values, currency: values.currency?.toUpperCase() ?? null }),
	onward,
);
