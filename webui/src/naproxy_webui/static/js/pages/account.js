// One's own account, and the users of the box.

import { ApiError, at, button, del, fill, get, h, one, patch, post, put, t } from "../kit/core.js";
import { confirm, open, refused, toast } from "../kit/dialog.js";
import { clearErrors, onPress, onSubmit } from "../kit/form.js";
import { dateTime } from "../kit/format.js";

// Password and language

const password = at("password-form");
onSubmit(
	password,
	(given) => {
		if (given.password !== given.again) {
			throw new ApiError(422, { error: t("account.password_differs"), where: "again" });
		}
		return put("/api/account/password", { current: given.current, password: given.password });
	},
	() => {
		password.reset();
		toast(t("account.password_saved"));
		return showAccount();
	},
);
onSubmit(
	at("language-form"),
	({ language }) => put("/api/account/language", { language }),
	() => location.reload(),
);

// The second factor

/** @param {Account["second"]} second */
function showSecond(second) {
	const button_ = (/** @type {HTMLDialogElement} */ dialog, /** @type {string} */ words) =>
		button("", words, () => open(dialog));
	fill(
		at("second"),
		second
			? [
					h("p", t("account.second_is_on_since", { time: dateTime(second.on_since_s) })),
					h(
						second.recovery_codes > 3 ? "p" : "p.bad",
						t("account.second_recovery_left", { count: second.recovery_codes }),
					),
					h(
						"div.actions",
						button_(recoveryDialog, t("account.second_recovery_make")),
						button_(offDialog, t("account.second_off")),
					),
				]
			: h("div.actions", button_(secondDialog, t("account.second_on"))),
	);
}

/** @param {string[]} codes */
function showRecovery(codes) {
	const list = h("pre.mono", { id: "recovery-codes" }, codes.join("\n"));
	return shownOnce(
		t("account.second_recovery_title"),
		t("account.second_recovery_words"),
		list,
		() => getSelection()?.selectAllChildren(list),
		codes.join("\n"),
	);
}

// Sessions and tokens

/** @param {string} words @param {string} label @param {() => unknown} work @param {string} kind */
const pressed = (words, label, work, kind = "") =>
	onPress(button(`.small${kind}`, words, null, { "aria-label": label }), work);

/** @param {string} caption @param {string[]} heads @param {Child} rows */
function table(caption, heads, rows) {
	return h(
		"div.table-wrap",
		h(
			"table.table.cards",
			h("caption.visually-hidden", caption),
			h(
				"thead",
				h(
					"tr",
					heads.map((each) => h("th", { scope: "col" }, each)),
					h("td"),
				),
			),
			h("tbody", rows),
		),
	);
}

/** @param {string} label @param {Child[]} what */
const cell = (label, ...what) => h("td", { "data-label": label }, h("span", ...what));

/**
 * The browser and the system out of a User-Agent, which has both among much else.
 * @param {string} agent
 */
function browserName(agent) {
	const browser = /(Edg|OPR|Firefox|Chrome|Safari)\//.exec(agent)?.[1];
	const system = /(Android|iPhone|iPad|Windows|Mac OS X|Linux|CrOS)/.exec(agent)?.[1];
	/** @type {Record<string, string>} */
	const known = { Edg: "Edge", OPR: "Opera" };
	const words = [browser && (known[browser] ?? browser), system].filter(Boolean).join(", ");
	return words || agent.slice(0, 60) || "–";
}

/** @param {Session} session */
function sessionRow(session) {
	const end = async () => {
		await del(`/api/account/sessions/${session.id}`);
		toast(t("account.session_ended"));
		await showAccount();
	};
	return h(
		"tr",
		cell(t("account.session_browser"), browserName(session.agent)),
		cell(t("account.session_address"), session.address),
		cell(t("account.session_since"), dateTime(session.since_s)),
		cell(t("account.session_seen"), dateTime(session.seen_s)),
		h(
			"td.end",
			session.this
				? h("span.badge", t("account.session_this"))
				: pressed(
						t("account.session_end"),
						t("account.session_end_of", { address: session.address }),
						end,
					),
		),
	);
}

