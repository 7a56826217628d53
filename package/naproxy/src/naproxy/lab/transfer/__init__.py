"""Fetching many files over HTTP with little energy, or fast, or both.

The four algorithms of Kosar, Alan and Bulut, "Energy-aware data throughput optimization for next
generation internet" (2018): `sla.py` steps through them, `parts.py` has their equations,
`power.py` the model of energy; all three are pure. `fetch.py` does it, with libcurl:

    from naproxy.lab.transfer.fetch import Job, fetch
    from naproxy.lab.transfer.sla import parse

    report = fetch(
        [Job("http://www.example.org/style.css", size_bytes=4711)],
        parse("ee"),
        stop=stop,  # a threading.Event: setting it ends the transfer
    )

It blocks, so a loop calls it in a thread. `report.files` has the result of each job, in their
order.
"""
