# A request comes in. Nothing here wakes a server: the answer may be in the cache.
#
# The VMOD keeps the outcome of the request: naproxy.decide() or naproxy.outcome() set
# it once, and vcl_deliver and vcl_synth report it. Without one, it is a fresh hit, or an
# answer of our own.
#
# Every hit pays for the code here, so the VMOD recognizes usual requests at once: they
# need no closer look.
#
# Only the listener tells HTTPS requests apart, never a client's header: only the box's
# program that ends TLS connects to `edge`. Only the controller connects to `box`.

sub vcl_recv {
	if (req.restarts > 0) {
		# Held on a miss and let go, see vcl_miss: wait for the same
		# object with the others instead of fetching it once each.
		# Or found outdated, see vcl_hit: then as below. Expired objects
		# are never served to requests that get here.
		# Or its cookies are needed, see naproxy_stranger.
		if (naproxy.became() == "pass") {
			return (pass);
		}
		set req.grace = 0s;
		set req.hash_ignore_busy = !naproxy.awake();
		return (hash);
	}
	if (local.socket == "box") {
		call naproxy_inside;
	}
	if (naproxy.usual(local.socket == "edge")) {
		set req.backend_hint = naproxy.backend();
		return (hash);
	}
	if (naproxy.large()) {
		return (synth(431));
	}
	call naproxy_tidy;
	call naproxy_select;
	call naproxy_special;
	naproxy.accept();

	# Requests that need a sleeping server must get to vcl_miss, to be refused,
	# shown the waiting page, or held and counted. If they waited behind another
	# request's fetch of the same object, they would not be counted.
	set req.hash_ignore_busy = !naproxy.awake();
	return (hash);
}

# The box itself requests objects that it wants in the cache, as a visitor would. They
# are fetched from the server unless they are fresh. These requests wake no server and
# are not counted. X-Naproxy-Https: for HTTPS clients. X-Naproxy-Expire: expire a fresh
# object, so that the next request revalidates it.
sub naproxy_inside {
	naproxy.inside();
	if (req.method == "PURGE") {
		call naproxy_empty;
	}
	unset req.http.X-Naproxy;
	unset req.http.X-Naproxy-Cookie;
	unset req.http.X-Naproxy-Debug;
	unset req.http.X-Forwarded-Proto;
	unset req.http.Cookie;
	naproxy.select(req.http.Host);
	set req.backend_hint = naproxy.backend();
	if (naproxy.server() == "" ||
	    naproxy.state() !~ "^(awake|falling_asleep)$") {
		return (synth(503));
	}
	if (req.method != "GET" && req.method != "HEAD") {
		return (synth(405));
	}
	naproxy.accept();
	set req.grace = 0s;
	return (hash);
}

# The controller takes something out of the cache: by X-Naproxy-Tag, or by
# X-Naproxy-Server and X-Naproxy-Path, or without them all.
sub naproxy_empty {
	if (req.http.X-Naproxy-Tag) {
		call naproxy_empty_tag;
	}
	if (!naproxy.empty(req.http.X-Naproxy-Server, req.http.X-Naproxy-Path)) {
		return (synth(404));
	}
	if (!req.http.X-Naproxy-Server && !req.http.X-Naproxy-Path) {
		# The memory is free at once, too.
		std.ban("obj.status != 0");
	}
	return (synth(200, "Emptied"));
}

# Purge objects that the server has given this tag. Each ban tests only the stored
# objects, so that Varnish's lurker can work it off.
sub naproxy_empty_tag {
	if (req.http.X-Naproxy-Tag !~ "^[\w:./@=-]{1,128}$") {
		return (synth(400));
	}
	set req.http.X-Naproxy-Tag = "(^|[[:space:],])" +
	    regsuball(req.http.X-Naproxy-Tag, "\.", "[.]") +
	    "([[:space:],]|$)";
	if (!std.ban("obj.http.Cache-Tag ~ " + req.http.X-Naproxy-Tag) ||
	    !std.ban("obj.http.Surrogate-Key ~ " + req.http.X-Naproxy-Tag) ||
	    !std.ban("obj.http.xkey ~ " + req.http.X-Naproxy-Tag)) {
		return (synth(503));
	}
	naproxy.emptied();
	return (synth(200, "Emptied"));
}

sub naproxy_tidy {
	unset req.http.X-Naproxy;
	unset req.http.X-Naproxy-Cookie;
	unset req.http.X-Forwarded-Proto;
	call naproxy_host;
	if (req.http.Cookie) {
		call naproxy_own_cookies;
	}
}

# A browser sends its cookies to every port of a host: those of the web interface
# are the box's own, and no server is to see them.
sub naproxy_own_cookies {
	# As one header, or the second would go unseen.
	std.collect(req.http.Cookie, "; ");
	naproxy.own_cookies();
}

sub naproxy_select {
	naproxy.select(req.http.Host);
	if (naproxy.challenge(req.url) != "") {
		# An issuer of certificates asks the box.
		return (synth(200, "Challenge"));
	}
	set req.backend_hint = naproxy.backend();
	if (naproxy.server() == "") {
		if (naproxy.trusted()) {
			if (naproxy.servers() == 0) {
				return (synth(503, "Not set up"));
			}
			return (synth(404, "Unknown host"));
		}
		# The controller never told us of any server.
		return (synth(503));
	}
}

