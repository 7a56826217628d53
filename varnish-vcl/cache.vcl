# Which responses are cached, and for how long. docs/caching.md explains it to users.

sub vcl_hit {
	if (req.restarts > 0) {
		if (naproxy.outdated(obj.age)) {
			# Taken out since it was looked for.
			return (pass);
		}
		return (deliver);
	}
	if (naproxy.outdated(obj.age) && (!obj.http.X-Naproxy-Age ||
	    naproxy.outdated(obj.age -
	    std.duration(obj.http.X-Naproxy-Age + "s", 0s)))) {
		# A POST, say, changed it: all its variants go.
		# Varnish rounds when they end: this request may find one still.
		purge.hard();
		set req.hash_always_miss = true;
		return (restart);
	}
	if (obj.age < -60s && naproxy.awake()) {
		# The box's clock has been set back since: it would be fresh for as much
		# longer.
		purge.hard();
		set req.hash_always_miss = true;
		return (restart);
	}
	if (local.socket == "box" && req.http.X-Naproxy-Expire) {
		# In all variants. The object stays, for revalidation.
		purge.soft(0s);
		return (synth(204));
	}
	# All others are fresh hits, see vcl_deliver.
	if (obj.ttl <= 0s) {
		if (obj.grace >= 30d && naproxy.frozen(obj.status) >
		    obj.age - std.duration(obj.http.X-Naproxy-Age + "s", 0s)) {
			# The server has been asked after it began to fall
			# asleep, and has not been able to change it since.
			naproxy.outcome(frozen);
		} else if (naproxy.thawed(obj.age)) {
			# Show the server's present version, not the old one.
			return (restart);
		} else if (obj.grace >= 30d && obj.ttl + obj.grace <= 30d) {
			# Past its own grace, see vcl_backend_response.
			call naproxy_kept;
		} else {
			naproxy.outcome(stale);
		}
	}
	return (deliver);
}

# The last good answer, while the server cannot give another. Everybody gets the files
# that search engines and browsers look for on each site. Monitors that would otherwise
# be refused get everything. A server in trouble counts as awake.
sub naproxy_kept {
	if (!naproxy.awake() &&
	    (req.url ~ "^/(?:robots\.txt|favicon\.ico|[\w-]*sitemap[\w-]*\.(?:xml|xml\.gz|txt))(?:\?|$)" ||
	    (naproxy.class() == "monitor" && obj.status < 400 &&
	    !naproxy.may_wake() && naproxy.defer_crawlers()))) {
		naproxy.outcome(kept);
	} else {
		return (restart);
	}
}

sub vcl_backend_fetch {
	if (bereq.is_bgfetch && !naproxy.awake()) {
		# The stale copy is as good as it gets, and good enough: a
		# server that sleeps cannot change its files.
		return (abandon);
	}
	if (!bereq.uncacheable) {
		naproxy.caching();
		if (naproxy.plain()) {
			# Varnish would ask for gzip and unpack it, also if the response
			# proves to be personal then: see naproxy_as_sent.
			set bereq.http.Accept-Encoding = "identity";
		}
	}
	call naproxy_bereq;
	if (local.socket != "box") {
		naproxy.fetching();
	}
	if (naproxy.overtaken()) {
		# It was purged from the cache, so a 304 would be of no use.
		unset bereq.http.If-None-Match;
		unset bereq.http.If-Modified-Since;
	}
	set bereq.first_byte_timeout = naproxy.first_byte_timeout();
	if ((bereq.is_bgfetch || local.socket == "box") &&
	    bereq.first_byte_timeout > 60s) {
		# Nobody waits for it.
		set bereq.first_byte_timeout = 60s;
	}
	set bereq.between_bytes_timeout = bereq.first_byte_timeout;
	if (bereq.http.Authorization ~ "(?i)\b(?:ntlm|negotiate|nego2|kerberos)\b" &&
	    !naproxy.owns()) {
		# These log the connection in: the server takes all later requests
		# on it for this client's, so no other client may use it.
		set bereq.http.Connection = "close";
	}
	if (bereq.method !~ "^(GET|HEAD|OPTIONS|PROPFIND|REPORT|SEARCH|QUERY)$") {
		naproxy.once();
		if (!naproxy.owns()) {
			# A new connection, which nobody uses again.
			set bereq.http.Connection = "close";
		}
	}
	# Without Varnish's own rule, which takes the body of a GET away.
	return (fetch);
}

