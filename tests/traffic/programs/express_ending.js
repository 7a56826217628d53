// An application that ends connections: idle ones soon, others instead of an answer.
// Its words: port, log, how long an idle connection is kept in ms.

"use strict";

const fs = require("node:fs");
const express = require("express");

const [port, log, keptMs] = process.argv.slice(2);
const app = express();

app.use((request, response, next) => {
	fs.appendFileSync(log, `"${request.method} ${request.url} HTTP/1.1"\n`);
	response.set("Cache-Control", "no-store");
	next();
});

app.use("/end", (request) => request.socket.destroy());
app.use((_request, response) => response.send("first"));

const server = app.listen(Number(port), "127.0.0.1");
server.keepAliveTimeout = Number(keptMs);
server.keepAliveTimeoutBuffer = 0;