/** @param {Token} token */
function tokenRow(token) {
	const remove = async () => {
		const sure = await confirm({
			title: t("account.token_delete_of", { name: token.name }),
			text: t("account.token_delete_words", { name: token.name }),
			yes: t("account.token_delete"),
			danger: true,
		});
		if (!sure) return;
		await del(`/api/account/tokens/${token.id}`);
		toast(t("account.token_deleted"));
		await showAccount();
	};
	return h(
		"tr",
		cell(t("account.token_name"), token.name),
		cell(t("account.token_scope_title"), t(`account.token_scope.${token.scope}`)),
		cell(
			t("account.token_used"),
			token.used_s === null ? t("account.token_never") : dateTime(token.used_s),
		),
		h(
			"td.end",
			pressed(
				t("account.token_delete"),
				t("account.token_delete_of", { name: token.name }),
				remove,
				".danger",
			),
		),
	);
}

async function showAccount() {
	const account = await get("/api/account");
	showSecond(account.second);
	at("sessions-end-others").hidden = account.sessions.length < 2;
	fill(
		at("sessions"),
		table(
			t("account.sessions_title"),
			[
				t("account.session_browser"),
				t("account.session_address"),
				t("account.session_since"),
				t("account.session_seen"),
			],
			account.sessions.map(sessionRow),
		),
	);
	fill(
		at("tokens"),
		account.tokens.length
			? table(
					t("account.tokens_title"),
					[
						t("account.token_name"),
						t("account.token_scope_title"),
						t("account.token_used"),
					],
					account.tokens.map(tokenRow),
				)
			: h("p", t("account.tokens_none")),
	);
}

onPress(at("sessions-end"), async () => {
	const sure = await confirm({
		title: t("account.sessions_end"),
		text: t("account.sessions_end_words"),
		yes: t("account.sessions_end"),
		danger: true,
	});
	if (!sure) return;
	await del("/api/account/sessions");
	location.assign("/login");
});

onPress(at("sessions-end-others"), async () => {
	await del("/api/account/sessions?others=true");
	toast(t("account.sessions_others_ended"));
	await showAccount();
});

/** @param {string} secret */
function showSecret(secret) {
	const field = h("input.input.mono", {
		id: "token-secret",
		readonly: true,
		value: secret,
		"aria-label": t("account.token_made"),
	});
	return shownOnce(
		t("account.token_made"),
		t("account.token_made_words"),
		field,
		() => field.select(),
		secret,
	);
}

/**
 * A secret, shown once.
 * @param {string} title @param {string} words @param {HTMLElement} what
 * @param {() => void} select @param {string} text
 */
function shownOnce(title, words, what, select, text) {
	const copying = async () => {
		select();
		try {
			await navigator.clipboard.writeText(text);
		} catch {
			document.execCommand("copy"); // without https there is no clipboard object
		}
		toast(t("account.token_copied"));
	};
	const copy = button("", t("account.token_copy"), copying, { autofocus: true });
	const form = h(
		"form.dialog",
		{ method: "dialog" },
		h("h2", { id: "token-made-title" }, title),
		h("p", words),
		what,
		h("footer", copy, h("button.button.primary", t("account.token_close"))),
	);
	return open(h("dialog", { "aria-labelledby": "token-made-title" }, form), { once: true });
}

/**
 * A dialog with a form, empty when it opens: it calls `send(values)`, then `done(answer)`.
 * @template T
 * @param {"token-dialog" | "user-dialog" | "user-password-dialog" | "second-dialog"
 *   | "second-code-dialog" | "second-recovery-dialog" | "second-off-dialog"} id
 * @param {(given: Record<string, any>) => Promise<T>} send @param {(answer: T) => unknown} done
 */
function formDialog(id, send, done) {
	const dialog = at(id);
	const form = one("form", dialog);
	onSubmit(form, send, async (answer) => {
		dialog.close();
		await done(answer);
	});
	one("[data-close]", dialog).addEventListener("click", () => dialog.close());
	dialog.addEventListener("close", () => {
		form.reset();
		clearErrors(form);
	});
	return dialog;
}