# Headers that tell the server how the request came; also for a pipe.
sub naproxy_bereq {
	unset bereq.http.X-Naproxy-Cookie;
	unset bereq.http.X-Naproxy-Debug;
	if (local.socket == "edge" || (local.socket == "box" &&
	    bereq.http.X-Naproxy-Https)) {
		set bereq.http.X-Forwarded-Proto = "https";
	} else {
		set bereq.http.X-Forwarded-Proto = "http";
	}
	unset bereq.http.X-Naproxy-Https;
	# These are unchecked and not part of the cache's key. If the server believed
	# one, a single client could choose the page that the cache keeps for all.
	naproxy.plain_names();
	call naproxy_forwarded;
	unset bereq.http.Front-End-Https;
	unset bereq.http.Client-IP;
	unset bereq.http.X-Client-IP;
	unset bereq.http.X-Cluster-Client-IP;
	unset bereq.http.X-Real-IP;
	unset bereq.http.X-Forwarded;
	unset bereq.http.X-Forwarded-Host;
	unset bereq.http.X-Forwarded-Https;
	unset bereq.http.X-Forwarded-Path;
	unset bereq.http.X-Forwarded-Port;
	unset bereq.http.X-Forwarded-Prefix;
	unset bereq.http.X-Forwarded-Protocol;
	unset bereq.http.X-Forwarded-Scheme;
	unset bereq.http.X-Forwarded-Server;
	unset bereq.http.X-Forwarded-SSL;
	unset bereq.http.X-Forwarded-Uri;
	unset bereq.http.X-Host;
	unset bereq.http.X-HTTP-Host-Override;
	unset bereq.http.X-Original-Host;
	unset bereq.http.X-Original-URI;
	unset bereq.http.X-Original-URL;
	unset bereq.http.X-Rewrite-URL;
	unset bereq.http.X-Scheme;
	unset bereq.http.X-Script-Name;
	unset bereq.http.X-Url-Scheme;
	# A CGI program takes it for the proxy of its own requests ("httpoxy").
	unset bereq.http.Proxy;
	if (bereq.method == "GET" || bereq.method == "HEAD") {
		# Programs send these with a POST, which is never cached.
		unset bereq.http.X-HTTP-Method;
		unset bereq.http.X-HTTP-Method-Override;
		unset bereq.http.X-Method-Override;
	}
	set bereq.connect_timeout = naproxy.connect_timeout();
}

# RFC 7239; the client's own is not believed. Varnish has put client.ip into
# X-Forwarded-For.
sub naproxy_forwarded {
	set bereq.http.Forwarded = "for=" +
	    regsub(client.ip, "^(.*:.*)$", {""[\1]""}) +
	    ";proto=" + bereq.http.X-Forwarded-Proto +
	    regsub(bereq.http.Host, "^(.+)$", {";host="\1""});
}

