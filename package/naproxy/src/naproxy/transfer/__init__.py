"""Fetching many files over HTTP with little energy, or fast, or both.

The four algorithms of Kosar, Alan and Bulut, "Energy-aware data throughput optimization for next
generation internet" (2018): `sla.py` steps through them, `parts.py` has their equations,
`power.py` what energy is reckoned with; all three are pure. `fetch.py` does it, with libcurl:

    from naproxy.transfer.fetch import Bounds, Job, fetch
    from naproxy.transfer.sla import parse

    report = fetch(
        [Job("http://www.example.org/style.css", size_bytes=4711, headers={"Accept": "text/css"})],
        parse("ee"),
        bounds=Bounds(most_s=10.0, most_bytes=32 << 20),
        unix_socket="/run/naproxy/box.sock",
        stop=stop,  # a threading.Event: whoever sets it ends the transfer
    )

It blocks, so a loop calls it in a thread. `report.files` tells what became of each job, in their
order.
"""
