-- wrk: ask for the twenty cached pages in turn.
local n = 0
function request()
	n = (n + 1) % 20
	return wrk.format("GET", "/file-" .. n .. ".html", { Host = "bench.test" })
end
