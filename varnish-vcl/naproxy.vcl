# Naproxy's VCL. Load this file.
#
# It is compiled once, when the box's image is made: everything a user may
# change comes through the VMOD from the page (docs/architecture.md).
# The steps of a request, in the order of these files:
#
#   recv.vcl    tidy the request up; requests that bypass the cache
#   asleep.vcl  the server is needed: refuse, wake, waiting page, hold
#   cache.vcl   which responses are cached, and for how long
#   answer.vcl  the headers of every response, and our own pages
#   pages.vcl   the text of these, made from pages/ by generate.py
#   version.vcl features of newer Varnishes only, written by make
#   paths.vcl   the run directory, written by make
#   ui.vcl      the web interface's address, written by make

vcl 4.1;

include "./paths.vcl";
include "./rules.vcl";
