"""All that is shared with Varnish: the page, the ring of events, the wake datagram."""
