# common.vcl with the test's own folder, which is the server's identity, as run directory.
# The text is the same for each test; quick.vcli has it compiled quickly.

import naproxy;

sub vcl_init {
	naproxy.open(server.identity);
}

include "./common.vcl";
