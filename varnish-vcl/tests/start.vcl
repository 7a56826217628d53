# All the rules with the test's own folder as run directory. The text is the same for each test,
# so that it is compiled once: quick/varnishd sets RUN_DIR.

vcl 4.1;

import naproxy;
import purge;
import std;

sub vcl_init {
	naproxy.open(std.getenv("RUN_DIR"));
}

# An object is past its time when a test says so.
sub vcl_hit {
	if (req.http.UA-Test-Expire) {
		purge.soft(0s);
		return (synth(204));
	}
}

include "./../rules.vcl";