sub vcl_backend_response {
	naproxy.answered();
	# This is ours to say, see answer.vcl.
	unset beresp.http.X-Naproxy;
	unset beresp.http.X-Naproxy-Age;
	unset beresp.http.X-Naproxy-Encoding;
	if (beresp.age > 0s) {
		# How old it was when it came, for vcl_hit: Varnish keeps only
		# how old it is.
		set beresp.http.X-Naproxy-Age = beresp.age;
	}

	if (naproxy.settling()) {
		call naproxy_settle;
	}
	if (beresp.status >= 500) {
		if (bereq.is_bgfetch) {
			# Keep the stale copy.
			return (abandon);
		}
		# A second is enough for those who wait for the same object not
		# to be sent to a struggling server one after the other.
		set beresp.ttl = 1s;
		set beresp.uncacheable = true;
		return (deliver);
	}
	call naproxy_as_sent;
	if (beresp.http.Content-Type ~ "(?i)^\s*multipart/(?!byteranges\b)" ||
	    beresp.http.Content-Type ~
	    "(?i)^\s*(?:application|text)/[\w.+-]*(?:event-stream|json-?stream|stream\+|ndjson|ldjson|json-?l(?:ines)?\b|-seq\b|\bgrpc|\bconnect\+)") {
		# Events, a camera's pictures, records: personal and endless, even
		# if the server or the office allows caching. The next part may take
		# an hour.
		naproxy.stream();
		if (!bereq.uncacheable) {
			call naproxy_endless;
		}
	}
	if (bereq.uncacheable) {
		if (bereq.method == "HEAD" && beresp.http.Content-Encoding) {
			# Varnish takes it away where there is no body.
			set beresp.http.X-Naproxy-Encoding =
			    beresp.http.Content-Encoding;
		}
		return (deliver);
	}
	if (!beresp.was_304 && (naproxy.uncached() ||
	    (beresp.status >= 400 && naproxy.settling()))) {
		# From while it boots: a page may say "starting", or be missing
		# because its disk is.
		set beresp.ttl = 1s;
		set beresp.grace = 0s;
		set beresp.uncacheable = true;
		return (deliver);
	}
	if (beresp.http.Vary) {
		call naproxy_vary;
	}
	call naproxy_data;
	call naproxy_lifetime;
	if (beresp.status == 200 && naproxy.keep() > 0s) {
		# The office's time overrides the server's headers, but personal
		# responses stay personal.
		set beresp.ttl = naproxy.keep();
	}
	if (beresp.http.Cache-Tag || beresp.http.Surrogate-Key ||
	    beresp.http.xkey) {
		# As one header each, or the second would not be found.
		std.collect(beresp.http.Cache-Tag);
		std.collect(beresp.http.Surrogate-Key);
		std.collect(beresp.http.xkey);
	}
	if (naproxy.overtaken()) {
		# The cache was emptied while it was on its way.
		set beresp.ttl = 1s;
		set beresp.uncacheable = true;
		return (deliver);
	}
	if (naproxy.shared()) {
		call naproxy_file;
	}
	std.collect(beresp.http.Pragma);
	if (beresp.ttl <= 0s || naproxy.keep() == 0s ||
	    beresp.http.Set-Cookie || beresp.http.Vary ~ "\*" ||
	    beresp.http.Cache-Control ~ "(?i)\b(private|no-store|no-cache)\b" ||
	    beresp.http.CDN-Cache-Control ~ "(?i)\b(private|no-store|no-cache)\b" ||
	    (beresp.http.Pragma ~ "(?i)\bno-cache\b" &&
	    beresp.http.Cache-Control !~ "(?i)\b(s-maxage|max-age)\s*=" &&
	    beresp.http.CDN-Cache-Control !~ "(?i)\bmax-age\s*=")) {
		# Also where Surrogate-Control would let Varnish cache it.
		set beresp.ttl = 120s;
		set beresp.uncacheable = true;
		return (deliver);
	}
	if (std.integer(beresp.http.Content-Length, 0) > 8388608) {
		# One big download must not empty the cache. Passed, not
		# missed, so that its parts can be asked for by Range.
		return (pass(600s));
	}
	if (!beresp.http.Content-Length && !beresp.http.Content-Encoding &&
	    (beresp.http.Content-Disposition ~ "(?i)^\s*attachment\b" ||
	    beresp.http.Content-Type ~ "(?i)^\s*(?:audio|video)/" ||
	    beresp.http.Content-Type ~
	    "(?i)^\s*application/(?:octet-stream|ogg|x-iso9660-image)\b" ||
	    beresp.http.Content-Type ~
	    "(?i)^\s*application/(?:x-)?(?:7z|bzip2?|g?tar|g?zip|rar|xz)\b")) {
		# Nor a response of unknown length and of a type that servers do
		# not compress: a download. Pages and pictures made by programs
		# have no length either. A radio station's stream has no end.
		call naproxy_endless;
	}

	if (beresp.http.Cache-Control ~ "(?i)\b(must|proxy)-revalidate\b" ||
	    beresp.http.CDN-Cache-Control ~ "(?i)\b(must|proxy)-revalidate\b") {
		# RFC 9111, 5.2.2.2: never stale.
		set beresp.grace = 0s;
	} else if (beresp.http.Cache-Control ~ "(?i)\bs-maxage\s*=") {
		# The same in 5.2.2.10, but it often stands beside a word that
		# allows it. That Varnish has read.
		if (beresp.http.Cache-Control !~
		    "(?i)\bstale-while-revalidate\s*=") {
			set beresp.grace = 0s;
		}
	} else if (naproxy.grace() > beresp.grace) {
		set beresp.grace = naproxy.grace();
	}
	if (beresp.grace > 0s && (beresp.status < 400 || naproxy.freezes(beresp.status) ||
	    bereq.url ~ "^/(?:robots\.txt|favicon\.ico)(?:\?|$)")) {
		# 30 days more, for vcl_hit: for others it is past its time.
		# That there are no rules for robots is an answer, too, and
		# that there is no such file.
		set beresp.grace += 30d;
	}
	if (beresp.http.ETag || beresp.http.Last-Modified) {
		# Objects too old to serve can still be revalidated cheaply.
		set beresp.keep = 1h;
	}
	if (bereq.method == "GET") {
		naproxy.stored(bereq.http.X-Forwarded-Proto == "https");
	}
	if (naproxy.plain()) {
		call naproxy_pack;
	}
	if (local.socket == "box") {
		# Answered when all of it is there.
		set beresp.do_stream = false;
	}
	return (deliver);
}

