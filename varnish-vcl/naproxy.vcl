# Naproxy's VCL. Load this file.
#
# It is compiled once, when the box's image is made: everything a user may
# change comes through the VMOD from the page (docs/architecture.md).
# What it does with a request, in the order of these files:
#
#   recv.vcl    tidy the request up; what is never looked up in the cache
#   asleep.vcl  the server is needed: refuse, wake, waiting page, hold
#   cache.vcl   what may be cached, and for how long
#   answer.vcl  what every response says about itself, and our own pages
#   pages.vcl   the text of these, made from pages/ by generate.py
#   version.vcl what only newer Varnishes can do, written by make
#   paths.vcl   where the run directory is, written by make
#   ui.vcl      where the web interface is, written by make

vcl 4.1;

include "./paths.vcl";
include "./rules.vcl";
