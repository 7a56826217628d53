# Algorithm 1 of the thesis, for a request that is not in the cache:
#
#   too many in flight          -> 503 + Retry-After
#   server awake                -> fetched
#   a robot                     -> 503 + Retry-After, nobody is woken
#   its share is used up        -> the same, and a page loads in words of its own
#   otherwise                   -> the server is woken, and
#       a person's page load    -> waiting page
#       anything else           -> held until the server answers
#
# Held in client context, before the request's body is read: it stays with the
# client and is streamed to the server once, after the release. There is
# nothing to replay.
#
# wake() does nothing for a server that is awake, so it is not asked first. A
# server is also called awake when the controller is gone; then wake() sends
# the magic packet, in case it is not.

sub vcl_miss {
	if (req.is_hitmiss && req.http.X-Naproxy-Cookie) {
		# A stranger did not get it, the last time.
		return (pass);
	}
	if (!req.http.X-Naproxy || req.http.X-Naproxy == "hit") {
		set req.http.X-Naproxy = "fetch";
	}
	if (local.socket == "box") {
		if (req.http.X-Naproxy-Expire) {
			return (synth(204));
		}
		if (req.is_hitmiss) {
			return (synth(409));
		}
		return (fetch);
	}
	call naproxy_refuse;
	if (naproxy.page_load()) {
		naproxy.wake(page);
	} else {
		naproxy.wake(miss);
	}
	call naproxy_wait;
	if (req.http.X-Naproxy == "held" && req.restarts < 2) {
		# Look again: another who was held may have fetched it by now, also
		# if what this one found before was outdated, see vcl_hit.
		set req.hash_always_miss = false;
		return (restart);
	}
	return (fetch);
}

sub vcl_pass {
	if (local.socket == "box") {
		# It is not kept: nobody would have anything of it.
		return (synth(409));
	}
	if (req.http.X-Naproxy-Cookie) {
		set req.http.Cookie = req.http.X-Naproxy-Cookie;
		unset req.http.X-Naproxy-Cookie;
	}
	set req.http.X-Naproxy = "pass";
	call naproxy_refuse;
	if (naproxy.page_load()) {
		naproxy.wake(page);
	} else {
		naproxy.wake(pass);
	}
	call naproxy_wait;
	return (fetch);
}

# A WebSocket. Varnish allows a hold and a synthetic answer here, so that this
# decision need not be in vcl_recv either. Whatever the client sent already is
# in the connection's buffer and goes to the server with the pipe.
sub vcl_pipe {
	set req.http.X-Naproxy = "pipe";
	call naproxy_refuse;
	naproxy.wake(pipe);
	call naproxy_wait;

	naproxy.piping();
	naproxy.outcome(pipe);
	call naproxy_bereq;
	# bereq was made from req without them. A server that opens no WebSocket
	# must end the connection with its answer, or the client's next requests
	# would go to it past these rules.
	set bereq.http.Upgrade = "websocket";
	set bereq.http.Connection = "upgrade, close";
	return (pipe);
}

# Who does not get to the server, and wakes nobody.
sub naproxy_refuse {
	# It may have fallen asleep by itself.
	naproxy.reach();
	if (!naproxy.awake()) {
		if (!naproxy.may_wake() && naproxy.defer_crawlers()) {
			set req.http.X-Naproxy = "refused";
			return (synth(503));
		}
		if (naproxy.spent()) {
			set req.http.X-Naproxy = "spent";
			return (synth(503));
		}
		if (naproxy.page_load() && naproxy.waiting_page()) {
			# Told to wait, see below: that takes no thread for long.
			return;
		}
	} elseif (!naproxy.paced()) {
		set req.http.X-Naproxy = "refused";
		return (synth(503));
	}
	if (!naproxy.admit()) {
		set req.http.X-Naproxy = "full";
		return (synth(503));
	}
}

sub naproxy_wait {
	if (naproxy.awake()) {
		return;
	}
	if (naproxy.page_load() && naproxy.waiting_page()) {
		set req.http.X-Naproxy = "waiting_page";
		return (synth(503));
	}
	set req.http.X-Naproxy = naproxy.hold();
	if (req.http.X-Naproxy == "up") {
		set req.http.X-Naproxy = "held";
		return;
	}
	# `cap`, `limit` or `gone`
	return (synth(503));
}