# The server has just woken, and a program behind it may not be ready. Such an error is
# retried. If it must not be, the visitor gets one of our pages. A stored response is better
# than the error.
sub naproxy_settle {
	if (!beresp.was_304 && (bereq.is_bgfetch || local.socket == "box") &&
	    (beresp.status >= 400 || naproxy.uncached())) {
		return (abandon);
	}
	if (beresp.status < 502 || beresp.status > 504) {
		return;
	}
	if (naproxy.not_ready()) {
		return (retry);
	}
	if (naproxy.settling()) {
		set beresp.status = 503;
		set beresp.http.X-Naproxy = "error";
		set beresp.ttl = 0s;
		set beresp.grace = 0s;
		set beresp.uncacheable = true;
		return (deliver);
	}
}

# Bytes called gzip arrive as they were sent. Varnish would test them, and end the response
# where they are not gzip, or where something follows. The server was asked for the encoding
# that the client takes, so a passed response is not read on the way. A response that may be
# kept is tested, to be unpacked for other clients; if it cannot be, they get it as it is, too.
sub naproxy_as_sent {
	if (beresp.filters !~ "\btestgunzip\b") {
		return;
	}
	if (bereq.uncacheable) {
		set beresp.filters = regsub(beresp.filters, "\s*\btestgunzip\b", "");
	} else {
		set beresp.filters = regsub(beresp.filters, "\btestgunzip\b",
		    "testgunzip naproxy_as_sent");
	}
}

# It was asked for as it is, for one client; the cache keeps it packed, as if it had been
# asked for by a browser. Without a length it may be a stream: packing would hold it back.
sub naproxy_pack {
	if (beresp.http.Content-Encoding) {
		# The server packs it for everybody. Answered when all of it is there:
		# then it is known whether it can be unpacked.
		set beresp.do_stream = false;
	} else if (beresp.status == 200 &&
	    std.integer(beresp.http.Content-Length, 0) > 1024 &&
	    beresp.http.Content-Type ~
	    "(?i)^\s*(?:text/|image/svg|application/(?:[\w.-]+\+)?(?:json|xml|(?:x-)?javascript)\b)") {
		set beresp.do_gzip = true;
	}
}

# Passed, for those who ask next as well. Nobody reads what is fetched in the
# background, and the box reads to the end: that would fill the memory.
sub naproxy_endless {
	if (bereq.is_bgfetch || local.socket == "box") {
		return (abandon);
	}
	return (pass(600s));
}

# The scheme is in the key, and only the server is told of it: to Varnish, no two
# requests would be alike.
sub naproxy_vary {
	# As one header, or the second would go unseen.
	std.collect(beresp.http.Vary);
	set beresp.http.Vary = regsub(regsuball("," + beresp.http.Vary,
	    "(?i),\s*x-forwarded-proto\s*(?=,|$)", ""), "^[,\s]+", "");
	if (beresp.http.Vary == "") {
		unset beresp.http.Vary;
	}
}

# A server that gives data for an address whose name does not say so may give browsers a
# page there. Programs that ask for data have a key of their own, see naproxy.variant().
sub naproxy_data {
	if (beresp.http.Content-Type ~
	    "(?i)^\s*(?:text|application)/(?:(?:[\w.-]+\+)?(?:json|xml|yaml)|plain|csv|calendar)\b" &&
	    beresp.http.Vary !~ "(?i)\*|(?:^|[,\s])accept\s*(?:,|$)" &&
	    bereq.url !~ "^[^?]*\.\w{2,11}(?:\?|$)") {
		set beresp.http.Vary = regsub(beresp.http.Vary, "(.)$", "\1, ") +
		    "Accept";
	}
}

