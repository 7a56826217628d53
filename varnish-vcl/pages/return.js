// Comes back to the page the reader asked for as soon as the server is up.
// Without this script the Refresh header does it, more slowly.
(function () {
	var d = document,
		say = d.getElementById("say"),
		left = d.getElementById("left"),
		number = left && left.querySelector("b"),
		bar = d.getElementById("bar"),
		start = Date.now(),
		eta = number ? Number(number.textContent) : 0,
		polls = 0,
		done = false;

	function seconds() {
		return (Date.now() - start) / 1000;
	}
	/** @param {string | undefined} text */
	function tell(text) {
		if (say && text && say.textContent !== text) {
			say.textContent = text;
		}
	}
	function back() {
		done = true;
		if (say && left && bar) {
			tell(say.dataset.ready);
			left.hidden = true;
			bar.style.transform = "none";
		}
		location.reload();
	}
	function count() {
		var s = seconds(),
			n = Math.ceil(eta - s);
		if (done || !number || !say || !left || !bar) {
			return;
		}
		bar.className = "on";
		bar.style.transform = "scaleX(" + Math.min(1, (s + 1) / (eta + 1)) * 0.96 + ")";
		if (n > 0) {
			number.textContent = String(n);
		} else {
			left.hidden = true;
			tell(say.dataset.late);
		}
	}
	function ask() {
		if (done) {
			return;
		}
		polls++;
		fetch("/.naproxy/status", { cache: "no-store" })
			.then(function (r) {
				return r.json();
			})
			.then(function (s) {
				// Trouble counts as available, to let requests try. That is
				// worth a new page once, not while this page says trouble.
				if (
					s.available &&
					(s.state !== "trouble" || !d.body.classList.contains("trouble"))
				) {
					back();
				} else if (s.state === "asleep" && seconds() > 5 && !d.hidden) {
					// Asleep again, while nobody looked: asking wakes it. It
					// also wakes for who was taken for a robot until now.
					location.reload();
				} else if (left && number && s.eta_s > Math.max(0, eta - seconds()) + 2) {
					eta = seconds() + s.eta_s;
					left.hidden = false;
				}
			})
			.catch(function () {
				/* The box is out of reach: ask on. */
			})
			.then(next);
	}
	function next() {
		setTimeout(ask, polls < 30 ? 1000 : polls < 60 ? 2000 : 5000);
	}

	if (!window.fetch) {
		return;
	}
	addEventListener("load", function () {
		// Also ends the Refresh of the header: the waiting page stays until
		// there is something to show. The others do try now and then.
		setTimeout(function () {
			if (number) {
				window.stop();
			}
			count();
			setInterval(count, 1000);
			next();
		}, 0);
	});
})();
