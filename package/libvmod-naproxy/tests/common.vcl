# Shared by the tests: a plain algorithm, and the VMOD's values as headers.
# The test imports naproxy and opens the page before it includes this.

backend none none;

sub vcl_recv {
	if (req.http.Identity) {
		set client.identity = req.http.Identity;
	}
	naproxy.select(req.http.host);
	set req.backend_hint = naproxy.backend();
	if (req.url == "/status") {
		return (synth(200, "status"));
	}
	if (req.http.Restarts && req.restarts == 0) {
		return (restart);
	}
	if (req.http.Upgrade) {
		return (pipe);
	}
	if (req.http.Ask) {
		return (synth(200, "asked"));
	}
	if (req.http.Pass || req.method !~ "^(GET|HEAD)$") {
		return (pass);
	}
	return (hash);
}

sub need {
	if (!naproxy.decide()) {
		return (synth(503, naproxy.became()));
	}
}

sub vcl_hit {
	if (obj.ttl < 0s) {
		naproxy.outcome(stale);
	}
}

sub vcl_miss {
	call need;
}

sub vcl_pass {
	call need;
}

sub vcl_pipe {
	call need;
	naproxy.piping();
}

sub vcl_backend_fetch {
	naproxy.fetching();
	set bereq.connect_timeout = naproxy.connect_timeout();
	set bereq.first_byte_timeout = naproxy.first_byte_timeout();
	if (bereq.is_bgfetch && !naproxy.awake()) {
		return (abandon);
	}
}

sub vcl_backend_response {
	set beresp.grace = naproxy.grace();
	set beresp.do_esi = beresp.http.Esi == "yes";
}

sub vcl_synth {
	set resp.http.Server-Id = naproxy.server();
	set resp.http.State = naproxy.state();
	set resp.http.Awake = naproxy.awake();
	set resp.http.Trusted = naproxy.trusted();
	set resp.http.Class = naproxy.class();
	set resp.http.Agent = naproxy.agent();
	set resp.http.May-Wake = naproxy.may_wake();
	set resp.http.Page-Load = naproxy.page_load();
	set resp.http.Defer-Crawlers = naproxy.defer_crawlers();
	set resp.http.Grace = naproxy.grace();
	set resp.http.Connect-Timeout = naproxy.connect_timeout();
	set resp.http.First-Byte-Timeout = naproxy.first_byte_timeout();
	set resp.http.Eta = naproxy.eta();
	set resp.http.Retry = naproxy.retry_after();
	set resp.http.Notice = naproxy.notice();
	set resp.http.Language = naproxy.language(req.http.Accept-Language, "en de fr pt-BR");
	set resp.http.Status = naproxy.status();
	if (resp.reason == "status") {
		naproxy.outcome(status);
	}
	set resp.http.Became = naproxy.report(resp.status);
	set resp.body = resp.reason;
	if (!naproxy.admit()) {
		set resp.http.Connection = "close";
	}
	return (deliver);
}

sub vcl_deliver {
	if (!naproxy.admit()) {
		naproxy.outcome(full);
		return (synth(503, "full"));
	}
	if (resp.status == 503) {
		naproxy.outcome(error);
	}
	if (!naproxy.fresh_hit(resp.status)) {
		set resp.http.Became = naproxy.report(resp.status);
	}
	set resp.http.Backend-Id = naproxy.server();
}