# The rules of a response's lifetime that Varnish does not know.
sub naproxy_lifetime {
	# As one header, or the second would go unseen.
	std.collect(beresp.http.CDN-Cache-Control);
	if (beresp.http.CDN-Cache-Control ~ "(?i)\bmax-age\s*=\s*\d") {
		# RFC 9213: for us, this counts instead of Cache-Control and
		# Expires. An error or a redirect stays what it is.
		if (beresp.status == 200 || beresp.ttl > 0s) {
			set beresp.ttl = std.duration(regsub(
			    beresp.http.CDN-Cache-Control,
			    "(?i)^.*?\bmax-age\s*=\s*(\d{1,9}).*$", "\1s"), 0s) -
			    beresp.age;
		}
	} else if (beresp.http.Expires && (beresp.http.Expires !~ "^[A-Z]" ||
	    std.time(beresp.http.Expires, std.time(integer=0)) <
	    std.time(integer=1)) &&
	    beresp.http.Cache-Control !~ "(?i)\b(s-maxage|max-age)\s*=") {
		# RFC 9111, 5.3: an invalid date counts as past.
		set beresp.ttl = 0s;
	} else if (!beresp.http.Expires && beresp.http.Cache-Control !~
	    "(?i)\b(?:(?:s-maxage|max-age)\s*=|public\b)") {
		call naproxy_kind;
	}
}

# The server sends no caching headers. Its response may be for one client, which it
# recognizes by something unknown to us. So the cache keeps only static parts of sites,
# files that clients look for on every site, and responses that an office's rule names.
# naproxy.keep() comes later.
sub naproxy_kind {
	if (beresp.http.Content-Type ~
	    "(?i)^\s*(?:image/|font/|text/(?:html|css|javascript|ecmascript)\b)" ||
	    beresp.http.Content-Type ~
	    "(?i)^\s*application/(?:xhtml\+xml|wasm|(?:x-)?(?:java|ecma)script|(?:x-)?font-|vnd\.ms-(?:fontobject|opentype))" ||
	    beresp.status == 301 ||
	    bereq.url ~ "^/(?:robots\.txt|favicon\.ico|[\w-]*sitemap[\w-]*\.(?:xml|xml\.gz|txt))(?:\?|$)") {
		return;
	}
	if (naproxy.shared()) {
		# A file of another kind, such as a PDF, comes from a disk if it
		# has a date. JSON or XML may be made by a program all the same.
		if (beresp.http.Last-Modified &&
		    beresp.http.Content-Type !~ "(?i)[/+](?:json|xml)\b") {
			return;
		}
	} else if (naproxy.freezes(beresp.status)) {
		# By a rule: it depends on nothing but its server.
		return;
	}
	set beresp.ttl = 0s;
}

# The name is that of a file, so the request was sent without cookies. A login page or an
# error page with status 200 is not the file: a visitor who has logged in may get the file.
# Clients look for some files on every site by name alone; for these, a page is as good an
# answer as a 404.
sub naproxy_file {
	if (beresp.status == 200 &&
	    bereq.url !~ "^/(?:robots\.txt|favicon\.ico|[\w-]*sitemap[\w-]*\.(?:xml|txt))(?:\?|$)" &&
	    (beresp.http.Content-Type ~
	    "(?i)^\s*(?:text/html|application/xhtml\+xml)\b" ||
	    (beresp.http.Content-Type ~
	    "(?i)^\s*(?:text|application)/(?:[\w.-]+\+)?(?:json|xml)\b" &&
	    bereq.url !~ "(?i)^[^?]*\.(?:js|map|mjs|svg|txt|webmanifest|xml)(?:\?|$)") ||
	    # Some servers call so whatever they do not know; a program gives no date.
	    (beresp.http.Content-Type ~ "(?i)^\s*text/plain\b" &&
	    !beresp.http.Last-Modified &&
	    bereq.url !~ "(?i)^[^?]*\.(?:css|js|map|mjs|svg|txt|webmanifest|xml)(?:\?|$)"))) {
		set beresp.ttl = 0s;
	}
}

# No answer from the server. Only mark it here: vcl_synth makes the page, because the
# client's language and Accept are known there.
sub vcl_backend_error {
	if (naproxy.may_retry()) {
		return (retry);
	}
	if (local.socket != "box" && naproxy.not_ready()) {
		return (retry);
	}
	set beresp.http.X-Naproxy = "error";
	# Varnish keeps it for those who wait for the same object already, so
	# that they need not run into the same timeout one after the other.
	set beresp.grace = 0s;
	return (deliver);
}
