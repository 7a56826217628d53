// /setup/welcome: what is going to happen.

import { onPress } from "../../kit/form.js";
import { onward } from "./flow.js";

onPress(document.getElementById("forward"), onward);
