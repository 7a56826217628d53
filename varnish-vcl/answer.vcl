# Responses. Each has the outcome of its request in X-Naproxy, and the VMOD gets the
# same. Only a fresh hit has no X-Naproxy: the two numbers in X-Varnish show it. One
# more header, even one stored with the object, would cost a hit more than all else
# here, and so would removing X-Varnish.

sub vcl_deliver {
	if (resp.status == 503 && resp.http.X-Naproxy == "error") {
		return (synth(503));
	}

	if (local.socket == "box") {
		if (naproxy.became() != "other") {
			set resp.http.X-Naproxy = naproxy.became();
		}
		return (deliver);
	}
	if (!naproxy.admit()) {
		# Big, or to a client that does not read, and of these it has
		# too many.
		naproxy.outcome(full);
		return (synth(503));
	}
	if (local.socket == "edge") {
		call naproxy_hsts;
	}
	if (naproxy.browser() >= 0s) {
		call naproxy_browser;
	}
	if (naproxy.fresh_hit(resp.status)) {
		return (deliver);
	}
	if (req.http.X-Naproxy-Cookie) {
		call naproxy_stranger;
	}
	if (req.http.X-Naproxy-Debug) {
		call naproxy_cache_status;
	}
	if (resp.http.X-Naproxy-Encoding) {
		# Of a HEAD, see vcl_backend_response.
		set resp.http.Content-Encoding = resp.http.X-Naproxy-Encoding;
		unset resp.http.X-Naproxy-Encoding;
	}
	if (resp.status < 400 &&
	    req.method !~ "^(GET|HEAD|OPTIONS|PROPFIND|REPORT|SEARCH|QUERY)$") {
		# RFC 9111, 4.4. Only where the server agreed: nobody else
		# empties the cache.
		naproxy.changed();
	}
	set resp.http.X-Naproxy = naproxy.report(resp.status);
	return (deliver);
}

# The client sent cookies, but the server was asked without them. A response for everybody
# is for this client, too. Otherwise the request goes to the server with its cookies. A 404
# counts as an answer for files that browsers look for by themselves.
sub naproxy_stranger {
	if (obj.uncacheable || resp.http.Vary ~ "(?i)\bcookie\b" ||
	    (resp.status != 200 && (resp.status != 404 || req.url !~
	    "^/(?:robots\.txt|favicon\.ico|browserconfig\.xml|apple-touch-icon[\w-]*\.png)(?:\?|$)"))) {
		naproxy.outcome(pass);
		return (restart);
	}
}

# The office's time that browsers may keep it, from now on, regardless of its age.
# Personal responses keep the server's headers.
sub naproxy_browser {
	if (resp.status == 200 && !obj.uncacheable &&
	    naproxy.became() != "pass") {
		set resp.http.Cache-Control = "max-age=" +
		    (std.integer(resp.http.Age, 0) +
		    std.integer(duration=naproxy.browser()));
		unset resp.http.Expires;
	}
}

# RFC 9211, for clients that ask for it.
sub naproxy_cache_status {
	if (naproxy.became() == "pass") {
		set resp.http.Cache-Status = "Naproxy; fwd=bypass";
		if (req.method != "GET" && req.method != "HEAD") {
			set resp.http.Cache-Status = "Naproxy; fwd=method";
		}
	} else if (naproxy.became() ~ "^(hit|stale|frozen|kept)$") {
		set resp.http.Cache-Status = "Naproxy; hit; ttl=" +
		    std.integer(duration=obj.ttl);
	} else {
		set resp.http.Cache-Status = "Naproxy; fwd=miss";
		if (!obj.uncacheable) {
			set resp.http.Cache-Status = resp.http.Cache-Status +
			    "; stored; ttl=" + std.integer(duration=obj.ttl);
		}
	}
	if (naproxy.became() ~ "^(stale|frozen|kept|held)$") {
		set resp.http.Cache-Status = resp.http.Cache-Status +
		    "; detail=" + naproxy.became();
	}
}

# RFC 6797, 7.2: only over HTTPS.
sub naproxy_hsts {
	if (naproxy.hsts() > 0) {
		set resp.http.Strict-Transport-Security = "max-age=" +
		    naproxy.hsts();
	}
}