const secondDialog = formDialog(
	"second-dialog",
	(given) => post("/api/account/second", given),
	({ secret, link }) => {
		at("second-secret").textContent = secret.match(/.{4}/g)?.join(" ") ?? secret;
		/** @type {HTMLAnchorElement} */ (at("second-link")).href = link;
		open(codeDialog);
	},
);
const codeDialog = formDialog(
	"second-code-dialog",
	(given) => put("/api/account/second", given),
	async ({ recovery }) => {
		await showAccount();
		await showRecovery(recovery);
	},
);
const recoveryDialog = formDialog(
	"second-recovery-dialog",
	(given) => post("/api/account/second/recovery", given),
	async ({ recovery }) => {
		await showAccount();
		await showRecovery(recovery);
	},
);
const offDialog = formDialog(
	"second-off-dialog",
	(given) => post("/api/account/second/off", given),
	() => {
		toast(t("account.second_is_off"));
		return showAccount();
	},
);

const tokenDialog = formDialog(
	"token-dialog",
	(given) => post("/api/account/tokens", given),
	async ({ secret }) => {
		await showAccount();
		await showSecret(secret);
	},
);
at("token-make").addEventListener("click", () => open(tokenDialog));

// Users

const users = at("users");
/** @type {User} */
let changed;

/** @param {User} user */
function roleChoice(user) {
	const select = h(
		"select.input",
		{ "aria-label": t("account.user_role_of", { name: user.name }) },
		["viewer", "admin"].map((role) =>
			h(
				"option",
				{ value: role, selected: role === user.role },
				t(`account.role_choice.${role}`),
			),
		),
	);
	select.addEventListener("change", async () => {
		try {
			await patch(`/api/users/${user.id}`, { role: select.value });
			toast(t("account.user_saved"));
		} catch (error) {
			refused(error);
		}
		if (user.this) location.reload();
		else await showUsers();
	});
	return select;
}

/** @param {User} user */
function userRow(user) {
	const remove = async () => {
		const sure = await confirm({
			title: t("account.user_remove_of", { name: user.name }),
			text: t("account.user_remove_words", { name: user.name }),
			yes: t("account.user_remove"),
			danger: true,
		});
		if (!sure) return;
		await del(`/api/users/${user.id}`);
		toast(t("account.user_removed", { name: user.name }));
		await showUsers();
	};
	const setPassword = () => {
		changed = user;
		at("user-password-dialog-title").textContent = t("account.user_set_password_of", {
			name: user.name,
		});
		open(passwordDialog);
	};
	const secondOff = async () => {
		const sure = await confirm({
			title: t("account.second_off_of", { name: user.name }),
			text: t("account.second_off_words", { name: user.name }),
			yes: t("account.second_off"),
			danger: true,
		});
		if (!sure) return;
		await patch(`/api/users/${user.id}`, { second: "off" });
		toast(t("account.user_saved"));
		await showUsers();
	};
	const buttons = user.this
		? h("span.badge", t("account.user_you"))
		: h(
				"div.row",
				pressed(
					t("account.user_set_password"),
					t("account.user_set_password_of", { name: user.name }),
					setPassword,
				),
				user.second &&
					pressed(
						t("account.second_off"),
						t("account.second_off_of", { name: user.name }),
						secondOff,
					),
				pressed(
					t("account.user_remove"),
					t("account.user_remove_of", { name: user.name }),
					remove,
					".danger",
				),
			);
	return h(
		"tr",
		cell(t("account.user_name"), user.name),
		h("td", { "data-label": t("account.user_role") }, roleChoice(user)),
		h("td.end", buttons),
	);
}

async function showUsers() {
	const found = await get("/api/users");
	fill(
		users,
		table(
			t("account.users_title"),
			[t("account.user_name"), t("account.user_role")],
			found.users.map(userRow),
		),
	);
}

/** @type {HTMLDialogElement} */
let passwordDialog;
if (users) {
	const userDialog = formDialog(
		"user-dialog",
		(given) => post("/api/users", given),
		async (user) => {
			toast(t("account.user_added", { name: user.name }));
			await showUsers();
		},
	);
	at("user-add").addEventListener("click", () => open(userDialog));
	passwordDialog = formDialog(
		"user-password-dialog",
		(given) => patch(`/api/users/${changed.id}`, given),
		() => toast(t("account.user_password_saved", { name: changed.name })),
	);
}

const shown = await Promise.allSettled([showAccount(), users ? showUsers() : null]);
for (const each of shown) if (each.status === "rejected") toast(each.reason.message, "bad");
