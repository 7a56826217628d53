// Time zones and currencies, as far as the browser knows them.

import { all } from "./core.js";
import { locale } from "./format.js";

/** Time zones of currencies other than the euro, for the likely countries of this box. */
const MONEY = {
	AUD: "Australia/",
	BRL: "America/Sao_Paulo America/Bahia America/Fortaleza America/Recife America/Manaus",
	CAD: "America/Toronto America/Vancouver America/Edmonton America/Winnipeg",
	CHF: "Europe/Zurich Europe/Vaduz",
	CNY: "Asia/Shanghai Asia/Urumqi",
	CZK: "Europe/Prague",
	DKK: "Europe/Copenhagen Atlantic/Faroe",
	GBP: "Europe/London Europe/Belfast Europe/Jersey Europe/Guernsey Europe/Isle_of_Man",
	HUF: "Europe/Budapest",
	INR: "Asia/Kolkata Asia/Calcutta",
	ISK: "Atlantic/Reykjavik",
	JPY: "Asia/Tokyo",
	KRW: "Asia/Seoul",
	MXN: "America/Mexico_City America/Monterrey America/Tijuana America/Cancun",
	NOK: "Europe/Oslo",
	NZD: "Pacific/Auckland Pacific/Chatham",
	PLN: "Europe/Warsaw",
	RON: "Europe/Bucharest",
	RSD: "Europe/Belgrade",
	SEK: "Europe/Stockholm",
	SGD: "Asia/Singapore",
	TRY: "Europe/Istanbul",
	UAH: "Europe/Kyiv Europe/Kiev",
	USD: "America/New_York America/Chicago America/Denver America/Los_Angeles",
	ZAR: "Africa/Johannesburg",
};

/** The zone that this browser is in; empty if it does not say. */
export const browserZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone ?? "";

/** The money of a time zone, as far as is known; else the euro. @param {string} zone */
export const currencyOf = (zone) =>
	Object.entries(MONEY).find(([, places]) =>
		places
			.split(" ")
			.some((place) => place === zone || (place.endsWith("/") && zone.startsWith(place))),
	)?.[0] ?? "EUR";

/** Say beside each code in the list what money it is: it is found by its name, too. */
export function nameCurrencies() {
	const names = new Intl.DisplayNames(locale, { type: "currency" });
	for (const option of /** @type {HTMLOptionElement[]} */ (all("#currencies option")))
		option.label = names.of(option.value) ?? option.value;
}
