// /setup/welcome: what is going to happen.

import { at } from "../../kit/core.js";
import { onPress } from "../../kit/form.js";
import { onward } from "./flow.js";

onPress(at("forward"), onward);