# Requests that are not simply looked up in the cache.
sub naproxy_special {
	if (naproxy.through() && local.socket == "edge") {
		# It is passed on unopened, and is not opened here: browsers
		# use one connection for all names that its certificate has.
		# They ask again on another (RFC 9110, 15.5.20).
		return (synth(421, "Misdirected Request"));
	}
	call naproxy_url;
	if (naproxy.https_only() && local.socket != "edge" &&
	    req.http.Host && req.url ~ "^/") {
		return (synth(308));
	}
	if (req.http.Range) {
		call naproxy_range;
	}
	call naproxy_method;

	if (naproxy.body()) {
		# A GET with a body asks for more than its URL says.
		return (pass);
	}
	if (req.method == "GET" && req.http.Upgrade ~ "(?i)^websocket$" &&
	    req.http.Connection ~ "(?i)\bupgrade\b") {
		# Other upgrades are ignored, as RFC 9110 section 7.8 allows:
		# piping h2c would let a client talk past these rules.
		return (pipe);
	}
	if (req.http.Authorization) {
		# As one header, or the second would go unseen.
		std.collect(req.http.Authorization);
		call naproxy_login;
		return (pass);
	}
	if (naproxy.owns()) {
		# Logged in, without saying so again.
		return (pass);
	}
	if (naproxy.credential()) {
		# Another header may say who is asking: X-API-Key, say.
		return (pass);
	}
	if (req.http.Accept ~ "(?i)^text/event-stream\b") {
		# Each visitor's own, see vcl_backend_response. Passed at once:
		# a server may not answer before there is an event, and a
		# second visitor must not wait for the first one's.
		return (pass);
	}
	if (req.http.Cookie) {
		call naproxy_cookies;
	}
}

# One name for one server: it is in the cache's key, and goes to the server
# like this too, so that nobody can plant links to another port in the cache.
sub naproxy_host {
	if (req.http.Host !~ "^[a-z0-9.-]*[a-z0-9-]$") {
		if (req.http.Host) {
			set req.http.Host = regsub(req.http.Host.lower(),
			    "\.?(:[0-9]*)?$", "");
		}
		if (req.http.Host !~ "^([a-z0-9._-]+|\[[0-9a-f:.]+\])$" &&
		    (req.http.Host ~ "." || req.proto == "HTTP/1.1")) {
			return (synth(400));
		}
	}
}

# Paths under /.naproxy are ours: never forwarded, never a reason to wake.
sub naproxy_url {
	if (req.url ~ "^/(?!\.naproxy(?:[/?]|$))" ||
	    (req.method == "OPTIONS" && req.url == "*")) {
		return;
	}
	if (req.url !~ "^/") {
		return (synth(400));
	}
	if (req.url !~ "^/\.naproxy/status(\?|$)") {
		return (synth(404));
	}
	if (req.method != "GET" && req.method != "HEAD") {
		return (synth(405));
	}
	unset req.http.Range;
	return (synth(200));
}

# Methods Varnish does not know (WebDAV's, say) are passed like POST, not piped
# as Varnish does: a pipe would go on past these rules.
sub naproxy_method {
	if (req.method == "GET" || req.method == "HEAD") {
		return;
	}
	if (req.method == "PURGE" && naproxy.own_server()) {
		call naproxy_purge;
	}
	if (req.method ~ "^(CONNECT|TRACE|PRI|PURGE|BAN)$") {
		return (synth(405));
	}
	return (pass);
}

# The server itself purges changed content: this URL or, with .* at its end as plugins of
# WordPress send it, all URLs that begin so. The sender's address identifies the server,
# never a header. A server can only purge its own content.
sub naproxy_purge {
	if (!naproxy.empty(naproxy.server(), regsub(req.url, "\.\*$", ""),
	    req.url !~ "\.\*$")) {
		return (synth(400));
	}
	return (synth(200, "Emptied"));
}

# These log in a connection and its later requests. So this client gets its own connection
# to the server. A proxy may serve many clients, and HTTP/2 requests come over many
# connections: there, each such request gets a connection that is closed after its answer,
# see vcl_backend_fetch.
sub naproxy_login {
	if (req.http.Authorization ~ "(?i)\b(?:ntlm|negotiate|nego2|kerberos)\b" &&
	    req.proto == "HTTP/1.1" &&
	    (local.socket != "edge" || proxy.alpn() == "http/1.1") &&
	    req.http.X-Forwarded-For !~ "," &&
	    # From Varnish 7.3 on its own word is in there.
	    (!req.http.Via || req.http.Via ~
	    "^1\.1 [^ ,]+ \((?:Varnish|Vinyl-Cache)/[0-9.]+\)$")) {
		naproxy.own();
	}
}

# Varnish answers 503 or 416 to a Range it does not understand, several ranges in
# one among them. Without it the whole is sent (RFC 9110, 14.2).
sub naproxy_range {
	if (req.http.Range !~ "^bytes=(\d{1,18}-\d{0,18}|-[1-9]\d{0,17})$") {
		unset req.http.Range;
	}
}

# Cookies that pages do not depend on do not make them personal. They are removed only if
# all of a request's cookies are such; a passed request keeps all of its cookies. A file
# is requested without cookies, as a stranger would: see naproxy_stranger.
sub naproxy_cookies {
	if (naproxy.harmless()) {
		unset req.http.Cookie;
	} else if (!naproxy.shared() || !naproxy.hide_cookie()) {
		return (pass);
	}
}

sub vcl_hash {
	# A server may redirect http to https, and must not do so for ever.
	if (local.socket == "edge" || (local.socket == "box" &&
	    req.http.X-Naproxy-Https)) {
		hash_data("https");
	}
	# A page, its data, a part of it for a script: a server may choose one, and not
	# say so by Vary.
	hash_data(naproxy.variant());
}
