// The page that stands for every other while the box does not answer: since when, and asking on.

const EVERY_MS = 5000;
const { lang, dataset } = document.documentElement;
const since = /** @type {HTMLElement} */ (document.getElementById("since"));
const reached_ms = Number(localStorage.getItem("naproxy_reached_ms"));

if (reached_ms) {
	let timeZone = dataset.timeZone;
	/** @param {Date} date */
	const day = (date) => date.toLocaleDateString(lang, { timeZone });
	try {
		day(new Date());
	} catch {
		// This browser does not know the zone. The kit is not there to ask: only this file is kept.
		timeZone = "UTC";
	}
	const at = new Date(reached_ms);
	const today = day(at) === day(new Date());
	/** @type {Intl.DateTimeFormatOptions} */
	const parts = { timeZone, hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
	const time = at.toLocaleString(
		lang,
		today ? parts : { ...parts, day: "numeric", month: "long" },
	);
	since.textContent = (since.dataset.words ?? "").replace("{time}", time);
}

async function ask() {
	if (document.hidden) return;
	try {
		await fetch("/api/health", { cache: "no-store", signal: AbortSignal.timeout(EVERY_MS) });
	} catch {
		return;
	}
	location.reload();
}

setInterval(ask, EVERY_MS);
addEventListener("online", ask);
document.addEventListener("visibilitychange", ask);
document.getElementById("again")?.addEventListener("click", () => location.reload());