# Everything we say ourselves. Nothing of the request is repeated, but where a
# redirect leads.
sub vcl_synth {
	unset resp.http.Server;
	unset resp.http.X-Varnish;
	unset resp.http.X-Vinyl;
	set resp.http.Cache-Control = "no-store";
	set resp.http.X-Content-Type-Options = "nosniff";
	if (local.socket == "box") {
		synthetic("");
		return (deliver);
	}
	if (local.socket == "edge") {
		call naproxy_hsts;
	}

	if (resp.reason == "Emptied") {
		synthetic("");
	} else if (resp.reason == "Challenge") {
		call naproxy_challenge;
	} else if (resp.status == 200) {
		call naproxy_status;
	} else if (resp.status == 308) {
		call naproxy_redirect;
	} else if (resp.status >= 500) {
		call naproxy_unavailable;
	} else {
		call naproxy_not_served;
	}
	set resp.http.X-Naproxy = naproxy.report(resp.status);
	if (!naproxy.admit()) {
		# Nobody waits for the body of one who has too many in flight.
		set resp.http.Connection = "close";
	}
	return (deliver);
}

sub naproxy_status {
	naproxy.outcome(status);
	set resp.http.Content-Type = "application/json";
	synthetic(naproxy.status());
}

sub naproxy_challenge {
	set resp.http.Content-Type = "text/plain";
	set resp.reason = "OK";
	synthetic(naproxy.challenge(req.url));
}

# The method stays what it was, and so does a form's body. The name is one that
# naproxy_host let through.
sub naproxy_redirect {
	set resp.http.Location = "https://" + req.http.Host + req.url;
	synthetic("");
}

# The controller runs and has no server: a box that is new. Where its own pages
# are is said by the address that was asked, which nobody but the network chose.
sub naproxy_unset {
	naproxy.outcome(error);
	set resp.status = 503;
	set resp.http.Retry-After = "60";
	call naproxy_ui;
	call naproxy_page_not_set_up;
	unset resp.http.X-Naproxy-UI;
}

sub naproxy_unavailable {
	if (resp.reason == "Not set up") {
		call naproxy_unset;
		return;
	}
	set resp.status = 503;
	set resp.http.Retry-After = naproxy.eta();

	if (naproxy.became() == "refused" && !naproxy.restarts()) {
		set resp.http.Retry-After = naproxy.retry_after();
		call naproxy_page_refused;
	} else if (naproxy.became() == "refused") {
		call naproxy_page_restarting;
	} else if (naproxy.became() == "waiting_page") {
		if (naproxy.restarts()) {
			call naproxy_page_restarting;
		} else {
			call naproxy_page_waiting;
		}
	} else if (naproxy.became() == "capped") {
		if (req.method != "GET" && req.method != "HEAD") {
			call naproxy_page_unsent;
		} else {
			call naproxy_page_busy;
		}
	} else if (naproxy.became() == "full") {
		set resp.http.Retry-After = "10";
		call naproxy_page_full;
	} else if (naproxy.became() == "spent") {
		set resp.http.Retry-After = naproxy.retry_after();
		if (!naproxy.page_load()) {
			# In plain words, without a script: nothing may send a
			# form again.
			unset req.http.Accept;
		}
		call naproxy_page_spent;
	} else if (naproxy.became() == "limit") {
		if (req.method != "GET" && req.method != "HEAD") {
			call naproxy_page_unsent;
		} else {
			call naproxy_page_slow;
		}
	} else if (naproxy.became() == "gone") {
		set resp.http.Connection = "close";
		synthetic("");
	} else {
		naproxy.outcome(error);
		set resp.http.Retry-After = "15";
		call naproxy_failed;
	}

	if (req.method == "GET" && resp.http.Content-Type ~ "^text/html") {
		# Without a URL: the browser asks for the one it shows, query
		# and all. A little after the countdown, for the page's script
		# to be first.
		set resp.http.Refresh = std.integer(resp.http.Retry-After, 10) + 2;
	}
}

sub naproxy_failed {
	if (req.method != "GET" && req.method != "HEAD") {
		call naproxy_page_unsure;
	} else if (naproxy.state() == "trouble" && !naproxy.restarts()) {
		call naproxy_page_trouble;
	} else {
		call naproxy_page_error;
	}
}

sub naproxy_not_served {
	if (resp.status == 405) {
		set resp.http.Allow = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
		if (req.url ~ "^/\.naproxy/") {
			set resp.http.Allow = "GET, HEAD";
		}
		call naproxy_page_method;
	} else if (resp.status == 431) {
		set resp.reason = "Request Header Fields Too Large";
		call naproxy_page_too_large;
	} else if (resp.status == 421) {
		call naproxy_page_misdirected;
	} else if (resp.reason == "Unknown host") {
		call naproxy_page_unknown_host;
	} else if (resp.status == 404) {
		call naproxy_page_no_such_path;
	} else {
		call naproxy_page_bad_request;
	}
}
