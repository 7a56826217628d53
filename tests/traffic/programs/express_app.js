// An application behind a proxy that it trusts, as Express's users write them.

"use strict";

const express = require("express");

const app = express();
app.set("trust proxy", true);

app.get("/first", (_request, response) => response.send("first"));

// Links are made of what the proxy says of the visitor's request.
app.get("/links", (request, response) => {
	response.set("Cache-Control", "public, max-age=60");
	response.send(`<a href="${request.protocol}://${request.host}/"></a> ${JSON.stringify(request.headers)}`);
});

app.get("/cart", (request, response) => {
	response.set("Cache-Control", "public, max-age=60");
	response.send(request.xhr ? "<b>part</b>" : "<html><b>part</b></html>");
});

// Node says what the page will need, and then the page.
app.get("/early", (_request, response) => {
	response.writeEarlyHints({ link: "</style.css>; rel=preload; as=style" }, () => response.send("page"));
});

app.listen(Number(process.argv[2]), "127.0.0.1");
