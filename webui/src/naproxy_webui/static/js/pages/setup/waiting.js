// /setup/waiting: whether a wait as long as the measured wake is acceptable, and how often.

import { ApiError, at, put, t } from "../../kit/core.js";
import { onSubmit } from "../../kit/form.js";
import { waiting } from "../../kit/waiting.js";
import { refused } from "../../kit/dialog.js";
import { onward, server } from "./flow.js";

if (server) waiting(at("cards"), server).catch(refused);

onSubmit(
	at("form"),
	({ waiting: choice }) => {
		if (!choice) throw new ApiError(400, { error: t("waiting.choose") });
		return put("/api/settings/waiting", { server, choice });
	},
	onward,
);
