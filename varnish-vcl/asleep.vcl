# A request that is not in the cache. The VMOD decides what becomes of it, wakes the
# server and waits for it, by algorithm 1 of the thesis: see decide.c.
#
# Held in client context, before the request's body is read: it stays with the
# client and is streamed to the server once, after the release. There is
# nothing to replay.

sub vcl_miss {
	if (req.is_hitmiss && req.http.X-Naproxy-Cookie) {
		# A stranger did not get it, the last time.
		return (pass);
	}
	unset req.http.X-Naproxy-Plain;
	if (!req.http.Accept-Encoding) {
		# Varnish has taken away what is not gzip.
		set req.http.X-Naproxy-Plain = "1";
	}
	if (local.socket == "box") {
		if (req.http.X-Naproxy-Expire) {
			return (synth(204));
		}
		if (req.is_hitmiss) {
			return (synth(409));
		}
		naproxy.outcome(fetch);
		return (fetch);
	}
	call naproxy_decide;
	if (naproxy.became() == "held" && req.restarts < 2) {
		# Look again: another held request may have fetched it by now, also
		# if this one found an outdated object before, see vcl_hit.
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
		naproxy.show_cookie();
	}
	call naproxy_decide;
	return (fetch);
}

# A WebSocket. Varnish allows a hold and a synthetic answer here, so this decision
# need not be in vcl_recv either. Bytes that the client has already sent are in the
# connection's buffer and go to the server with the pipe.
sub vcl_pipe {
	call naproxy_decide;

	naproxy.piping();
	call naproxy_bereq;
	# bereq was made from req without them. A server that opens no WebSocket
	# must end the connection with its answer, or the client's next requests
	# would go to it past these rules.
	set bereq.http.Upgrade = "websocket";
	set bereq.http.Connection = "upgrade, close";
	return (pipe);
}

sub naproxy_decide {
	if (!naproxy.decide()) {
		return (synth(503));
	}
}
