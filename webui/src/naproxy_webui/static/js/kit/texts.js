// t() and has(): they live with the elements, which saves the home page a request.

export { has, t } from "./dom.js";
