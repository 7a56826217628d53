// /setup/welcome: an overview of the steps.

import { at } from "../../kit/core.js";
import { onPress } from "../../kit/form.js";
import { onward } from "./flow.js";

onPress(at("forward"), onward);
