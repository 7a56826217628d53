# All the rules, without the run directory: what the tests include.

import naproxy;
import purge;
import proxy;
import std;

# The servers are the VMOD's, with addresses from the page.
backend default none;

include "./recv.vcl";
include "./asleep.vcl";
include "./version.vcl";
include "./cache.vcl";
include "./ui.vcl";
include "./answer.vcl";
include "./pages.vcl";
