// /setup/names: the names of the websites.

import { at, post } from "../../kit/core.js";
import { onSubmit } from "../../kit/form.js";
import { about, onward } from "./flow.js";

onSubmit(
	at("form"),
	({ hosts }) => post("/api/setup/names", about({ hosts: hosts ? [hosts] : [] })),
	onward,
);
